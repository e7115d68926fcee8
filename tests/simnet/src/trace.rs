//! The rolling hash over everything that was delivered.

use datapath::time::Time;

/// FNV-1a with 64-bit words in place of bytes: `hash = (hash ^ word) * prime`, then a rotation so
/// that high bits reach low ones. A frame enters as time, receiver, length, and its bytes as
/// little-endian words padded with zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceHash(u64);

const OFFSET_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01B3;

impl Default for TraceHash {
    fn default() -> Self {
        Self(OFFSET_BASIS)
    }
}

impl TraceHash {
    /// Takes a delivered frame.
    pub fn frame(&mut self, at: Time, receiver: usize, frame: &[u8]) {
        self.word(at.0);
        self.word(receiver as u64);
        self.word(frame.len() as u64);
        for chunk in frame.chunks(8) {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(bytes));
        }
    }

    /// Takes any other fact.
    pub const fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(PRIME).rotate_left(23);
    }

    /// The hash so far.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }
}
