//! The bytes that `--verify` sends: each is a function of a seed and of its offset.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const WORD: usize = size_of::<u64>();

/// An endless row of bytes, another one for each seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern(u64);

impl Pattern {
    /// The row of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Fills `target` with the bytes from `offset` on.
    pub fn fill(self, offset: usize, target: &mut [u8]) {
        let (mut offset, mut rest) = (offset, target);
        while !rest.is_empty() {
            let (word, skip) = (self.word(offset / WORD), offset % WORD);
            let count = (WORD - skip).min(rest.len());
            let (now, later) = rest.split_at_mut(count);
            now.copy_from_slice(&word[skip..skip + count]);
            (offset, rest) = (offset + count, later);
        }
    }

    /// Each word is the first of a generator of its own: a byte follows from its offset alone.
    fn word(self, index: usize) -> [u8; WORD] {
        let seed = mixed(self.0).wrapping_add(index as u64);
        mixed(seed).to_le_bytes()
    }
}

/// The first number of SplitMix64 from `seed`.
fn mixed(seed: u64) -> u64 {
    SplitMix64::seed_from_u64(seed).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_depends_on_its_offset_alone() {
        let mut whole = [0; 100];
        Pattern::new(7).fill(0, &mut whole);
        for start in 0..100 {
            for len in [0, 1, 3, 8, 17].into_iter().filter(|len| start + len <= 100) {
                let mut part = vec![0; len];
                Pattern::new(7).fill(start, &mut part);
                assert_eq!(part, whole[start..start + len], "{len} from {start}");
            }
        }
    }

    #[test]
    fn another_seed_gives_other_bytes() {
        let (mut one, mut two) = ([0; 64], [0; 64]);
        Pattern::new(1).fill(0, &mut one);
        Pattern::new(2).fill(0, &mut two);
        let equal = one.iter().zip(&two).filter(|(one, two)| one == two).count();
        assert!(equal < 8, "{equal} of 64 bytes are equal");
    }
}
