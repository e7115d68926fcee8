//! The peer's memory, as the peer describes it.

use crate::work_request::RemoteAddr;
use core::fmt;
use core::str::FromStr;

/// A region of the peer's, as [`MemoryRegion::remote`](crate::MemoryRegion::remote) describes it. Travels as text:
/// `addr=0x7f0000001000,len=4096,rkey=0x00000301`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RemoteRegion {
    /// Address of its first byte.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
    /// Its key.
    pub rkey: u32,
}

/// A text that describes no region.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{text}` is no remote region; one is addr=0x..,len=..,rkey=0x..")]
pub struct RemoteRegionError {
    /// The text.
    pub text: String,
}

impl RemoteRegion {
    /// The byte at `offset`. The peer refuses what is outside its region.
    #[must_use]
    pub const fn at(&self, offset: u64) -> RemoteAddr {
        RemoteAddr { addr: self.addr.wrapping_add(offset), rkey: self.rkey }
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
        Self::parse(text).ok_or_else(|| RemoteRegionError { text: text.to_owned() })
    }
}
