//! Records of the log: a sequence number, a checksum, and a payload that follows from the number.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Bytes before the payload.
pub const HEAD: usize = 12;

/// Writes record `sequence` over all of `bytes`.
pub fn fill(bytes: &mut [u8], sequence: u64) {
    SplitMix64::seed_from_u64(sequence).fill_bytes(&mut bytes[HEAD..]);
    bytes[..8].copy_from_slice(&sequence.to_le_bytes());
    let sum = checksum(bytes);
    bytes[8..HEAD].copy_from_slice(&sum.to_le_bytes());
}

/// Whether `bytes` are record `sequence`, whole; the error says what they are instead.
pub fn check(bytes: &[u8], sequence: u64) -> Result<(), String> {
    let Some((found, rest)) = bytes.split_first_chunk().map(|(word, rest)| (u64::from_le_bytes(*word), rest))
    else {
        return Err(format!("record {sequence} has {} bytes", bytes.len()));
    };
    if found != sequence {
        return Err(format!("where record {sequence} should be, there is record {found}"));
    }
    let sum = rest.first_chunk().map(|sum| u32::from_le_bytes(*sum));
    if sum != Some(checksum(bytes)) {
        return Err(format!("record {sequence} has a wrong checksum"));
    }
    Ok(())
}

/// The CRC-32 of all but itself.
fn checksum(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..8]);
    hasher.update(&bytes[HEAD..]);
    hasher.finalize()
}
