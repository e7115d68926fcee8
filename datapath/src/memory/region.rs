//! The bytes behind a key, and the copies into and out of them.

use super::copy::copy;
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};
use icrc::Kernel;
use std::alloc::{Layout, alloc_zeroed};
use wire::Head;

/// Memory that peers and the engine may read and write at any time while it is registered.
///
/// # Safety
/// `base()` and `len()` must return the same each time. The bytes must stay valid for reads and
/// writes until the value is dropped. No Rust reference may exist to bytes that a peer may reach by
/// a key, or that a work request names which has not completed: access to those goes through raw
/// pointers or atomics only.
pub unsafe trait Backing: Send + Sync {
    /// First byte.
    fn base(&self) -> NonNull<u8>;
    /// Length in bytes.
    fn len(&self) -> usize;
    /// True if there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Zeroed heap memory, 64-byte aligned, as a backing.
pub struct HeapBacking {
    lines: Box<[UnsafeCell<Line>]>,
    len: usize,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    _bytes: [u8; 64],
}

// SAFETY: the bytes are only reached through raw pointers and atomics, as `Backing` demands.
unsafe impl Sync for HeapBacking {}

impl HeapBacking {
    /// `len` zeroed bytes. Ends the process if the system has not as many, as every allocation of
    /// Rust's does.
    #[must_use]
    pub fn new(len: usize) -> Self {
        // The allocator's zeroed pages, not a loop: a region of gigabytes is made at once, and
        // touched when used.
        let lines = Box::new_zeroed_slice(len.div_ceil(64));
        // SAFETY: a line is an array of bytes, for which zeros are a value.
        Self { lines: unsafe { lines.assume_init() }, len }
    }

    /// Zeroed memory of `len` bytes; `None` if the system has not as many.
    #[must_use]
    pub fn try_new(len: usize) -> Option<Self> {
        let layout = Layout::array::<Line>(len.div_ceil(64)).ok()?;
        if layout.size() == 0 {
            return Some(Self::new(len));
        }
        // SAFETY: the layout has bytes.
        let lines = NonNull::new(unsafe { alloc_zeroed(layout) })?.cast::<UnsafeCell<Line>>();
        let lines = NonNull::slice_from_raw_parts(lines, len.div_ceil(64));
        // SAFETY: the global allocator made them with the layout of that slice, and zeros are a
        // value of a line.
        Some(Self { lines: unsafe { Box::from_raw(lines.as_ptr()) }, len })
    }
}

// SAFETY: the box owns at least `len` bytes and never moves them; nothing hands out a reference to
// them.
unsafe impl Backing for HeapBacking {
    fn base(&self) -> NonNull<u8> {
        NonNull::from(&*self.lines).cast()
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// A checked range of registered memory: valid for as long as the table it came from is borrowed.
#[derive(Clone, Copy)]
pub struct Mapped<'a> {
    start: NonNull<u8>,
    len: usize,
    _table: PhantomData<&'a ()>,
}

impl<'a> Mapped<'a> {
    /// # Safety
    /// `start` must be valid for reads and writes of `len` bytes during `'a`, as [`Backing`]
    /// promises.
    pub(crate) const unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len, _table: PhantomData }
    }

    /// Nothing at all: what a zero-length access maps to, whatever its key.
    #[must_use]
    pub const fn empty() -> Self {
        Self { start: NonNull::dangling(), len: 0, _table: PhantomData }
    }

    /// Length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if there are no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The `len` bytes from byte `start` on, or as many as there are.
    #[inline]
    #[must_use]
    pub(crate) fn part(&self, start: usize, len: usize) -> Self {
        let start = start.min(self.len);
        // SAFETY: `start` is within the range, or its end.
        Self { start: unsafe { self.start.add(start) }, len: len.min(self.len - start), _table: PhantomData }
    }

    /// Copies `source` to the start of the range; its last aligned word is stored last, with
    /// release order, for those who poll on it.
    ///
    /// # Panics
    /// If `source` is longer than the range.
    #[inline(always)]
    pub fn write(&self, source: &[u8]) {
        assert!(source.len() <= self.len, "the caller checked the length");
        let split = last_word_offset(self.start, source.len());
        let (body, tail) = source.split_at(split);
        // SAFETY: `body` fits the range (asserted); the packet and the region cannot overlap,
        // because nothing holds a Rust reference to registered memory.
        unsafe { copy(body.as_ptr(), self.start.as_ptr(), body.len()) };
        // SAFETY: split <= len, so the pointer stays inside the range.
        let last = unsafe { self.start.add(split) };
        store_tail(last, tail);
    }

    /// The last word of that.
    #[inline(always)]
    fn write_tail(&self, source: &[u8]) {
        assert!(source.len() <= self.len, "the caller checked the length");
        let split = last_word_offset(self.start, source.len());
        // SAFETY: split <= len, so the pointer stays inside the range.
        let last = unsafe { self.start.add(split) };
        store_tail(last, &source[split..]);
    }

