//! Numbers of descriptors that are noted, so that all others cost a look at a bit.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};

/// Descriptors whose numbers can be noted.
const MOST: c_int = 1 << 16;
const WORDS: usize = MOST.cast_unsigned() as usize / 64;

/// A set of descriptors' numbers.
pub struct Numbers([AtomicU64; WORDS]);

impl Numbers {
    /// The largest number that can be noted.
    pub const LAST: c_int = MOST - 1;

    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; WORDS])
    }

    /// The word and the bit of a descriptor.
    fn place(&self, fd: c_int) -> Option<(&AtomicU64, u64)> {
        let fd = usize::try_from(fd).ok()?;
        Some((self.0.get(fd / 64)?, 1 << (fd % 64)))
    }

    pub fn has(&self, fd: c_int) -> bool {
        self.place(fd).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// Returns `false` for a number that is too large to be noted.
    pub fn note(&self, fd: c_int) -> bool {
        let Some((word, bit)) = self.place(fd) else { return false };
        word.fetch_or(bit, Ordering::Relaxed);
        true
    }

    /// Returns `true` if it was noted.
    pub fn forget(&self, fd: c_int) -> bool {
        self.place(fd).is_some_and(|(word, bit)| word.fetch_and(!bit, Ordering::Relaxed) & bit != 0)
    }
}
