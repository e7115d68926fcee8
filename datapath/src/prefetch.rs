//! Hints to the processor: what will be needed soon.

/// Starts to fetch the cache line of `at` into the first cache.
#[inline]
pub(crate) fn read<T>(at: *const T) {
    line::<false>(at.cast());
}

/// The same with a line that will be written.
#[inline]
pub(crate) fn write<T>(at: *const T) {
    line::<true>(at.cast());
}

/// Starts to fetch all cache lines of `value` into the first cache, and nothing that it points to.
#[inline]
pub fn read_all<T>(value: &T) {
    read_lines(core::ptr::from_ref(value).cast(), size_of::<T>());
}

/// The same with all lines of bytes.
#[inline]
pub(crate) fn read_bytes(bytes: &[u8]) {
    read_lines(bytes.as_ptr(), bytes.len());
}

/// The same with the lines of `len` bytes.
#[inline]
pub(crate) fn read_lines(start: *const u8, len: usize) {
    lines::<false>(start, len);
}

/// The same with lines that will be written.
#[inline]
pub(crate) fn write_lines(start: *const u8, len: usize) {
    lines::<true>(start, len);
}

#[inline]
fn lines<const WRITE: bool>(start: *const u8, len: usize) {
    const LINE: usize = 64;
    if len == 0 {
        return;
    }
    // From the start of the first line: else the last one would be left out of bytes that do not begin one.
    let before = start.addr() % LINE;
    let (start, len) = (start.wrapping_sub(before), len + before);
    let mut offset = 0;
    while offset < len {
        line::<WRITE>(start.wrapping_add(offset));
        offset += LINE;
    }
}

#[inline]
fn line<const WRITE: bool>(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, which accesses nothing and cannot fault, whatever the address. Processors that do not know it take it
        // for no operation.
        unsafe {
            if WRITE {
                _mm_prefetch::<_MM_HINT_ET0>(at.cast())
            } else {
                _mm_prefetch::<_MM_HINT_T0>(at.cast())
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
