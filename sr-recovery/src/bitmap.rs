//! A window of bits over PSNs.

use bitvec::{boxed::BitBox, order::Lsb0, vec::BitVec};
use wire::Psn;

const WORD_BITS: u32 = u64::BITS;
/// Serial arithmetic tells before from after over less than half the PSN space.
const CAPACITY_MAX: u32 = 1 << 22;

/// One bit for each PSN of `[base, base + capacity)`; all outside read as 0.
///
/// A ring: the bit of a PSN is its value modulo the capacity, a power of two, so that moving the
/// base moves no bits and the wrap of the PSN space is none of the ring's. Single bits go through
/// `bitvec`; everything over a range works on whole words.
#[derive(Clone, Debug)]
pub struct PsnBitmap {
    bits: BitBox<u64, Lsb0>,
    base: Psn,
    ones: u32,
}

/// The part of one word that belongs to a range.
struct Segment {
    word: usize,
    mask: u64,
    /// Distance of the word's bit 0 from the range's first PSN; negative (wrapped) if the range
    /// starts inside the word.
    offset: u32,
}

/// Splits a range of PSNs into words.
struct Segments {
    psn: Psn,
    left: u32,
    done: u32,
    ring_mask: u32,
}

impl Iterator for Segments {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        if self.left == 0 {
            return None;
        }
        let index = self.psn.get() & self.ring_mask;
        let bit = index % WORD_BITS;
        let len = self.left.min(WORD_BITS - bit);
        let mask = (u64::MAX >> (WORD_BITS - len)) << bit;
        let segment =
            Segment { word: (index / WORD_BITS) as usize, mask, offset: self.done.wrapping_sub(bit) };
        self.psn = self.psn.add(len);
        self.left -= len;
        self.done += len;
        Some(segment)
    }
}

