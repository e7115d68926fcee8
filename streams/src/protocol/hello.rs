//! What each end says of itself while the connection is made (docs/streams.md, "Hello").

use super::header::{Header, VERSION};

const MAGIC: [u8; 4] = *b"SRNS";
/// Receives of a queue pair at most.
const RECEIVES_MAX: u32 = 32_767;
/// Bytes of a receive at most.
const RECEIVE_BYTES_MAX: u32 = 1 << 30;

/// Feature: its sender may be sent Grants, and WRITEs to them.
const WRITES: u8 = 1;
/// Feature: its sender may be sent Offers, and READs them.
const READS: u8 = 2;
/// Feature: its stream may go on over another carrier.
const MOVES: u8 = 4;
/// The stream exists, and goes on over this carrier.
const RESUMES: u8 = 8;

/// What an end can do beside SENDs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// It takes Grants, and WRITEs messages to what was granted.
    pub writes: bool,
    /// It takes Offers, and READs what was offered.
    pub reads: bool,
    /// Its stream may go on over another carrier.
    pub moves: bool,
    /// This is the beginning of another carrier of a stream that exists.
    pub resumes: bool,
}

impl Features {
    fn to_byte(self) -> u8 {
        let bits = [(self.writes, WRITES), (self.reads, READS), (self.moves, MOVES), (self.resumes, RESUMES)];
        bits.into_iter().filter(|(has, _)| *has).fold(0, |byte, (_, bit)| byte | bit)
    }

    const fn from_byte(byte: u8) -> Self {
        Self {
            writes: byte & WRITES != 0,
            reads: byte & READS != 0,
            moves: byte & MOVES != 0,
            resumes: byte & RESUMES != 0,
        }
    }
}

/// The private data of a connection by address: 32 bytes, little endian.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// Counted receives that are posted: the first credit. 1 to 32,767.
    pub receives: u32,
    /// Bytes of each receive, with the header: more than 32, at most 2^30.
    pub receive_bytes: u32,
    /// What it can do.
    pub features: Features,
    /// Identifies the stream wherever it goes on.
    pub token: [u8; 16],
}

/// Private data that are not a hello of this version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HelloError {
    /// The peer speaks another protocol.
    #[error("the peer is no end of a stream; is its program one that uses srnic's streams?")]
    Magic,
    /// The peer speaks another version.
    #[error("the peer's streams have version {0}, and these have version {VERSION}; update one end")]
    Version(u8),
    /// A size out of bounds.
    #[error("the peer offers {receives} receives of {receive_bytes} bytes, which no end of a stream has")]
    Sizes {
        /// Receives.
        receives: u32,
        /// Bytes of each.
        receive_bytes: u32,
    },
}

impl Hello {
    /// Length in bytes.
    pub const BYTES: usize = 32;

    /// The bytes as they go over the wire. Bytes 6 and 7 are a port for TCP, of which this version
    /// has none.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = self.features.to_byte();
        bytes[8..12].copy_from_slice(&self.receives.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.receive_bytes.to_le_bytes());
        bytes[16..].copy_from_slice(&self.token);
        bytes
    }

    /// Reads private data, whose zeros at the end may be missing. Features that are not known are
    /// passed over: an end uses what both announce.
    ///
    /// # Errors
    /// [`HelloError`] says what to do.
    pub fn from_bytes(data: &[u8]) -> Result<Self, HelloError> {
        let mut bytes = [0; Self::BYTES];
        let given = data.len().min(Self::BYTES);
        bytes[..given].copy_from_slice(&data[..given]);
        if bytes[..4] != MAGIC {
            return Err(HelloError::Magic);
        }
        if bytes[4] != VERSION {
            return Err(HelloError::Version(bytes[4]));
        }
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (receives, receive_bytes) = (word(8), word(12));
        let fits = (1..=RECEIVES_MAX).contains(&receives)
            && receive_bytes as usize > Header::BYTES
            && receive_bytes <= RECEIVE_BYTES_MAX;
        if !fits {
            return Err(HelloError::Sizes { receives, receive_bytes });
        }
        let mut token = [0; 16];
        token.copy_from_slice(&bytes[16..]);
        Ok(Self { receives, receive_bytes, features: Features::from_byte(bytes[5]), token })
    }

    /// Payload of one message to this end at most, in bytes.
    #[must_use]
    pub const fn payload_max(&self) -> usize {
        self.receive_bytes as usize - Header::BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_comes_back_without_its_last_zeros() {
        let mut token = [7; 16];
        token[12..].fill(0);
        let features = Features { writes: true, reads: true, ..Features::default() };
        let hello = Hello { receives: 32, receive_bytes: 16_384, features, token };
        let bytes = hello.to_bytes();
        assert_eq!(bytes[..16], *b"SRNS\x01\x03\0\0\x20\0\0\0\0\x40\0\0");
        assert_eq!(Hello::from_bytes(&bytes[..28]), Ok(hello));
    }

    #[test]
    fn another_protocol_and_sizes_out_of_bounds_are_refused() {
        let features = Features { writes: false, reads: true, moves: true, resumes: true };
        let good = Hello { receives: 1, receive_bytes: 33, features, token: [1; 16] };
        assert_eq!(Hello::from_bytes(b""), Err(HelloError::Magic));
        let mut other = good.to_bytes();
        other[4] = 9;
        assert_eq!(Hello::from_bytes(&other), Err(HelloError::Version(9)));
        for (receives, receive_bytes) in [(0, 33), (32_768, 33), (1, 32), (1, (1 << 30) + 1)] {
            let bad = Hello { receives, receive_bytes, ..good };
            let refused = Err(HelloError::Sizes { receives, receive_bytes });
            assert_eq!(Hello::from_bytes(&bad.to_bytes()), refused);
        }
        assert_eq!(Hello::from_bytes(&good.to_bytes()), Ok(good));
    }
}
