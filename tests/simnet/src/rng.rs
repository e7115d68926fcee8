//! The generator behind every random decision: xoshiro256** (Blackman, Vigna), its state filled by
//! splitmix64.

use rand_xoshiro::rand_core::{Rng as _, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro256StarStar};

/// A seeded generator. Equal seeds give equal sequences, everywhere and for ever.
#[derive(Clone, Debug)]
pub struct Rng {
    words: Xoshiro256StarStar,
}

/// One step of splitmix64; also a good mixer of its argument.
#[must_use]
pub fn splitmix64(seed: u64) -> u64 {
    SplitMix64::seed_from_u64(seed).next_u64()
}

impl Rng {
    /// The generator of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { words: Xoshiro256StarStar::seed_from_u64(seed) }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.words.next_u64()
    }

    /// A number in `0..bound`; 0 if `bound` is 0. The bias of at most `bound / 2^64` does not
    /// matter here.
    pub fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// An index in `0..len`; 0 if `len` is 0.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// True in `ppm` of a million cases.
    pub fn hits(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.below(1_000_000) < u64::from(ppm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_sequences_and_others_do_not() {
        let draw = |seed| -> Vec<u64> {
            let mut rng = Rng::new(seed);
            (0..100).map(|_| rng.next_u64()).collect()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn splitmix_gives_its_published_first_value() {
        assert_eq!(splitmix64(0), 0xE220_A839_7B1D_CDAF);
    }

    #[test]
    fn a_rate_is_met() {
        let mut rng = Rng::new(1);
        let hits = (0..100_000).filter(|_| rng.hits(10_000)).count();
        assert!((900..1100).contains(&hits), "{hits} of 100,000 at 1 %");
        assert!((0..1000).all(|_| rng.below(3) < 3 && !rng.hits(0) && rng.hits(1_000_000)));
    }
}
