//! Memory that two processes share.

use crate::error::Refusal;
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{
    FsWord, MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs, ftruncate, memfd_create,
};
use std::os::fd::OwnedFd;

/// Longest region that is taken from a peer, in bytes: a descriptor's offset has 32 bits.
pub(crate) const LEN_MAX: u64 = 1 << 32;

/// The kind of the file system that huge pages are in: `HUGETLBFS_MAGIC` of linux/magic.h.
const HUGETLBFS_MAGIC: FsWord = 0x9584_58F6;

/// A mapped region, which stays without its descriptor. Only raw pointers into it are ever handed
/// out.
#[derive(Debug)]
pub(crate) struct Region {
    map: MmapRaw,
}

impl Region {
    /// A new one of `len` bytes, all zero, and the file that a peer can map.
    pub(crate) fn create(len: usize) -> Result<(Self, OwnedFd), Refusal> {
        let file = memfd_create("srnic-memif", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, len as u64)?;
        // Who maps it need not fear that it becomes shorter.
        fcntl_add_seals(&file, SealFlags::SHRINK)?;
        Ok((Self { map: MmapOptions::new().len(len).populate().map_raw(&file)? }, file))
    }

    /// The peer's, which must be that long and stay so: to touch memory that was cut off would kill
    /// us. So would touching a hole in memory of huge pages, when there is no huge page left to
    /// fill it; ordinary memory reads as zero there.
    pub(crate) fn map(file: OwnedFd, len: u64) -> Result<Self, Refusal> {
        if fstatfs(&file).is_ok_and(|about| about.f_type == HUGETLBFS_MAGIC) {
            return Err(Refusal::Protocol("its memory is of huge pages, parts of which can be taken away"));
        }
        let sealed = fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
        if !sealed {
            return Err(Refusal::Protocol("its memory is not sealed against shrinking"));
        }
        if len > LEN_MAX || !is_as_long(&file, len) {
            return Err(Refusal::Protocol("its memory is not as long as it says, or too long"));
        }
        let Ok(len) = usize::try_from(len) else { return Err(Refusal::Protocol("its memory is too long")) };
        // Not populated: what a peer offers and nobody uses costs nothing.
        Ok(Self { map: MmapOptions::new().len(len).map_raw(&file)? })
    }

    /// In bytes.
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// Where its `len` bytes from `offset` on are, if it has them.
    #[inline]
    pub(crate) fn at(&self, offset: usize, len: usize) -> Option<*mut u8> {
        let end = offset.checked_add(len)?;
        // In bounds, so the pointer does not wrap.
        (end <= self.map.len()).then(|| self.map.as_mut_ptr().wrapping_add(offset))
    }
}

fn is_as_long(file: &OwnedFd, len: u64) -> bool {
    let has = fstat(file).ok().and_then(|known| u64::try_from(known.st_size).ok());
    len > 0 && has.is_some_and(|has| len <= has)
}

/// Returns `true` if a peer's region can be what it says: memory of at least `len` bytes, which is
/// not 0, to read and to write.
#[must_use]
pub fn can_be_mapped(file: &OwnedFd, len: u64) -> bool {
    let map = |len| MmapOptions::new().len(len).map_raw(file);
    is_as_long(file, len) && usize::try_from(len).is_ok_and(|len| map(len).is_ok())
}
