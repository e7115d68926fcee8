//! Who may write where, and how each end tells the other.
//!
//! A word that somebody polls is aligned and has a WRITE of its own: eight bytes are stored at once.

use srnic_benches::error::{Error, Result};
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

/// Words of the leader's memory, which a follower writes: the last record that it has taken out of its ring, whose slot is
/// free again. This is the credit.
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

/// Bytes of a [`Hello`].
const HELLO: usize = 1 + 8 + REGION;

impl Hello {
    pub fn encode(&self) -> [u8; HELLO] {
        let mut bytes = [0; HELLO];
        bytes[0] = self.follower;
        bytes[1..9].copy_from_slice(&self.held.to_le_bytes());
        bytes[9..].copy_from_slice(&encode(&self.memory));
        bytes
    }

    pub fn decode(said: &[u8]) -> Result<Self> {
        let bytes: [u8; HELLO] = padded(said)?;
        let mut held = [0; 8];
        held.copy_from_slice(&bytes[1..9]);
        let memory = decode(&bytes[9..])?;
        Ok(Self { follower: bytes[0], held: u64::from_le_bytes(held), memory })
    }
}

/// Bytes of a region.
const REGION: usize = 20;

/// A region in few bytes: private data have no room for its text beside other things.
pub fn encode(region: &RemoteRegion) -> [u8; REGION] {
    let mut bytes = [0; REGION];
    bytes[..8].copy_from_slice(&region.addr.to_le_bytes());
    bytes[8..16].copy_from_slice(&region.len.to_le_bytes());
    bytes[16..].copy_from_slice(&region.rkey.to_le_bytes());
    bytes
}

/// Reads a region that a peer has said.
pub fn decode(said: &[u8]) -> Result<RemoteRegion> {
    let bytes: [u8; REGION] = padded(said)?;
    let (mut addr, mut len, mut rkey) = ([0; 8], [0; 8], [0; 4]);
    addr.copy_from_slice(&bytes[..8]);
    len.copy_from_slice(&bytes[8..16]);
    rkey.copy_from_slice(&bytes[16..]);
    Ok(RemoteRegion {
        addr: u64::from_le_bytes(addr),
        len: u64::from_le_bytes(len),
        rkey: u32::from_le_bytes(rkey),
    })
}

/// Private data come without the zeros at their end.
fn padded<const N: usize>(said: &[u8]) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let start = bytes.get_mut(..said.len()).ok_or_else(|| Error::Unexpected {
        said: format!("{} bytes of private data", said.len()),
        expected: "those of a replog of the same version",
    })?;
    start.copy_from_slice(said);
    Ok(bytes)
}

/// What a word of our own memory holds.
pub fn load(memory: &MemoryRegion, word: usize) -> Result<u64> {
    Ok(memory.load_acquire_u64(word)?)
}
