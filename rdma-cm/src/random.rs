//! Numbers that strangers do not guess and that repeat from a seed.

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use core::fmt;

/// ChaCha with eight rounds: a peer that sees some numbers learns nothing of the others.
pub struct Random(ChaCha8Rng);

impl Random {
    pub fn new(seed: [u8; 32]) -> Self {
        Self(ChaCha8Rng::from_seed(seed))
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }
}

/// Its state would tell what comes.
impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SplitMix64, the generator that peers could solve for.
    const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

    const fn mix(mut z: u64) -> u64 {
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// The state that made a number.
    const fn unmix(mut z: u64) -> u64 {
        z = (z ^ z >> 31 ^ z >> 62).wrapping_mul(0x3196_42B2_D24D_8EC3);
        z = (z ^ z >> 27 ^ z >> 54).wrapping_mul(0x96DE_1B17_3F11_9089);
        z ^ z >> 30 ^ z >> 60
    }

    /// The number that follows one that a peer has seen, if SplitMix64 made it.
    const fn solve(seen: u64) -> u64 {
        mix(unmix(seen).wrapping_add(GAMMA))
    }

    #[test]
    fn a_transaction_does_not_tell_the_next_one() {
        let (first, second) = (mix(77), mix(77_u64.wrapping_add(GAMMA)));
        assert_eq!(solve(first), second, "the solver works");
        let mut random = Random::new([7; 32]);
        let numbers = [(); 1000].map(|()| random.next_u64());
        assert!(numbers.windows(2).all(|two| solve(two[0]) != two[1]));
    }

    #[test]
    fn a_seed_repeats_its_numbers() {
        let draw = |seed| {
            let mut random = Random::new([seed; 32]);
            [(); 8].map(|()| random.next_u64())
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
