//! Hints to the processor: what will be needed soon.

/// Starts to fetch the cache line of `at` into the first cache.
#[inline]
pub(crate) fn read<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, which accesses nothing and cannot fault, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// The same with all lines of a value.
#[inline]
pub(crate) fn read_all<T>(value: &T) {
    const LINE: usize = 64;
    let start = core::ptr::from_ref(value).cast::<u8>();
    for offset in (0..size_of::<T>()).step_by(LINE) {
        read(start.wrapping_add(offset));
    }
}
