//! Sizes of an endpoint.

use crate::error::Setup;
use crate::protocol::{EXTRA_RECEIVES, Header};

/// Work requests of a queue at most.
const QUEUE_MAX: u32 = 32_767;
/// Bytes of a chunk at most.
const CHUNK_MAX: u32 = 1 << 24;

/// Sizes of an endpoint and of each of its streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Messages that may wait for the program at each end; 1 to 32,763. Default 32.
    pub receives: u32,
    /// Bytes of a message with its header of 32 bytes; 33 to 2^24. Default 16 KiB.
    pub chunk_bytes: u32,
    /// Messages of a stream that may be under way at most; 1 to 32,763. Default 32.
    pub sends: u32,
    /// Bytes of registered memory at most, of all streams together. Each has
    /// `(receives + 4) * chunk_bytes` and, while it sends, up to `sends * chunk_bytes`. Default
    /// 256 MiB.
    pub memory_max: usize,
    /// Sends a CRC32C of each message's bytes, which the peer verifies. Default false.
    pub checked: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { receives: 32, chunk_bytes: 16 << 10, sends: 32, memory_max: 256 << 20, checked: false }
    }
}

impl Config {
    /// Receives that a stream posts.
    pub(crate) const fn posted(&self) -> u32 {
        self.receives + EXTRA_RECEIVES
    }

    /// Places of a stream's send queue: messages without payload never wait for those with.
    pub(crate) const fn send_places(&self) -> u32 {
        self.sends + EXTRA_RECEIVES
    }

    /// Fails if a size is out of its bounds.
    pub(crate) fn validate(&self) -> Result<(), Setup> {
        let queue_max = QUEUE_MAX - EXTRA_RECEIVES;
        let chunk_min = u32::try_from(Header::BYTES).unwrap_or(0) + 1;
        for (what, given, min, max) in [
            ("receives", self.receives, 1, queue_max),
            ("sends", self.sends, 1, queue_max),
            ("chunk_bytes", self.chunk_bytes, chunk_min, CHUNK_MAX),
        ] {
            if !(min..=max).contains(&given) {
                return Err(Setup::OutOfRange { what, given, min, max });
            }
        }
        Ok(())
    }
}
