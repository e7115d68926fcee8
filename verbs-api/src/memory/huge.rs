//! Memory in hugepages.

use crate::error::Error;
use core::ptr::NonNull;
use datapath::memory::Backing;
use memmap2::{Advice, MmapMut, MmapOptions, MmapRaw};
use std::io;

/// 2 MiB: x86-64 has pages of this size, and aarch64 with its usual base pages.
const PAGE_BITS: u8 = 21;
const PAGE_LEN: usize = 1 << PAGE_BITS;

/// What to do where the system has no hugepages to spare.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum HugepagePolicy {
    /// Take ordinary pages, and ask the system to make hugepages of them when it can (`madvise`).
    #[default]
    Prefer,
    /// Fail.
    Require,
}

/// Zeroed memory in pages of 2 MiB, to be registered with
/// [`ProtectionDomain::register_backing`](crate::ProtectionDomain::register_backing).
pub struct HugeBacking {
    map: MmapRaw,
    len: usize,
    huge: bool,
}

impl HugeBacking {
    /// `len` zeroed bytes, rounded up to whole pages inside.
    ///
    /// # Errors
    /// [`Error::Hugepages`] if the policy requires them and there are none, or if there is no
    /// memory at all.
    pub fn new(len: usize, policy: HugepagePolicy) -> Result<Self, Error> {
        let fails = |source| Error::Hugepages { len, source };
        // The kernel unmaps whole pages only.
        let whole = len.max(1).checked_next_multiple_of(PAGE_LEN);
        let whole = whole.ok_or_else(|| fails(io::ErrorKind::OutOfMemory.into()))?;
        let (map, huge) = match MmapOptions::new().len(whole).huge(Some(PAGE_BITS)).map_anon() {
            Ok(map) => (map, true),
            Err(_) if policy == HugepagePolicy::Prefer => (ordinary(whole).map_err(fails)?, false),
            Err(error) => return Err(fails(error)),
        };
        Ok(Self { map: map.into(), len, huge })
    }

    /// Returns `true` if the pages are huge for certain: reserved ones, not those that the system
    /// may make of ordinary ones.
    #[must_use]
    pub const fn is_huge(&self) -> bool {
        self.huge
    }
}

fn ordinary(len: usize) -> io::Result<MmapMut> {
    let map = MmapOptions::new().len(len).map_anon()?;
    // A kernel built without transparent hugepages says no, which is all it means.
    let _ = map.advise(Advice::HugePage);
    Ok(map)
}

// SAFETY: the mapping is readable and writable for its length, stays where it is until dropped, and
// no reference to its bytes is made.
unsafe impl Backing for HugeBacking {
    fn base(&self) -> NonNull<u8> {
        // The system maps nothing at address 0.
        NonNull::new(self.map.as_mut_ptr()).unwrap_or(NonNull::dangling())
    }

    fn len(&self) -> usize {
        self.len
    }
}
