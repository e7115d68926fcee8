//! Hints to the processor: what will be written soon.

const LINE: usize = 64;

/// Starts to fetch the cache lines of `len` bytes at `at` for writing. The peer's processor has them.
#[inline]
pub(crate) fn write(at: *mut u8, len: usize) {
    let mut offset = 0;
    while offset < len {
        line(at.wrapping_add(offset));
        offset += LINE;
    }
}

#[inline]
fn line(at: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which accesses nothing and cannot fault, whatever the address. Processors without it do nothing.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
