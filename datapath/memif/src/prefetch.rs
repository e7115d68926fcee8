//! Hints to the processor: what will be read or written soon. Here for the engine, too.

const LINE: usize = 64;
/// Bytes of a buffer or packet that are worth a hint: a packet of 1 KiB. What is behind them the
/// processor expects by itself.
pub const EXPECTED: usize = 1152;

/// Starts to fetch the cache lines of `len` bytes at `at` into the first cache.
#[inline]
pub fn read(at: *const u8, len: usize) {
    lines::<false>(at, len);
}

/// Starts to fetch the lines of `len` bytes to be written. Other processors that have these lines
/// lose them.
#[inline]
pub fn write(at: *const u8, len: usize) {
    lines::<true>(at, len);
}

#[inline]
fn lines<const WRITE: bool>(at: *const u8, len: usize) {
    if len == 0 {
        return;
    }
    // From the start of the first line: else the last one would be left out of bytes that do not
    // begin one.
    let before = at.addr() % LINE;
    let (at, len) = (at.wrapping_sub(before), len + before);
    let mut offset = 0;
    while offset < len {
        line::<WRITE>(at.wrapping_add(offset));
        offset += LINE;
    }
}

#[inline]
fn line<const WRITE: bool>(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which accesses nothing and cannot fault, whatever the address. Processors
    // without it do nothing.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        if WRITE {
            // By its name: what the compiler has for it is a hint to read, unless every processor
            // is known to have this one.
            core::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags));
        } else {
            _mm_prefetch::<_MM_HINT_T0>(at.cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
