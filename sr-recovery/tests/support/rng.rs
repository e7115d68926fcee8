//! A small generator of pseudo-random numbers (xorshift64*), so that a seed is all that a run
//! needs.

pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u32) -> u32 {
        u32::try_from(self.next() % u64::from(bound)).unwrap()
    }

    /// True in `permille` of 1000 cases.
    pub fn chance(&mut self, permille: u32) -> bool {
        self.below(1000) < permille
    }
}
