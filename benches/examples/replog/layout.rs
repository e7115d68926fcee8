//! Who may write where, and how each end tells the other.
//!
//! A word that somebody polls is aligned and has a WRITE of its own: eight bytes are stored at
//! once.

use srnic_tools::error::{Error, Result};
use verbs_api::{MemoryRegion, RemoteAddr, RemoteRegion, SendData, SendRequest};

/// Records that a ring holds.
pub const SLOTS: u64 = 4096;

/// Words of a follower's memory, which the leader writes: the last record that is in the ring.
pub const TAIL: usize = 64;
/// The last record of the log; 0 until there will be no more.
pub const LAST: usize = 128;
/// Counts up while the leader lives.
pub const LEADER_BEAT: usize = 192;
/// The ring, behind the words.
pub const RING: usize = 256;

/// Words of the leader's memory, which a follower writes: the last record that it has taken out of
/// its ring, whose slot is free again. This is the credit.
pub const HEAD: usize = 0;
/// The last record that is in its log. This is the acknowledgement.
pub const ACKED: usize = 64;
/// Counts up while the follower lives.
pub const FOLLOWER_BEAT: usize = 128;
/// Bytes of all three.
pub const WORDS: usize = 192;

/// Where a record lies in the ring, from the start of the memory.
pub fn slot(sequence: u64, size: usize) -> usize {
    // A remainder of a small number.
    RING + usize::try_from(sequence % SLOTS).unwrap_or(0) * size
}

/// Bytes of a follower's memory.
pub fn memory_len(size: usize) -> usize {
    slot(SLOTS - 1, size) + size
}

/// A WRITE of one word.
pub fn word<'a>(value: &'a [u8; 8], to: RemoteAddr) -> SendRequest<'a> {
    SendRequest::write(SendData::Inline(value), to)
}

/// What a follower says when it connects: who it is, what it has, and where it may be written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    pub follower: u8,
    /// The last record in its log.
    pub held: u64,
    pub memory: RemoteRegion,
}

/// Bytes of a [`Hello`] before the region, which comes last.
const ABOUT: usize = 1 + 8;

impl Hello {
    pub fn encode(&self) -> [u8; ABOUT + RemoteRegion::BYTES] {
        let mut bytes = [0; ABOUT + RemoteRegion::BYTES];
        bytes[0] = self.follower;
        bytes[1..ABOUT].copy_from_slice(&self.held.to_be_bytes());
        bytes[ABOUT..].copy_from_slice(&self.memory.to_bytes());
        bytes
    }

    pub fn decode(said: &[u8]) -> Result<Self> {
        let Some(([follower, held @ ..], memory)) = said.split_first_chunk::<ABOUT>() else {
            return Err(Error::Unexpected {
                said: format!("{} bytes of private data", said.len()),
                expected: "those of a replog of the same version",
            });
        };
        Ok(Self { follower: *follower, held: u64::from_be_bytes(*held), memory: region(memory)? })
    }
}

/// The region that a peer has described.
pub fn region(said: &[u8]) -> Result<RemoteRegion> {
    RemoteRegion::from_bytes(said).map_err(|error| Error::Unexpected {
        said: error.to_string(),
        expected: "the memory of a replog of the same version",
    })
}

/// What a word of our own memory holds.
pub fn load(memory: &MemoryRegion, word: usize) -> Result<u64> {
    Ok(memory.load_acquire_u64(word)?)
}
