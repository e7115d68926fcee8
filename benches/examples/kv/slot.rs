//! How the store lies in memory: buckets of slots, each with a version and a checksum.
//!
//! The server changes a slot while clients READ it. What a client gets may be half old and half
//! new, or of two READ responses before and after: the checksum over all of a slot says so, and the
//! client reads again.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Bytes of a slot: version, key, length, checksum, value.
pub const SLOT: usize = 128;
/// Longest value.
pub const VALUE_MAX: usize = SLOT - 24;
/// Slots of a bucket, which one READ fetches: a key is in its bucket or nowhere.
pub const WAYS: usize = 4;
/// Bytes of a bucket.
pub const BUCKET: usize = SLOT * WAYS;

/// What a slot holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// 1 for the first value of the key, and one more for each further one.
    pub version: u64,
    /// The key.
    pub key: u64,
    /// At most [`VALUE_MAX`] bytes.
    pub value: Vec<u8>,
}

/// What a slot looks like.
#[derive(PartialEq, Eq, Debug)]
pub enum Slot {
    /// Never written.
    Empty,
    /// Read while it was written.
    Torn,
    /// Whole.
    Entry(Entry),
}

/// What a bucket says of a key.
#[derive(PartialEq, Eq, Debug)]
pub enum Found {
    /// It is there.
    Entry(Entry),
    /// It is not.
    Missing,
    /// It may be: a slot was read while it was written.
    Torn,
}

impl Entry {
    /// The bytes of its slot.
    pub fn encode(&self) -> [u8; SLOT] {
        let mut slot = [0; SLOT];
        let len = self.value.len().min(VALUE_MAX);
        slot[..8].copy_from_slice(&self.version.to_le_bytes());
        slot[8..16].copy_from_slice(&self.key.to_le_bytes());
        slot[16..20].copy_from_slice(&u32::try_from(len).unwrap_or(0).to_le_bytes());
        slot[24..24 + len].copy_from_slice(&self.value[..len]);
        let checksum = checksum(&slot);
        slot[20..24].copy_from_slice(&checksum.to_le_bytes());
        slot
    }
}

impl Slot {
    /// What the bytes of a slot mean.
    pub fn decode(slot: &[u8; SLOT]) -> Self {
        if slot.iter().all(|byte| *byte == 0) {
            return Self::Empty;
        }
        let word = |at: usize| slot[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let half = |at: usize| slot[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        match slot.get(24..24 + half(16) as usize) {
            Some(value) if half(20) == checksum(slot) => {
                Self::Entry(Entry { version: word(0), key: word(8), value: value.to_vec() })
            }
            _ => Self::Torn,
        }
    }
}

/// Over the whole slot, less the checksum itself.
fn checksum(slot: &[u8; SLOT]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&slot[..20]);
    hasher.update(&slot[24..]);
    hasher.finalize()
}

/// Where in its bucket `key` is, or could be put: the slot's number and what it holds.
pub fn place(bucket: &[u8], key: u64) -> Option<(usize, Slot)> {
    let slots = || bucket.as_chunks::<SLOT>().0.iter().map(Slot::decode).enumerate();
    let has = |slot: &Slot| matches!(slot, Slot::Entry(entry) if entry.key == key);
    slots().find(|(_, slot)| has(slot)).or_else(|| slots().find(|(_, slot)| *slot == Slot::Empty))
}

/// What a bucket says of `key`.
pub fn find(bucket: &[u8], key: u64) -> Found {
    let mut found = Found::Missing;
    for slot in bucket.as_chunks::<SLOT>().0 {
        match Slot::decode(slot) {
            Slot::Entry(entry) if entry.key == key => return Found::Entry(entry),
            Slot::Torn => found = Found::Torn,
            _ => {}
        }
    }
    found
}

/// The bucket of a key, of so many.
pub fn bucket_of(key: u64, buckets: u64) -> u64 {
    mix(key) % buckets.max(1)
}

/// A hash of `number`.
pub fn mix(number: u64) -> u64 {
    SplitMix64::seed_from_u64(number).next_u64()
}
