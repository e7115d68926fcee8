//! Fixed-size entries of words, which two ends see.

use super::sync::AtomicU64;
use std::sync::Arc;

/// Words of a cache line.
const LINE_WORDS: usize = 8;

/// Words of entries that need so many: they fill lines, or lines are full of them.
pub(super) const fn stride_of(words: usize) -> usize {
    if words < LINE_WORDS { words.next_power_of_two() } else { words.next_multiple_of(LINE_WORDS) }
}

/// A cache line.
#[cfg_attr(not(loom), repr(C, align(64)))]
struct Line([AtomicU64; LINE_WORDS]);

// Lines are words without a gap.
const _: () = assert!(size_of::<Line>() == LINE_WORDS * size_of::<AtomicU64>());

/// Words in whole cache lines. Each copy is the same.
#[derive(Clone)]
pub(super) struct Words(Arc<[Line]>);

impl Words {
    /// At least `count` words, all zero.
    pub(super) fn new(count: usize) -> Self {
        let line = |_| Line(core::array::from_fn(|_| AtomicU64::new(0)));
        Self((0..count.div_ceil(LINE_WORDS)).map(line).collect())
    }

    /// All of them.
    #[inline(always)]
    pub(super) fn all(&self) -> &[AtomicU64] {
        let len = self.0.len() * LINE_WORDS;
        // SAFETY: the lines are so many words in a row, as asserted above, and borrowed for as
        // long.
        unsafe { core::slice::from_raw_parts(self.0.as_ptr().cast(), len) }
    }

    /// Where the word with that index is, for a hint.
    #[inline(always)]
    pub(super) fn place(&self, index: usize) -> *const AtomicU64 {
        self.0.as_ptr().cast::<AtomicU64>().wrapping_add(index)
    }

    /// The `N` words from `start` on, which must be there.
    #[inline(always)]
    pub(super) fn some<const N: usize>(&self, start: usize) -> &[AtomicU64; N] {
        let Some(words) = self.all()[start..].first_chunk() else {
            unreachable!("the last entry ends the words")
        };
        words
    }
}

/// Entries of as many words each, numbered round and round. The first begins a cache line. Each end
/// has a copy of this, so that it finds an entry without a look at memory that the other one
/// writes.
#[derive(Clone)]
pub struct Entries {
    words: Words,
    mask: u32,
    /// Words of an entry.
    stride: u32,
}

impl Entries {
    /// At least `count` entries (rounded up to a power of two, at most 2^31) of `stride` words, all
    /// zero. See [`stride_of`].
    pub(super) fn new(count: u32, stride: usize) -> Self {
        let count = count.clamp(1, 1 << 31).next_power_of_two();
        debug_assert_eq!(stride, stride_of(stride), "entries that share lines fill them");
        let stride = u32::try_from(stride).unwrap_or(u32::MAX);
        Self { words: Words::new(count as usize * stride as usize), mask: count - 1, stride }
    }

    /// How many.
    pub(super) const fn count(&self) -> u32 {
        self.mask + 1
    }

    /// Bytes of all of them.
    pub(super) fn bytes(&self) -> usize {
        self.count() as usize * self.stride as usize * 8
    }

    /// The words of the entry with that number.
    #[inline]
    pub(super) fn at(&self, number: u32) -> &[AtomicU64] {
        let start = self.start(number);
        &self.words.all()[start..start + self.stride as usize]
    }

    /// Its first `N` words; it must have as many.
    #[inline(always)]
    pub(super) fn first<const N: usize>(&self, number: u32) -> &[AtomicU64; N] {
        debug_assert!(N <= self.stride as usize, "{N} of {} words", self.stride);
        self.words.some(self.start(number))
    }

    /// The first lines of `count` entries from `number` on, all of them at most; each line once,
    /// unless they end where they began.
    #[inline]
    pub(super) fn lines_of(&self, number: u32, count: u32) -> impl Iterator<Item = *const AtomicU64> {
        first_in_lines(number, count.min(self.count()), self.stride as usize)
            .map(|number| self.words.place(self.start(number)))
    }

    #[inline(always)]
    fn start(&self, number: u32) -> usize {
        (number & self.mask) as usize * self.stride as usize
    }
}

/// Of `count` entries of `stride` words from `number` on, one in each line: the first that begins
/// there.
#[inline]
pub(super) fn first_in_lines(number: u32, count: u32, stride: usize) -> impl Iterator<Item = u32> {
    let in_line = u32::try_from(LINE_WORDS / stride).unwrap_or(1).max(1);
    let first = number & !(in_line - 1);
    let end = if count == 0 { 0 } else { number - first + count };
    (0..end).step_by(in_line as usize).map(move |at| first.wrapping_add(at))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn entries_fill_lines_or_lines_are_full_of_them() {
        assert_eq!([1, 2, 3, 4, 5, 8, 9, 17].map(stride_of), [1, 2, 4, 4, 8, 8, 16, 24]);
    }

    #[test]
    fn each_line_of_some_entries_comes_once_wherever_they_begin() {
        for stride in [1, 2, 4, 8, 16] {
            let entries = Entries::new(16, stride);
            let line = |word: *const AtomicU64| word.addr() / 64;
            for (number, count) in (0..40)
                .chain(u32::MAX - 20..=u32::MAX)
                .flat_map(|number| (0..=16).map(move |count| (number, count)))
            {
                let lines: Vec<_> = entries.lines_of(number, count).map(line).collect();
                let once: BTreeSet<_> = lines.iter().copied().collect();
                let wanted: BTreeSet<_> =
                    (0..count).map(|ahead| line(entries.at(number.wrapping_add(ahead)).as_ptr())).collect();
                assert_eq!(once, wanted, "{count} of {stride} words from {number} on");
                // What begins amid a line and goes all the way round ends in the same line.
                if number % 8 + count <= entries.count() {
                    assert_eq!(lines.len(), once.len(), "{count} of {stride} words from {number} on");
                }
            }
        }
    }
}
