//! A ring of entries, one writer and one reader, readable in place and more than once.

use super::entries::Entries;
use super::sync::{AtomicU32, AtomicU64, CachePadded, Ordering};
use crate::prefetch;
use std::sync::Arc;

/// Entries of 64-bit words, of `stride` each or as `E` has them; positions count up for ever and
/// wrap at 2^32.
///
/// Order: the writer stores an entry's words (relaxed), then publishes the position behind it
/// (`tail`, release); the reader loads `tail` (acquire), so it sees the words of every entry below
/// it. The reader hands entries back by publishing `head` (release); the writer loads `head`
/// (acquire) before it overwrites them, so its stores cannot come before the reader's last loads.
///
/// Each end has a copy, which is the same ring.
#[derive(Clone)]
pub struct WordRing<P = Apart, E = Entries> {
    entries: E,
    positions: P,
}

/// The positions of a ring, where both ends publish how far they are. Every clone refers to the
/// same positions.
pub trait Positions: Clone {
    /// Behind the last published entry: the writer's.
    fn tail(&self) -> &AtomicU32;

    /// Of the oldest entry not handed back: the reader's.
    fn head(&self) -> &AtomicU32;
}

/// Positions in cache lines of their own.
#[derive(Clone)]
pub struct Apart(Arc<Padded>);

struct Padded {
    tail: CachePadded<AtomicU32>,
    head: CachePadded<AtomicU32>,
}

impl Positions for Apart {
    #[inline]
    fn tail(&self) -> &AtomicU32 {
        &self.0.tail
    }

    #[inline]
    fn head(&self) -> &AtomicU32 {
        &self.0.head
    }
}

impl WordRing {
    /// A ring of at least `entries` entries (rounded up to a power of two, at most 2^31) of
    /// `stride` words, whose first entry has the position `start`.
    #[must_use]
    pub fn new(entries: u32, stride: usize, start: u32) -> Self {
        let position = || CachePadded::new(AtomicU32::new(0));
        let positions = Apart(Arc::new(Padded { tail: position(), head: position() }));
        Self::of(Entries::new(entries, stride), positions, start)
    }
}

impl<P: Positions> WordRing<P> {
    /// Entries of the ring.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.entries.count()
    }

    /// Bytes of its entries.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.entries.bytes()
    }

    /// The words of the entry at `position`.
    #[inline]
    #[must_use]
    pub fn entry(&self, position: u32) -> &[AtomicU64] {
        self.entries.at(position)
    }

    /// The first `N` words of the entry at `position`, which must have as many.
    #[inline(always)]
    #[must_use]
    pub fn words<const N: usize>(&self, position: u32) -> &[AtomicU64; N] {
        self.entries.first(position)
    }

    /// Starts to fetch the first lines of `count` entries from `position` on, to be read.
    #[inline]
    pub(crate) fn prefetch_entries(&self, position: u32, count: u32) {
        self.entries.lines_of(position, count).for_each(prefetch::read);
    }
}

impl<P: Positions, E> WordRing<P, E> {
    /// A ring of those entries, the first of which has the position `start`. No other ring has
    /// these positions.
    pub(super) fn of(entries: E, positions: P, start: u32) -> Self {
        positions.tail().store(start, Ordering::Relaxed);
        positions.head().store(start, Ordering::Relaxed);
        Self { entries, positions }
    }

    /// Where its positions are.
    #[inline]
    pub(super) const fn positions(&self) -> &P {
        &self.positions
    }

    /// Where its entries are, by position.
    #[inline]
    pub(super) const fn entries(&self) -> &E {
        &self.entries
    }

    /// Starts to fetch both positions.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch::read(self.positions.tail());
        prefetch::read(self.positions.head());
    }

    /// Position behind the last published entry.
    #[inline]
    #[must_use]
    pub fn tail(&self) -> u32 {
        self.positions.tail().load(Ordering::Acquire)
    }

    /// Position of the oldest entry not handed back.
    #[inline]
    #[must_use]
    pub fn head(&self) -> u32 {
        self.positions.head().load(Ordering::Acquire)
    }

    /// Writer only: whether fewer than `most` entries below `tail` are out. The reader's line is
    /// looked at only if the head that was seen last says no.
    #[inline(always)]
    pub(super) fn has_room(&self, tail: u32, head_seen: &mut u32, most: u32) -> bool {
        if tail.wrapping_sub(*head_seen) < most {
            return true;
        }
        *head_seen = self.head();
        tail.wrapping_sub(*head_seen) < most
    }

    /// Writer only: publishes all entries below `tail`.
    #[inline]
    pub fn publish(&self, tail: u32) {
        self.positions.tail().store(tail, Ordering::Release);
    }

    /// Reader only: hands all entries below `head` back.
    #[inline]
    pub fn release(&self, head: u32) -> Freed {
        self.positions.head().store(head, Ordering::Release);
        Freed(())
    }
}

/// Proof that the places of requests are free, without which completions that were written together
/// do not show: who polls one may post into its place at once.
pub struct Freed(pub(super) ());

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
