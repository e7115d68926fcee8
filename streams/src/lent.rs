//! Memory of the pool's in the hands of a program.

use crate::pool::Chunk;
use core::ptr::NonNull;
use core::slice;

/// Bytes of a chunk that the program reads or writes in place. Whoever drops it gives the chunk
/// back.
pub struct Lent {
    chunk: Chunk,
    offset: usize,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: `new` promises that nobody else has the bytes, of whatever thread it is.
unsafe impl Send for Lent {}
// SAFETY: a shared reference only reads.
unsafe impl Sync for Lent {}

impl Lent {
    /// The `len` bytes from `start` on, which is `offset` bytes behind the beginning of the chunk.
    ///
    /// # Safety
    /// For as long as this has them, the bytes are registered memory that is there and initialised,
    /// no work request that has not completed names them, no window shows them to a peer, nobody
    /// else has a `Lent` of them, and the chunk is not free in the pool.
    pub const unsafe fn new(chunk: Chunk, offset: usize, start: NonNull<u8>, len: usize) -> Self {
        Self { chunk, offset, start, len }
    }

    pub const fn chunk(&self) -> Chunk {
        self.chunk
    }

    /// Where its first byte is in the chunk.
    pub const fn offset(&self) -> usize {
        self.offset
    }

    pub const fn bytes(&self) -> &[u8] {
        // SAFETY: `new` promises that the bytes are there, and that nobody else writes them.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    pub const fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; nobody else reads them, either.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// Lets go of the first `len` bytes, or of all if there are fewer.
    pub fn skip(&mut self, len: usize) {
        let len = len.min(self.len);
        // SAFETY: no further than the end of the bytes.
        self.start = unsafe { self.start.add(len) };
        (self.offset, self.len) = (self.offset + len, self.len - len);
    }
}

/// Memory for bytes that are to be written, behind room for a header, and how many bytes of it a
/// program has put in.
#[derive(Default)]
pub struct Filled {
    /// `None`: it was given back.
    pub lent: Option<Lent>,
    pub len: usize,
}

impl Filled {
    pub fn bytes(&self) -> &[u8] {
        self.lent.as_ref().map_or(&[], |lent| &lent.bytes()[..self.len])
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.lent {
            Some(lent) => &mut lent.bytes_mut()[..self.len],
            None => &mut [],
        }
    }

    /// The memory behind the bytes.
    pub fn space(&mut self) -> &mut [u8] {
        match &mut self.lent {
            Some(lent) => &mut lent.bytes_mut()[self.len..],
            None => &mut [],
        }
    }

    /// The chunk, and where its first byte is there.
    pub fn place(&self) -> Option<(Chunk, usize)> {
        self.lent.as_ref().map(|lent| (lent.chunk(), lent.offset()))
    }

    /// The first `len` bytes are written.
    pub fn skip(&mut self, len: usize) {
        if let Some(lent) = &mut self.lent {
            lent.skip(len);
            self.len = self.len.saturating_sub(len);
        }
    }
}
