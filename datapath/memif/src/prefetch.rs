//! Hints to the processor: what will be read or written soon.

const LINE: usize = 64;

/// Starts to fetch the cache lines of `len` bytes at `at` for writing. The peer's processor has them.
#[inline]
pub(crate) fn write(at: *mut u8, len: usize) {
    lines::<true>(at, len);
}

/// The same for reading.
#[inline]
pub(crate) fn read(at: *const u8, len: usize) {
    lines::<false>(at, len);
}

#[inline]
fn lines<const WRITE: bool>(at: *const u8, len: usize) {
    // From the start of the first line: else the last one would be left out of bytes that do not begin one.
    let (at, len) = (at.wrapping_sub(at.addr() % LINE), len + at.addr() % LINE);
    let mut offset = 0;
    while offset < len {
        line::<WRITE>(at.wrapping_add(offset));
        offset += LINE;
    }
}

#[inline]
fn line<const WRITE: bool>(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which accesses nothing and cannot fault, whatever the address. Processors without it do nothing.
    unsafe {
        if WRITE {
            core::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags));
        } else {
            core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at.cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
