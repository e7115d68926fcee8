//! Sizes of an endpoint.

use crate::error::Setup;
use crate::protocol::{EXTRA_RECEIVES, Features, Header};
use core::time::Duration;

/// Work requests of a queue at most.
const QUEUE_MAX: u32 = 32_767;
/// Messages that may be under way at most: each may have a window bound for it.
const SENDS_MAX: u32 = 16_000;
/// Blocks that a peer may be granted at most.
const GRANTS_MAX: u32 = 64;
/// READs of a stream under way at most.
pub(crate) const FETCHES: u32 = 8;
/// Bytes of a block at least.
const BLOCK_MIN: u32 = 64;
/// Bytes of a chunk or block at most.
const CHUNK_MAX: u32 = 1 << 24;

/// Sizes of an endpoint and of each of its streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Messages that may wait for the program at each end; 1 to 32,763. Default 32.
    pub receives: u32,
    /// Bytes of a message with its header of 32 bytes; 33 to 2^24. Default 16 KiB.
    pub chunk_bytes: u32,
    /// Messages of a stream that may be under way at most; 1 to 16,000. Default 32.
    pub sends: u32,
    /// Bytes of registered memory at most, of all streams together. Each has
    /// `(receives + 4) * chunk_bytes` and, while it sends, up to `sends * chunk_bytes`. Blocks
    /// have at most half of it. Default 256 MiB.
    pub memory_max: usize,
    /// Bytes of a block: what a peer WRITEs or READs at once at most; 64 to 2^24. Default 256 KiB.
    pub block_bytes: u32,
    /// Blocks that the peer of a stream is granted once it has sent as much at once as `write_from`
    /// or as fits a message; 0 to 64. They are the stream's to its end, but for one that was read
    /// in place, which goes back to the pool and is replaced. 0: the peer SENDs. Default 4.
    pub grants: u32,
    /// Blocks that it is granted at most, or `grants` if that is more; 0 to 64. It has twice as
    /// many each time that it has waited for one for longer than 200 us, on a path that takes as
    /// long, although three quarters of them were read here: so a path is filled that takes long.
    /// Default 32.
    pub grants_max: u32,
    /// Writes of at least so many bytes go by RDMA WRITE into a block that the peer has granted,
    /// if there is one. `usize::MAX`: never. Default 32 KiB.
    pub write_from: usize,
    /// Writes of at least so many bytes are offered, and the peer READs them, unless the stream is
    /// `checked`. `usize::MAX`: never. Default: never.
    pub read_from: usize,
    /// Streams that may go over to TCP within `move_interval`, of 100 that could; at least one may.
    /// 1 to 100. Default 100.
    pub move_percent: u32,
    /// The time that `move_percent` is of. Default 1 s.
    pub move_interval: Duration,
    /// How long TCP carries a stream until it is tried to have RDMA carry it again, and how long
    /// after each attempt. Default 1 s.
    pub return_after: Duration,
    /// Sends a CRC32C of each message's bytes, which the peer verifies. Default false.
    pub checked: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            receives: 32,
            chunk_bytes: 16 << 10,
            sends: 32,
            memory_max: 256 << 20,
            block_bytes: 256 << 10,
            grants: 4,
            grants_max: 32,
            write_from: 32 << 10,
            read_from: usize::MAX,
            move_percent: 100,
            move_interval: Duration::from_secs(1),
            return_after: Duration::from_secs(1),
            checked: false,
        }
    }
}

impl Config {
    /// Receives that a stream posts.
    pub(crate) const fn posted(&self) -> u32 {
        self.receives + EXTRA_RECEIVES
    }

    /// Messages of a stream that may be under way: those without payload never wait for those with.
    pub(crate) const fn send_places(&self) -> u32 {
        self.sends + EXTRA_RECEIVES
    }

    /// Places of a stream's send queue: messages, windows bound for them and for grants, and READs.
    pub(crate) const fn send_queue(&self) -> u32 {
        self.send_places() + self.sends + self.grants + FETCHES
    }

    /// What a stream can do beside SENDs.
    pub(crate) const fn features(&self) -> Features {
        Features { writes: self.write_from < usize::MAX, reads: true, moves: false, resumes: false }
    }

    /// Fails if a size is out of its bounds.
    pub(crate) fn validate(&self) -> Result<(), Setup> {
        let queue_max = QUEUE_MAX - EXTRA_RECEIVES;
        let chunk_min = u32::try_from(Header::BYTES).unwrap_or(0) + 1;
        for (what, given, min, max) in [
            ("receives", self.receives, 1, queue_max),
            ("sends", self.sends, 1, SENDS_MAX),
            ("chunk_bytes", self.chunk_bytes, chunk_min, CHUNK_MAX),
            ("block_bytes", self.block_bytes, BLOCK_MIN, CHUNK_MAX),
            ("grants", self.grants, 0, GRANTS_MAX),
            ("grants_max", self.grants_max, 0, GRANTS_MAX),
            ("move_percent", self.move_percent, 1, 100),
        ] {
            if !(min..=max).contains(&given) {
                return Err(Setup::OutOfRange { what, given, min, max });
            }
        }
        Ok(())
    }
}
