//! The generator behind every random decision: xoshiro256** (Blackman, Vigna), its state filled by splitmix64.

/// A seeded generator. Equal seeds give equal sequences, everywhere and for ever.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

/// One step of splitmix64; also a good mixer of its argument.
#[must_use]
pub const fn splitmix64(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Rng {
    /// The generator of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut at = seed;
        let state = core::array::from_fn(|_| {
            let word = splitmix64(at);
            at = at.wrapping_add(0x9E37_79B9_7F4A_7C15);
            word
        });
        Self { state }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let result = self.state[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = self.state[1] << 17;
        self.state[2] ^= self.state[0];
        self.state[3] ^= self.state[1];
        self.state[1] ^= self.state[2];
        self.state[0] ^= self.state[3];
        self.state[2] ^= shifted;
        self.state[3] = self.state[3].rotate_left(45);
        result
    }

    /// A number in `0..bound`; 0 if `bound` is 0. The bias of at most `bound / 2^64` does not matter here.
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
