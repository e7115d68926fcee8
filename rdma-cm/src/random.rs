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

    #[test]
    fn a_seed_repeats_its_numbers() {
        let draw = |seed| {
            let mut random = Random::new([seed; 32]);
            [(); 8].map(|()| random.next_u64())
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn its_state_is_not_shown() {
        assert_eq!(format!("{:?}", Random::new([1; 32])), "Random(..)");
    }
}
