//! The model's only source of chance: SplitMix64, so that a seed means the same run for ever.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

/// A seeded generator.
#[derive(Clone, Debug)]
pub struct Rng(SplitMix64);

/// The first number of SplitMix64 from `value`: a hash of one word.
#[must_use]
pub fn mix(value: u64) -> u64 {
    SplitMix64::seed_from_u64(value).next_u64()
}

impl Rng {
    /// A generator whose output depends on `seed` alone.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(mix(seed.wrapping_add(0x5352_4e49_4300))))
    }

    /// The next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number in `lo..=hi`.
    pub fn between(&mut self, lo: u64, hi: u64) -> u64 {
        lo + self.word() % (hi - lo + 1)
    }

    /// A small number in `lo..=hi`.
    pub fn count(&mut self, lo: u32, hi: u32) -> u32 {
        u32::try_from(self.between(u64::from(lo), u64::from(hi))).expect("hi is a u32")
    }

    /// True `per_mille` times in a thousand.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.word() % 1000 < per_mille
    }

    /// One of `choices`, which is not empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.between(0, choices.len() as u64 - 1)).expect("an index")]
    }
}