impl PsnBitmap {
    /// An empty window of at least `capacity` packets from PSN 0: rounded up to a power of two, 64
    /// to 2^22.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        let capacity = capacity.clamp(WORD_BITS, CAPACITY_MAX).next_power_of_two();
        Self {
            bits: BitVec::repeat(false, capacity as usize).into_boxed_bitslice(),
            base: Psn::new(0),
            ones: 0,
        }
    }

    /// Number of PSNs that the window spans.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "at most CAPACITY_MAX")]
    pub fn capacity(&self) -> u32 {
        self.bits.len() as u32
    }

    /// First PSN of the window.
    #[must_use]
    pub const fn base(&self) -> Psn {
        self.base
    }

    /// Number of bits that are set.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.ones
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(self.bits.as_raw_slice())
    }

    /// True if the PSN is inside the window.
    #[must_use]
    pub fn spans(&self, psn: Psn) -> bool {
        psn.steps_from(self.base) < self.capacity()
    }

    /// Forgets all bits and starts again from `base`.
    pub fn reset(&mut self, base: Psn) {
        if self.ones != 0 {
            self.bits.as_raw_mut_slice().fill(0);
        }
        self.base = base;
        self.ones = 0;
    }

    /// Is this PSN's bit set? Never, outside the window.
    #[must_use]
    pub fn test(&self, psn: Psn) -> bool {
        self.spans(psn) && self.bits[self.index(psn)]
    }

    /// Sets a bit. True if it was not set before; outside the window nothing happens.
    pub fn set(&mut self, psn: Psn) -> bool {
        let index = self.index(psn);
        let new = self.spans(psn) && !self.bits.replace(index, true);
        self.ones += u32::from(new);
        new
    }

    /// Clears a bit. True if it was set.
    pub fn clear(&mut self, psn: Psn) -> bool {
        let index = self.index(psn);
        let old = self.spans(psn) && self.bits.replace(index, false);
        self.ones -= u32::from(old);
        old
    }

    /// Sets all bits of `[first, end)` that are inside the window. Returns how many were not set
    /// before.
    pub fn set_range(&mut self, first: Psn, end: Psn) -> u32 {
        let mut new = 0;
        for segment in self.segments(first, end) {
            let word = &mut self.bits.as_raw_mut_slice()[segment.word];
            new += (segment.mask & !*word).count_ones();
            *word |= segment.mask;
        }
        self.ones += new;
        new
    }

    /// Moves the base forward to `base` and forgets what is before it; a base that is not ahead
    /// changes nothing. Returns how many set bits were forgotten.
    pub fn advance(&mut self, base: Psn) -> u32 {
        if !self.base.is_before(base) {
            return 0;
        }
        let mut forgotten = 0;
        if self.ones != 0 {
            for segment in self.segments(self.base, base) {
                let word = &mut self.bits.as_raw_mut_slice()[segment.word];
                forgotten += (segment.mask & *word).count_ones();
                *word &= !segment.mask;
            }
        }
        self.base = base;
        self.ones -= forgotten;
        forgotten
    }

    /// Number of set bits in `[first, end)`.
    #[must_use]
    pub fn count_range(&self, first: Psn, end: Psn) -> u32 {
        let words = self.bits.as_raw_slice();
        self.segments(first, end).map(|s| (words[s.word] & s.mask).count_ones()).sum()
    }

    /// The first PSN of `[from, end)` whose bit is set; `end` if there is none. `from` must be
    /// inside the window.
    #[must_use]
    pub fn first_one(&self, from: Psn, end: Psn) -> Psn {
        let words = self.bits.as_raw_slice();
        self.find(from, end, |word| words[word])
    }

    /// The first PSN of `[from, end)` whose bit is not set; `end` if there is none. `from` must be
    /// inside the window.
    #[must_use]
    pub fn first_zero(&self, from: Psn, end: Psn) -> Psn {
        let words = self.bits.as_raw_slice();
        self.find(from, end, |word| !words[word])
    }

    /// The first PSN of `[from, end)` whose bit is set neither here nor in `other`, a window of the
    /// same base and capacity; `end` if there is none.
    #[must_use]
    pub fn first_zero_in_both(&self, other: &Self, from: Psn, end: Psn) -> Psn {
        debug_assert_eq!((self.base, self.capacity()), (other.base, other.capacity()));
        let (words, others) = (self.bits.as_raw_slice(), other.bits.as_raw_slice());
        self.find(from, end, |word| !(words[word] | others[word]))
    }

    /// 64 bits of the window: bit i is that of PSN `from + i`. `from` must be inside the window.
    #[must_use]
    pub fn word_at(&self, from: Psn) -> u64 {
        let words = self.bits.as_raw_slice();
        self.segments(from, from.add(WORD_BITS)).fold(0, |all, segment| {
            let part = words[segment.word] & segment.mask;
            all | if segment.offset < WORD_BITS {
                part << segment.offset
            } else {
                part >> segment.offset.wrapping_neg()
            }
        })
    }

    fn index(&self, psn: Psn) -> usize {
        psn.get() as usize & (self.bits.len() - 1)
    }

    /// The words of `[first, end)`, cut to the window; empty if `end` is not ahead of `first`.
    fn segments(&self, first: Psn, end: Psn) -> Segments {
        let window_end = self.base.add(self.capacity());
        let first = if first.is_before(self.base) { self.base } else { first };
        let end = if window_end.is_before(end) { window_end } else { end };
        let left = u32::try_from(end.distance_from(first)).unwrap_or(0);
        Segments { psn: first, left, done: 0, ring_mask: self.capacity() - 1 }
    }

    fn find(&self, from: Psn, end: Psn, candidates: impl Fn(usize) -> u64) -> Psn {
        debug_assert!(self.spans(from) || from == end);
        for segment in self.segments(from, end) {
            let found = candidates(segment.word) & segment.mask;
            if found != 0 {
                return from.add(segment.offset.wrapping_add(found.trailing_zeros()));
            }
        }
        end
    }
}

#[cfg(test)]
mod tests;
