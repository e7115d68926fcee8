//! Frame buffers, all made at the start.

/// A buffer on loan from its [`FramePool`]. Not `Copy`: it is given back once.
#[derive(PartialEq, Eq, Debug)]
pub struct Buffer(usize);

/// A fixed number of buffers of one size.
#[derive(Debug)]
pub struct FramePool {
    bytes: Box<[u8]>,
    free: Vec<Buffer>,
    size: usize,
}

impl FramePool {
    /// `count` buffers of `size` bytes.
    pub fn new(count: usize, size: usize) -> Self {
        Self {
            bytes: vec![0; count * size].into_boxed_slice(),
            free: (0..count).rev().map(Buffer).collect(),
            size,
        }
    }

    /// Bytes in a buffer.
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Lends a buffer.
    pub fn take(&mut self) -> Option<Buffer> {
        self.free.pop()
    }

    /// Takes a buffer back.
    pub fn give(&mut self, buffer: Buffer) {
        self.free.push(buffer);
    }

    /// The bytes of a buffer.
    pub fn get(&self, buffer: &Buffer) -> &[u8] {
        &self.bytes[buffer.0 * self.size..][..self.size]
    }

    /// The bytes of a buffer, to write.
    pub fn get_mut(&mut self, buffer: &Buffer) -> &mut [u8] {
        &mut self.bytes[buffer.0 * self.size..][..self.size]
    }

    /// Lends a buffer that begins with a copy of the first `len` bytes of another.
    pub fn duplicate(&mut self, original: &Buffer, len: usize) -> Option<Buffer> {
        let copy = self.take()?;
        let from = original.0 * self.size;
        self.bytes.copy_within(from..from + len, copy.0 * self.size);
        Some(copy)
    }

    #[cfg(test)]
    pub fn free(&self) -> usize {
        self.free.len()
    }
}
