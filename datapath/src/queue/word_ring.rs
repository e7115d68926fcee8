//! A ring of fixed-size entries, one writer and one reader, readable in place and more than once.

use super::sync::{AtomicU32, AtomicU64, CachePadded, Ordering};
use crate::prefetch;

/// Entries of `stride` 64-bit words each; positions count up for ever and wrap at 2^32.
///
/// Order: the writer stores an entry's words (relaxed), then publishes the position behind it (`tail`, release); the
/// reader loads `tail` (acquire), so it sees the words of every entry below it. The reader hands entries back by
/// publishing `head` (release); the writer loads `head` (acquire) before it overwrites them, so its stores cannot
/// come before the reader's last loads.
pub struct WordRing {
    words: Box<[AtomicU64]>,
    stride: usize,
    mask: u32,
    tail: CachePadded<AtomicU32>,
    head: CachePadded<AtomicU32>,
}

impl WordRing {
    /// A ring of at least `entries` entries (rounded up to a power of two, at most 2^31) of `stride` words, whose first
    /// entry has the position `start`.
    #[must_use]
    pub fn new(entries: u32, stride: usize, start: u32) -> Self {
        let entries = entries.clamp(1, 1 << 31).next_power_of_two();
        let words = (0..entries as usize * stride).map(|_| AtomicU64::new(0)).collect();
        let position = || CachePadded::new(AtomicU32::new(start));
        Self { words, stride, mask: entries - 1, tail: position(), head: position() }
    }

    /// Entries of the ring.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.mask + 1
    }

    /// Bytes of its entries.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    /// The words of the entry at `position`.
    #[inline]
    #[must_use]
    pub fn entry(&self, position: u32) -> &[AtomicU64] {
        let start = (position & self.mask) as usize * self.stride;
        &self.words[start..start + self.stride]
    }

    /// The first `N` words of the entry at `position`, which must have as many.
    #[inline(always)]
    #[must_use]
    pub fn words<const N: usize>(&self, position: u32) -> &[AtomicU64; N] {
        debug_assert!(N <= self.stride, "{N} of {} words", self.stride);
        let start = (position & self.mask) as usize * self.stride;
        let Some(words) = self.words[start..].first_chunk() else {
            unreachable!("the last entry ends the ring")
        };
        words
    }

    /// Starts to fetch what every look at the ring needs.
    #[inline]
    pub(crate) fn expect(&self) {
        prefetch::read(&raw const self.words);
        prefetch::read(&raw const *self.tail);
        prefetch::read(&raw const *self.head);
    }

    /// Starts to fetch the first line of the entry at `position`, soon after [`WordRing::expect`].
    #[inline]
    pub(crate) fn expect_entry(&self, position: u32) {
        prefetch::read(self.entry(position).as_ptr());
    }

    /// Position behind the last published entry.
    #[inline]
    #[must_use]
    pub fn tail(&self) -> u32 {
        self.tail.load(Ordering::Acquire)
    }

    /// Position of the oldest entry not handed back.
    #[inline]
    #[must_use]
    pub fn head(&self) -> u32 {
        self.head.load(Ordering::Acquire)
    }

    /// Writer only: publishes all entries below `tail`.
    #[inline]
    pub fn publish(&self, tail: u32) {
        self.tail.store(tail, Ordering::Release);
    }

    /// Reader only: hands all entries below `head` back.
    #[inline]
    pub fn release(&self, head: u32) -> Freed {
        self.head.store(head, Ordering::Release);
        Freed(())
    }
}

/// Proof that the places of requests are free, without which completions that were written together do not show: who polls one
/// may post into its place at once.
pub struct Freed(());

/// Loads a word whose entry was ordered by `tail` or `head`.
#[inline]
pub fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

/// Stores a word that a later publish orders.
#[inline]
pub fn store(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Relaxed);
}

/// Two 32-bit values in one word, the first in the low half.
#[inline]
pub const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

/// The low and the high half of a word.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the halves of a word are what is wanted")]
pub const fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}
