//! The peer's memory, as the peer describes it.

use crate::endpoint::field;
use crate::work_request::RemoteAddr;
use core::fmt;
use core::str::FromStr;

/// A region of the peer's, as [`MemoryRegion::remote`](crate::MemoryRegion::remote) describes it.
/// Travels as text, `addr=0x7f0000001000,len=4096,rkey=0x00000301`, or as the 21 bytes of
/// [`to_bytes`](Self::to_bytes), which leave room beside them in the 56 bytes of private data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RemoteRegion {
    /// Address of its first byte.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
    /// The key of the region.
    pub rkey: u32,
}

/// A text, or bytes, that describe no region.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteRegionError {
    /// A text of another form.
    #[error("`{text}` is no remote region; one is addr=0x..,len=..,rkey=0x..")]
    Text {
        /// The text.
        text: String,
    },
    /// Bytes that are too few or too many.
    #[error(
        "a remote region has {} bytes, not {given}; give it those and nothing that comes before or behind",
        RemoteRegion::BYTES
    )]
    Length {
        /// How many bytes there were.
        given: usize,
    },
    /// Bytes of another version.
    #[error(
        "this is no remote region of version {VERSION}, it ends in {found}; is the peer of another version?"
    )]
    Version {
        /// The last byte.
        found: u8,
    },
}

/// The last byte of [`RemoteRegion::to_bytes`]. It is not 0, so that private data, which lose zeros
/// at their end, lose nothing of it.
const VERSION: u8 = 1;

impl RemoteRegion {
    /// Length of [`to_bytes`](Self::to_bytes).
    pub const BYTES: usize = 21;

    /// The byte at `offset`. The peer refuses what is outside its region.
    #[must_use]
    pub const fn at(&self, offset: u64) -> RemoteAddr {
        RemoteAddr { addr: self.addr.wrapping_add(offset), rkey: self.rkey }
    }

    /// Network byte order: address 8, length 8, rkey 4, version 1, which is 1 and comes last.
    ///
    /// ```
    /// use verbs_api::RemoteRegion;
    ///
    /// # fn main() -> Result<(), verbs_api::RemoteRegionError> {
    /// let region = RemoteRegion { addr: 0x7f00_0000_1000, len: 4096, rkey: 0x300 };
    /// let bytes = region.to_bytes();
    /// assert_eq!(bytes, *b"\0\0\x7f\0\0\0\x10\0\0\0\0\0\0\0\x10\0\0\0\x03\0\x01");
    /// assert_eq!(RemoteRegion::from_bytes(&bytes)?, region);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [VERSION; Self::BYTES];
        bytes[..8].copy_from_slice(&self.addr.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.len.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.rkey.to_be_bytes());
        bytes
    }

    /// Reads the bytes that [`to_bytes`](Self::to_bytes) made.
    ///
    /// # Errors
    /// [`RemoteRegionError::Length`] for any other number of bytes, [`RemoteRegionError::Version`]
    /// for another version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RemoteRegionError> {
        let bytes: &[u8; Self::BYTES] =
            bytes.try_into().map_err(|_| RemoteRegionError::Length { given: bytes.len() })?;
        if bytes[20] != VERSION {
            return Err(RemoteRegionError::Version { found: bytes[20] });
        }
        Ok(Self {
            addr: u64::from_be_bytes(field(bytes, 0)),
            len: u64::from_be_bytes(field(bytes, 8)),
            rkey: u32::from_be_bytes(field(bytes, 16)),
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix("addr=0x")?;
        let (addr, text) = text.split_once(",len=")?;
        let (len, rkey) = text.split_once(",rkey=0x")?;
        Some(Self {
            addr: u64::from_str_radix(addr, 16).ok()?,
            len: len.parse().ok()?,
            rkey: u32::from_str_radix(rkey, 16).ok()?,
        })
    }
}

impl fmt::Display for RemoteRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "addr={:#x},len={},rkey={:#010x}", self.addr, self.len, self.rkey)
    }
}

impl FromStr for RemoteRegion {
    type Err = RemoteRegionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text).ok_or_else(|| RemoteRegionError::Text { text: text.to_owned() })
    }
}
