//! Bytes that are registered, and the copies out of them and into them.

use crate::error::Error;
use core::ops::{Bound, RangeBounds};
use core::ptr::NonNull;
use datapath::memory::Backing;
use std::sync::Arc;

/// The offsets that a range of `len` bytes begins and ends at.
pub(super) fn bounds(range: impl RangeBounds<usize>, len: usize) -> (usize, usize) {
    let start = match range.start_bound() {
        Bound::Included(&start) => Some(start),
        Bound::Excluded(&before) => before.checked_add(1),
        Bound::Unbounded => Some(0),
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => last.checked_add(1),
        Bound::Excluded(&end) => Some(end),
        Bound::Unbounded => Some(len),
    };
    // An index behind the last one there can be is out of bounds of any region.
    (start.unwrap_or(usize::MAX), end.unwrap_or(usize::MAX))
}

/// How many bytes are from `start` to `end`, if both are inside of `len`.
#[inline]
pub(super) const fn check(start: usize, end: usize, len: usize) -> Result<usize, Error> {
    match end.checked_sub(start) {
        Some(count) if end <= len => Ok(count),
        _ => Err(Error::OutOfBounds { start: start as u64, end: end as u64, len: len as u64 }),
    }
}

/// A backing, which was asked once where its bytes are: a program that polls on them looks millions
/// of times a second.
pub(crate) struct Bytes {
    start: NonNull<u8>,
    len: usize,
    backing: Arc<dyn Backing>,
}

// SAFETY: `Backing` is `Send` and `Sync`, and `start` is no more than what `Backing::base` returns
// to any thread; its bytes, which peers write at any time as well, are valid as long as the
// backing, which goes along.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl Bytes {
    pub fn new(backing: Arc<dyn Backing>) -> Self {
        Self { start: backing.base(), len: backing.len(), backing }
    }

    pub const fn backing(&self) -> &Arc<dyn Backing> {
        &self.backing
    }

    pub const fn len(&self) -> usize {
        self.len
    }

    /// The address of the first.
    pub fn addr(&self) -> u64 {
        self.start.as_ptr().addr() as u64
    }

    /// The first. It is valid as long as `self`.
    pub const fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Where `len` bytes from `offset` on are, if they are inside. They are valid as long as
    /// `self`.
    #[inline]
    pub fn at(&self, offset: usize, len: usize) -> Result<NonNull<u8>, Error> {
        check(offset, offset.saturating_add(len), self.len)?;
        // SAFETY: the offset is inside the backing, or at its end.
        Ok(unsafe { self.start.add(offset) })
    }

    /// Copies bytes from `offset` on into `target`.
    #[inline]
    pub fn read(&self, offset: usize, target: &mut [u8]) -> Result<(), Error> {
        let source = self.at(offset, target.len())?;
        // SAFETY: the range is inside the backing; `target` is a Rust reference, so it is not
        // registered memory.
        unsafe { target.as_mut_ptr().copy_from_nonoverlapping(source.as_ptr(), target.len()) };
        Ok(())
    }

    /// Copies `source` to the bytes from `offset` on.
    #[inline]
    pub fn write(&self, offset: usize, source: &[u8]) -> Result<(), Error> {
        let target = self.at(offset, source.len())?;
        // SAFETY: as in `read`.
        unsafe { target.as_ptr().copy_from_nonoverlapping(source.as_ptr(), source.len()) };
        Ok(())
    }
}
