//! Numbers that strangers must not guess, and that repeat from a seed: ChaCha with eight rounds,
//! keyed by the seed.

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use core::fmt;

/// 256 bits that numbers are drawn from. Who sees the numbers learns neither the seed nor other
/// numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed([u8; 32]);

impl Seed {
    /// A seed of bytes that the operating system gave.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The numbers of that purpose.
    #[must_use]
    pub fn numbers(self, purpose: Purpose) -> Numbers {
        let mut generator = ChaCha8Rng::from_seed(self.0);
        generator.set_stream(purpose as u64);
        Numbers(generator)
    }
}

/// A seed that a simulation can write down. Its numbers can be guessed: there are 2^64 such seeds.
impl From<u64> for Seed {
    fn from(number: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        Self(bytes)
    }
}

/// A seed that is printed is none any more.
impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(..)")
    }
}

/// The purpose of random numbers. Numbers of one purpose tell nothing of those of another, though
/// both come from one seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Entries of the table of regions, and the low byte of their keys.
    Keys,
    /// The bits of QPNs that tell lives of a slot apart.
    Qpns,
    /// First PSNs of connections.
    Psns,
}

/// Numbers of one purpose, one after the other.
pub struct Numbers(ChaCha8Rng);

impl Numbers {
    /// The next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
}
