//! The entries of a send queue. Each is in three parts, so that a request touches as few cache
//! lines as possible.

use super::entries::{Words, first_in_lines, stride_of};
use super::sync::AtomicU64;

/// Words of what every request has: wr_id, address of the only element, (its lkey, imm), (length,
/// opcode | flags | sges | inline).
const HEAD: usize = 4;
/// Words of what reaches into the peer's memory has, or goes to an address: remote address, (rkey,
/// length of a window's range).
const REMOTE: usize = 2;
/// Words of an atomic's operands, which any body has room for.
const OPERANDS: usize = 2;

/// As many heads, of which two share a line, then their remote parts, then bodies: elements if
/// there are several, inline data, or operands. Numbered round and round.
/// Each end has a copy of this, so that it finds an entry without a look at memory that the other
/// one writes.
#[derive(Clone)]
pub(super) struct SendEntries {
    words: Words,
    mask: u32,
    /// Words of a body.
    body: u32,
}

impl SendEntries {
    /// At least `count` entries (rounded up to a power of two, at most 2^31) whose bodies have
    /// `body` words at least, all zero.
    pub(super) fn new(count: u32, body: usize) -> Self {
        let count = count.clamp(1, 1 << 31).next_power_of_two();
        let body = stride_of(body.max(OPERANDS));
        let words = Words::new(count as usize * (HEAD + REMOTE + body));
        Self { words, mask: count - 1, body: u32::try_from(body).unwrap_or(u32::MAX) }
    }

    /// How many.
    const fn count(&self) -> usize {
        self.mask as usize + 1
    }

    /// Bytes of all of them.
    pub(super) const fn bytes(&self) -> usize {
        self.count() * (HEAD + REMOTE + self.body as usize) * size_of::<u64>()
    }

    /// What every request has.
    #[inline(always)]
    pub(super) fn head(&self, number: u32) -> &[AtomicU64; HEAD] {
        self.words.some(self.start_of_head(number))
    }

    /// What some have of the peer's.
    #[inline(always)]
    pub(super) fn remote(&self, number: u32) -> &[AtomicU64; REMOTE] {
        self.words.some(self.start_of_remote(number))
    }

    /// What fits in neither.
    #[inline(always)]
    pub(super) fn body(&self, number: u32) -> &[AtomicU64] {
        let body = self.body as usize;
        let start = self.count() * (HEAD + REMOTE) + self.index(number) * body;
        &self.words.all()[start..start + body]
    }

    /// The lines of what `count` entries from `number` on have of the peer's, each once.
    #[inline]
    pub(super) fn lines_of_remotes(&self, number: u32, count: u32) -> impl Iterator<Item = *const AtomicU64> {
        first_in_lines(number, count, REMOTE).map(|number| self.words.place(self.start_of_remote(number)))
    }

    /// The lines of `count` heads from `number` on, each once.
    #[inline]
    pub(super) fn lines_of_heads(&self, number: u32, count: u32) -> impl Iterator<Item = *const AtomicU64> {
        first_in_lines(number, count, HEAD).map(|number| self.words.place(self.start_of_head(number)))
    }

    #[inline(always)]
    fn start_of_head(&self, number: u32) -> usize {
        self.index(number) * HEAD
    }

    #[inline(always)]
    fn start_of_remote(&self, number: u32) -> usize {
        self.count() * HEAD + self.index(number) * REMOTE
    }

    #[inline(always)]
    fn index(&self, number: u32) -> usize {
        (number & self.mask) as usize
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::queue::word_ring::{load, store};
    use std::collections::BTreeSet;

    #[test]
    fn no_part_of_an_entry_is_one_of_another() {
        for count in [1, 2, 3, 8, 33] {
            for body in [0, 1, 4, 7, 32] {
                let entries = SendEntries::new(count, body);
                let parts = |number| {
                    let small = entries.head(number).iter().chain(entries.remote(number));
                    small.chain(entries.body(number))
                };
                for (word, value) in (0..count).flat_map(parts).zip(1..) {
                    assert_eq!(load(word), 0, "{count} entries with {body} words");
                    store(word, value);
                }
                // Round and round: an entry is that of any number as far on as there are entries.
                let round = count.next_power_of_two();
                let again = (0..count).flat_map(|number| parts(number.wrapping_sub(round)));
                let words = again.zip(1..).map(|(word, value)| assert_eq!(load(word), value)).count();
                assert!(words * size_of::<u64>() <= entries.bytes());
                assert!(entries.body(0).len() >= body.max(OPERANDS));
            }
        }
    }

    #[test]
    fn two_heads_share_a_line_and_each_comes_once() {
        let entries = SendEntries::new(16, 0);
        let line = |word: *const AtomicU64| word.addr() / 64;
        for (number, count) in [(0, 16), (3, 8), (14, 5), (u32::MAX, 2)] {
            let lines: Vec<_> = entries.lines_of_heads(number, count).map(line).collect();
            let wanted: BTreeSet<_> =
                (0..count).map(|ahead| line(entries.head(number.wrapping_add(ahead)).as_ptr())).collect();
            assert_eq!(lines.iter().copied().collect::<BTreeSet<_>>(), wanted);
            assert_eq!(lines.len(), wanted.len());
            assert!(lines.len() <= count as usize / 2 + 1);
        }
    }
}
