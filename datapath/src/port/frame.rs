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
