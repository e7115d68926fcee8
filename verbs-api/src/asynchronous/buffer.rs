//! Buffers that operations own.

use super::lock;
use crate::error::Error;
use crate::memory::MemoryRegion;
use core::fmt;
use core::task::Waker;
use datapath::queue::Sge;
use std::sync::{Arc, Mutex};

/// A memory region cut into buffers of one size. Clones name the same one.
#[derive(Clone)]
pub struct BufferPool {
    inner: Arc<Pool>,
}

struct Pool {
    region: MemoryRegion,
    size: usize,
    free: Mutex<Free>,
}

#[derive(Default)]
struct Free {
    buffers: Vec<usize>,
    /// Wait for a buffer to come back: streams of several tasks may share the pool.
    waiting: Vec<Waker>,
}

impl BufferPool {
    /// Cuts `region` into buffers of `size` bytes; what is left over at its end is not used.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] if not even one fits, or `size` is 0.
    pub fn new(region: MemoryRegion, size: usize) -> Result<Self, Error> {
        let count = region.len().checked_div(size).unwrap_or(0);
        if count == 0 {
            return Err(Error::OutOfBounds { start: 0, end: size as u64, len: region.len() as u64 });
        }
        // The first is on top.
        let free = Free { buffers: (0..count).rev().collect(), waiting: Vec::new() };
        Ok(Self { inner: Arc::new(Pool { region, size, free: Mutex::new(free) }) })
    }

    /// A buffer that nobody uses, if there is one.
    #[must_use]
    pub fn take(&self) -> Option<Buffer> {
        let index = lock(&self.inner.free).buffers.pop()?;
        Some(Buffer { pool: Arc::clone(&self.inner), index, len: 0 })
    }

    /// Takes a free buffer. If there is none, `waker` is told when one comes back.
    pub(super) fn take_or_wait(&self, waker: &Waker) -> Option<Buffer> {
        let mut free = lock(&self.inner.free);
        let Some(index) = free.buffers.pop() else {
            if !free.waiting.iter().any(|waiting| waiting.will_wake(waker)) {
                free.waiting.push(waker.clone());
            }
            return None;
        };
        Some(Buffer { pool: Arc::clone(&self.inner), index, len: 0 })
    }

    /// Buffers that nobody uses.
    #[must_use]
    pub fn free(&self) -> usize {
        lock(&self.inner.free).buffers.len()
    }
}

/// Registered bytes that are one's own: no operation uses them while one holds this. Dropping it
/// gives them back.
pub struct Buffer {
    pool: Arc<Pool>,
    index: usize,
    len: usize,
}

impl Buffer {
    /// Bytes that it has room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.pool.size
    }

    /// Bytes that it holds: those written to it, or received.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Replaces what it holds.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] if that is more than fits; it is unchanged then.
    pub fn set(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.check(bytes.len())?;
        self.pool.region.write(self.start(), bytes)?;
        self.len = bytes.len();
        Ok(())
    }

    /// A copy of what it holds.
    ///
    /// # Errors
    /// Never, but that of [`MemoryRegion::read`] has its type.
    pub fn to_vec(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; self.len];
        self.pool.region.read(self.start(), &mut bytes)?;
        Ok(bytes)
    }

    /// The first eight bytes that it holds as a number, host order: what an atomic found.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] if it holds fewer.
    pub fn to_u64(&self) -> Result<u64, Error> {
        let mut word = [0; 8];
        if self.len < word.len() {
            return Err(Error::OutOfBounds { start: 0, end: word.len() as u64, len: self.len as u64 });
        }
        self.pool.region.read(self.start(), &mut word)?;
        Ok(u64::from_ne_bytes(word))
    }

    /// Sets the length of the buffer, as for a READ. The bytes keep their values.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`].
    pub fn resize(&mut self, len: usize) -> Result<(), Error> {
        self.check(len)?;
        self.len = len;
        Ok(())
    }

    /// Sets the length to that of the message that arrived, which is not longer than the request
    /// that took it.
    pub(super) fn received(&mut self, len: u32) {
        self.len = (len as usize).min(self.pool.size);
    }

    /// The bytes that it holds, or all that it has room for.
    pub(super) fn slice(&self, whole: bool) -> Result<Sge, Error> {
        let len = if whole { self.pool.size } else { self.len };
        self.pool.region.slice(self.start()..self.start() + len)
    }

    fn start(&self) -> usize {
        self.index * self.pool.size
    }

    fn check(&self, len: usize) -> Result<(), Error> {
        if len <= self.pool.size {
            return Ok(());
        }
        Err(Error::OutOfBounds { start: 0, end: len as u64, len: self.pool.size as u64 })
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer {} with {} of {} bytes", self.index, self.len, self.pool.size)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let waiting = {
            let mut free = lock(&self.pool.free);
            free.buffers.push(self.index);
            core::mem::take(&mut free.waiting)
        };
        // All: one of them may be cancelled by now.
        waiting.into_iter().for_each(Waker::wake);
    }
}