    /// Copies `payload`, which ends where the ICRC of `frame_from_l3` begins, to the start of the
    /// range, if the ICRC is right: false if not. In one pass, where the kernel can: then what came
    /// is there even if it is not right, and in any order. The last aligned word of what is right
    /// is stored once more in the end, as [`write`](Self::write) stores it; what a program that
    /// polls on it may have seen before is nothing to rely on.
    ///
    /// # Panics
    /// If `payload` is longer than the range.
    #[inline(always)]
    pub(crate) fn write_verified(&self, kernel: Kernel, frame_from_l3: &[u8], payload: &[u8]) -> bool {
        assert!(payload.len() <= self.len, "the caller checked the length");
        // SAFETY: the length is asserted; the packet is a Rust reference, so it is not registered
        // memory.
        let verified = unsafe { kernel.verify_and_place(frame_from_l3, payload, self.start) };
        match verified {
            Some(true) => self.write_tail(payload),
            None if kernel.verify(frame_from_l3) => self.write(payload),
            Some(false) | None => return false,
        }
        true
    }

    /// Copies the start of the range to `target`.
    ///
    /// # Panics
    /// If `target` is longer than the range.
    #[inline]
    pub fn read(&self, target: &mut [u8]) {
        assert!(target.len() <= self.len, "the caller checked the length");
        // SAFETY: the length is asserted; `target` is a Rust reference, so it is not registered
        // memory.
        unsafe { copy(self.start.as_ptr(), target.as_mut_ptr(), target.len()) };
    }

    /// Copies the first `len` bytes of the range to `frame_from_l3` from byte `at` on, pads them,
    /// and writes the ICRC of the bytes that were copied, whatever happens to the range meanwhile.
    ///
    /// # Panics
    /// If `len` is longer than the range, or does not fit the frame.
    #[inline]
    pub(crate) fn read_sealed(&self, kernel: Kernel, frame_from_l3: &mut [u8], at: usize, len: usize) {
        assert!(len <= self.len, "the caller checked the length");
        // SAFETY: the length is asserted; the frame is a Rust reference, so it is not registered
        // memory.
        unsafe { kernel.copy_and_seal(frame_from_l3, at, self.start, len) };
    }

    /// Writes a packet whose payload is the whole range: `head`, which begins with the IP header,
    /// the payload, its pad, and the ICRC of the bytes that were copied, whatever happens to the
    /// range meanwhile.
    ///
    /// # Panics
    /// If `frame_from_l3` has another length than those have together.
    #[inline(always)]
    pub(crate) fn emit(&self, kernel: Kernel, head: Head, frame_from_l3: &mut [u8]) {
        let source = NonNull::slice_from_raw_parts(self.start, self.len);
        // SAFETY: the range is readable; the frame is a Rust reference, so it is not registered
        // memory.
        unsafe { kernel.emit(head, frame_from_l3, source) };
    }
}

impl Mapped<'_> {
    /// The first 8 bytes of the range as one word that the CPUs of this host share; `None` if they
    /// are fewer, or not aligned in memory.
    fn word(&self) -> Option<&AtomicU64> {
        let at = self.start.as_ptr().cast::<u64>();
        if self.len < size_of::<u64>() || !at.is_aligned() {
            return None;
        }
        // SAFETY: the 8 bytes are inside the range and aligned (checked above), and everyone else
        // reaches them through raw pointers or atomics, as `Backing` demands.
        Some(unsafe { AtomicU64::from_ptr(at) })
    }

    /// Adds `value` to the word at the start, host order, wrapping; returns what was there before.
    /// `None` if there is no aligned word.
    #[must_use]
    pub fn fetch_add(&self, value: u64) -> Option<u64> {
        Some(self.word()?.fetch_add(value, Ordering::AcqRel))
    }

    /// Stores `swap` into the word at the start if it is `compare`; returns what was there before.
    /// `None` if there is no aligned word.
    #[must_use]
    pub fn compare_swap(&self, compare: u64, swap: u64) -> Option<u64> {
        let swapped = self.word()?.compare_exchange(compare, swap, Ordering::AcqRel, Ordering::Acquire);
        Some(swapped.unwrap_or_else(|before| before))
    }

    /// Returns `true` if the range starts with a word that atomics can work on.
    #[must_use]
    pub fn is_atomic(&self) -> bool {
        self.word().is_some()
    }
}

/// Where the last 8-byte word that is aligned in memory starts, or `len` if none ends the range.
#[inline(always)]
fn last_word_offset(start: NonNull<u8>, len: usize) -> usize {
    if len < 8 || !(start.as_ptr().addr() + len).is_multiple_of(8) { len.saturating_sub(1) } else { len - 8 }
}

/// Stores the last word, or the last byte, with release order.
#[inline(always)]
fn store_tail(at: NonNull<u8>, tail: &[u8]) {
    fence(Ordering::Release);
    match (tail.len(), <[u8; 8]>::try_from(tail)) {
        (8, Ok(word)) => {
            // SAFETY: the caller split the range so that these 8 bytes are inside it and aligned;
            // everyone else reaches them through raw pointers or atomics.
            let cell = unsafe { AtomicU64::from_ptr(at.as_ptr().cast()) };
            cell.store(u64::from_ne_bytes(word), Ordering::Release);
        }
        _ => {
            if let [byte] = tail {
                // SAFETY: as above, for one byte.
                let cell = unsafe { AtomicU8::from_ptr(at.as_ptr()) };
                cell.store(*byte, Ordering::Release);
            }
        }
    }
}
