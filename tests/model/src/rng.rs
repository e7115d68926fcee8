//! The model's only source of chance: SplitMix64, so that a seed means the same run for ever.

/// A seeded generator.
#[derive(Clone, Debug)]
pub struct Rng(u64);

/// SplitMix64's finalizer: a hash of one word.
#[must_use]
pub const fn mix(value: u64) -> u64 {
    let z = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// A generator whose output depends on `seed` alone.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(mix(seed.wrapping_add(0x5352_4e49_4300)))
    }

    /// The next 64 bits.
    pub const fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number in `lo..=hi`.
    pub const fn between(&mut self, lo: u64, hi: u64) -> u64 {
        lo + self.word() % (hi - lo + 1)
    }

    /// The same for small counts.
    pub fn count(&mut self, lo: u32, hi: u32) -> u32 {
        u32::try_from(self.between(u64::from(lo), u64::from(hi))).expect("hi is a u32")
    }

    /// True `per_mille` times in a thousand.
    pub const fn chance(&mut self, per_mille: u64) -> bool {
        self.word() % 1000 < per_mille
    }

    /// One of `choices`, which is not empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.between(0, choices.len() as u64 - 1)).expect("an index")]
    }
}
