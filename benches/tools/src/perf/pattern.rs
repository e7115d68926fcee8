//! The bytes that `--verify` sends: each is a function of a seed and of its offset.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Bytes that follow from one random number.
const BLOCK: usize = size_of::<Block>();
type Block = [[u8; 8]; WORDS];
const WORDS: usize = 8;
/// What tells the words of a block from each other: multiples of 2^64 divided by the golden ratio.
const SALTS: [u64; WORDS] = {
    let mut salts = [0; WORDS];
    let mut index = 0;
    while index < salts.len() {
        salts[index] = (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        index += 1;
    }
    salts
};

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
        let seed = mixed(self.0);
        let (mut offset, mut rest) = (offset, target);
        while !rest.is_empty() {
            let (block, skip) = (block(seed, offset / BLOCK), offset % BLOCK);
            let count = (BLOCK - skip).min(rest.len());
            let (now, later) = rest.split_at_mut(count);
            now.copy_from_slice(&block.as_flattened()[skip..skip + count]);
            (offset, rest) = (offset + count, later);
        }
    }
}

/// Each block is of a generator of its own: a byte follows from its offset alone.
fn block(seed: u64, index: usize) -> Block {
    let number = mixed(seed.wrapping_add(index as u64));
    SALTS.map(|salt| (number ^ salt).to_le_bytes())
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
        let mut whole = [0; 300];
        Pattern::new(7).fill(0, &mut whole);
        for start in 0..300 {
            for len in [0, 1, 3, 8, 17, 64, 130].into_iter().filter(|len| start + len <= 300) {
                let mut part = vec![0; len];
                Pattern::new(7).fill(start, &mut part);
                assert_eq!(part, whole[start..start + len], "{len} from {start}");
            }
        }
    }

    #[test]
    fn no_word_comes_twice() {
        let mut bytes = vec![0; 1 << 16];
        Pattern::new(3).fill(0, &mut bytes);
        let words: std::collections::HashSet<_> = bytes.chunks_exact(8).collect();
        assert_eq!(words.len(), bytes.len() / 8);
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
