//! Hints to the processor: what will be needed soon.

use memif::prefetch;

/// Starts to fetch the cache line of `at` into the first cache.
#[inline]
pub(crate) fn read<T>(at: *const T) {
    prefetch::read(at.cast(), 1);
}

/// Starts to fetch the cache line of `at` into the first cache, to be written.
#[inline]
pub(crate) fn write<T>(at: *const T) {
    prefetch::write(at.cast(), 1);
}

/// Starts to fetch all cache lines of `value` into the first cache, and nothing that it points to.
#[inline]
pub fn read_all<T>(value: &T) {
    read_lines(core::ptr::from_ref(value).cast(), size_of::<T>());
}

/// Starts to fetch all cache lines of `bytes` into the first cache.
#[inline]
pub(crate) fn read_bytes(bytes: &[u8]) {
    read_lines(bytes.as_ptr(), bytes.len());
}

/// Starts to fetch the cache lines of `len` bytes from `start` on into the first cache.
#[inline]
pub(crate) fn read_lines(start: *const u8, len: usize) {
    prefetch::read(start, len);
}
