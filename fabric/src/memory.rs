//! The memory of all hosts: one page of equal bytes, mapped again and again.

use core::ptr::NonNull;
use datapath::memory::Backing;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::io;

/// Every byte of every payload.
pub const FILL: u8 = 0xA5;
/// Bytes that are really there; the rest of a region are the same ones.
const PAGE: usize = 64 << 10;

/// Memory of which every 64 KiB are the same bytes, all [`FILL`]. WRITEs between hosts that share
/// it change nothing, and it takes little of the caches.
#[derive(Debug)]
pub struct SharedMemory {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the bytes are only reached through raw pointers and atomics, as `Backing` demands.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// At least `len` bytes.
    ///
    /// # Errors
    /// Those of `memfd_create`, `ftruncate` and `mmap`.
    pub fn new(len: usize) -> io::Result<Self> {
        let len = len.next_multiple_of(PAGE);
        let file = memfd_create("srnic-fabric", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, PAGE as u64)?;
        rustix::io::pwrite(&file, &[FILL; PAGE], 0)?;
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let base =
            unsafe { mmap_anonymous(core::ptr::null_mut(), len, ProtFlags::empty(), MapFlags::PRIVATE)? };
        let memory = Self { base: NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?, len };
        let both = ProtFlags::READ | ProtFlags::WRITE;
        for offset in (0..len).step_by(PAGE) {
            // SAFETY: the place lies inside the mapping just made, which nobody uses yet.
            unsafe {
                let place = base.cast::<u8>().add(offset).cast();
                mmap(place, PAGE, both, MapFlags::SHARED | MapFlags::FIXED, &file, 0)?;
            }
        }
        Ok(memory)
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and whoever had the backing is gone with it.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

// SAFETY: the mapping lives as long as the value, readable and writable, and nobody makes
// references to it.
unsafe impl Backing for SharedMemory {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn len(&self) -> usize {
        self.len
    }
}
