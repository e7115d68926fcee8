//! A ring of descriptors in shared memory: what memif says of packets and free buffers.
//!
//! The client's side counts `head` and the server's `tail`, whichever way packets go: to the
//! server, `head` tells of packets and `tail` of those taken; to the client, `head` tells of free
//! buffers and `tail` of packets.

use crate::error::Refusal;
use crate::prefetch;
use crate::region::Region;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

// A descriptor is read and written as two words.
const _: () = assert!(cfg!(target_endian = "little"));

/// Bytes in front of the descriptors: a cache line for each side.
const HEAD_LEN: usize = 128;
/// Bytes of a descriptor.
const DESC_LEN: usize = 16;
/// Bytes of a slot's buffer at most: DPDK's and ours have a length of 16 bits.
const BUFFER_LEN_MAX: usize = 1 << 16;
/// Where `flags`, `head` and `tail` are, in bytes.
const FLAGS_AT: usize = 4;
const HEAD_AT: usize = 6;
const TAIL_AT: usize = 64;
/// What a ring begins with.
const COOKIE: u32 = 0x3E3_1F20;
/// Whoever takes packets polls for them.
const MASK_INTERRUPT: u16 = 1;
/// The packet goes on in the next descriptor.
const NEXT: u16 = 1;
/// Binary logarithm of the slots of the longest ring.
pub const SIZE_LOG2_MAX: u8 = 14;

/// Bytes of a ring whose number of slots has this binary logarithm, at most [`SIZE_LOG2_MAX`].
#[must_use]
pub const fn ring_len(size_log2: u8) -> usize {
    HEAD_LEN + (DESC_LEN << size_log2)
}

/// One slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Desc {
    /// More of the packet follows in the next slot.
    pub more: bool,
    pub region: u16,
    /// The length of the packet, or of the free buffer, in bytes.
    pub length: u32,
    /// The offset of the buffer in its region, in bytes.
    pub offset: u32,
}

impl Desc {
    const fn first_word(self) -> u64 {
        (if self.more { NEXT as u64 } else { 0 }) | (self.region as u64) << 16 | (self.length as u64) << 32
    }
}

/// A ring whose place in its region was checked.
#[derive(Debug)]
pub(crate) struct Ring {
    base: NonNull<u8>,
    mask: u16,
    /// Keeps the memory.
    _region: Arc<Region>,
}

// SAFETY: `base` points into memory that the region keeps mapped wherever this goes; it is used
// through atomic words only.
unsafe impl Send for Ring {}

impl Ring {
    /// The ring of `1 << size_log2` slots at `offset`.
    pub(crate) fn new(region: &Arc<Region>, offset: u32, size_log2: u8) -> Result<Self, Refusal> {
        if !(1..=SIZE_LOG2_MAX).contains(&size_log2) {
            return Err(Refusal::Protocol("a ring's size is out of range"));
        }
        if !(offset as usize).is_multiple_of(DESC_LEN) {
            return Err(Refusal::Protocol("a ring is not aligned"));
        }
        let base = region.at(offset as usize, ring_len(size_log2)).and_then(NonNull::new);
        let base = base.ok_or(Refusal::Protocol("a ring is not within its region"))?;
        Ok(Self { base, mask: (1 << size_log2) - 1, _region: Arc::clone(region) })
    }

    /// Begins it: for who made the memory.
    pub(crate) fn begin(&self) {
        self.cookie().store(COOKIE, Ordering::Relaxed);
        self.flags().store(MASK_INTERRUPT, Ordering::Relaxed);
    }

    pub(crate) fn is_begun(&self) -> bool {
        self.cookie().load(Ordering::Relaxed) == COOKIE
    }

    /// Bytes of memory that it and its buffers take at most.
    pub(crate) const fn needed(&self) -> usize {
        HEAD_LEN + self.size() as usize * (DESC_LEN + BUFFER_LEN_MAX)
    }

    /// Slots.
    pub(crate) const fn size(&self) -> u16 {
        self.mask + 1
    }

    /// Says that packets in it are polled for.
    pub(crate) fn mask_interrupt(&self) {
        self.flags().fetch_or(MASK_INTERRUPT, Ordering::Relaxed);
    }

    /// Asks for an interrupt whenever packets come.
    pub(crate) fn unmask_interrupt(&self) {
        self.flags().fetch_and(!MASK_INTERRUPT, Ordering::Relaxed);
    }

    /// Returns `true` if whoever takes packets from it polls.
    #[inline]
    pub(crate) fn is_polled(&self) -> bool {
        self.flags().load(Ordering::Relaxed) & MASK_INTERRUPT != 0
    }

    #[inline]
    pub(crate) fn head(&self) -> &AtomicU16 {
        self.short(HEAD_AT)
    }

    #[inline]
    pub(crate) fn tail(&self) -> &AtomicU16 {
        self.short(TAIL_AT)
    }

    /// The slot with this number, modulo the size.
    #[inline]
    pub(crate) fn desc(&self, number: u16) -> Desc {
        let [first, second] = self.words(number).map(|word| word.load(Ordering::Relaxed).to_le_bytes());
        let [f0, f1, r0, r1, l0, l1, l2, l3] = first;
        let [o0, o1, o2, o3, ..] = second;
        Desc {
            more: u16::from_le_bytes([f0, f1]) & NEXT != 0,
            region: u16::from_le_bytes([r0, r1]),
            length: u32::from_le_bytes([l0, l1, l2, l3]),
            offset: u32::from_le_bytes([o0, o1, o2, o3]),
        }
    }

    /// Writes all of a slot.
    pub(crate) fn set(&self, number: u16, desc: Desc) {
        let [first, second] = self.words(number);
        first.store(desc.first_word(), Ordering::Relaxed);
        second.store(desc.offset.into(), Ordering::Relaxed);
    }

    /// Writes a slot whose buffer stays where it is.
    #[inline]
    pub(crate) fn set_length(&self, number: u16, region: u16, length: u32) {
        let [first, _] = self.words(number);
        first.store(Desc { more: false, region, length, offset: 0 }.first_word(), Ordering::Relaxed);
    }

    /// Starts to fetch a slot, to write it.
    #[inline]
    pub(crate) fn prefetch(&self, number: u16) {
        prefetch::write(self.base.as_ptr().wrapping_add(self.place(number)), DESC_LEN);
    }

    /// Where a slot is, in bytes.
    #[inline]
    fn place(&self, number: u16) -> usize {
        HEAD_LEN + usize::from(number & self.mask) * DESC_LEN
    }

    #[inline]
    fn words(&self, number: u16) -> [&AtomicU64; 2] {
        let at = self.place(number);
        // SAFETY: within the ring, whose place was checked, and aligned like it; valid as long as
        // `self`, and used by both processes through atomic accesses.
        [at, at + 8].map(|at| unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) })
    }

    fn flags(&self) -> &AtomicU16 {
        self.short(FLAGS_AT)
    }

    #[inline]
    fn short(&self, at: usize) -> &AtomicU16 {
        // SAFETY: as in `words`; `at` is even and within the head.
        unsafe { AtomicU16::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    fn cookie(&self) -> &AtomicU32 {
        // SAFETY: as in `words`; it is the first.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().cast()) }
    }
}
