//! Frames that wait in memory of our own.

/// A frame's bytes, in a buffer that is made once.
#[derive(Debug)]
pub struct Frame {
    /// The buffer, as long as the longest frame.
    pub bytes: Box<[u8]>,
    /// Bytes of the frame in it.
    pub len: usize,
}

impl Frame {
    /// An empty buffer.
    pub fn new(max_frame: usize) -> Self {
        Self { bytes: vec![0; max_frame].into(), len: 0 }
    }

    /// The frame.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Makes it a copy of another one, which must not be longer than the buffer.
    pub fn copy_from(&mut self, frame: &[u8]) {
        self.bytes[..frame.len()].copy_from_slice(frame);
        self.len = frame.len();
    }
}

/// A ring of frames, which waits for who takes the oldest.
#[derive(Debug)]
pub struct FrameRing {
    frames: Box<[Frame]>,
    head: usize,
    waiting: usize,
}

impl FrameRing {
    /// A ring of so many frames of at most `max_frame` bytes.
    pub fn new(count: usize, max_frame: usize) -> Self {
        Self { frames: (0..count).map(|_| Frame::new(max_frame)).collect(), head: 0, waiting: 0 }
    }

    /// Frames that wait.
    pub const fn len(&self) -> usize {
        self.waiting
    }

    /// The buffer behind the newest frame; `None` if the ring is full.
    #[inline]
    pub fn free(&mut self) -> Option<&mut Frame> {
        let tail = (self.head + self.waiting) % self.frames.len();
        (self.waiting < self.frames.len()).then(|| &mut self.frames[tail])
    }

    /// What was written to the free buffer is the newest frame.
    #[inline]
    pub const fn push(&mut self) {
        self.waiting += 1;
    }

    /// The oldest frame, if one waits.
    pub fn front(&mut self) -> Option<&mut Frame> {
        (self.waiting > 0).then(|| &mut self.frames[self.head])
    }

    /// Drops the oldest frame, if one waits.
    pub fn pop(&mut self) {
        if self.waiting > 0 {
            self.head = (self.head + 1) % self.frames.len();
            self.waiting -= 1;
        }
    }
}
