//! The path MTU: bytes of payload in every packet of a message but its last (protocol.md 1.4).

use core::cmp::Ordering;

use crate::WireMode;

/// A path MTU. They are ordered by their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Pmtu {
    /// 256 bytes.
    B256 = 1,
    /// 512 bytes.
    B512 = 2,
    /// 1024 bytes.
    B1024 = 3,
    /// 1408 bytes: what a link with an MTU of 1500 carries. The SRNIC dialect alone has it
    /// (protocol.md 2.3); verbs and plain RoCEv2 do not.
    B1408 = 3 | 1 << 3,
    /// 2048 bytes.
    B2048 = 4,
    /// 4096 bytes.
    B4096 = 5,
}

impl Pmtu {
    /// Every PMTU, in ascending order.
    pub const ALL: [Self; 6] = [Self::B256, Self::B512, Self::B1024, Self::B1408, Self::B2048, Self::B4096];

    /// Those of plain RoCEv2 and of verbs (`ibv_mtu`), in ascending order.
    pub const PLAIN: [Self; 5] = [Self::B256, Self::B512, Self::B1024, Self::B2048, Self::B4096];

    /// What a device MTU spends on a data packet beyond its payload, at most: IPv6 40, UDP 8, BTH
    /// 12, the longest headers of a packet with payload (a SRNIC WRITE with immediate: 28) and
    /// ICRC 4.
    pub const OVERHEAD_MAX: u32 = 40 + 8 + 12 + 28 + 4;

    /// Payload bytes.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::B256 => 256,
            Self::B512 => 512,
            Self::B1024 => 1024,
            Self::B1408 => 1408,
            Self::B2048 => 2048,
            Self::B4096 => 4096,
        }
    }

    /// The PMTU of exactly this many bytes.
    #[must_use]
    pub const fn from_bytes(bytes: u32) -> Option<Self> {
        match bytes {
            256 => Some(Self::B256),
            512 => Some(Self::B512),
            1024 => Some(Self::B1024),
            1408 => Some(Self::B1408),
            2048 => Some(Self::B2048),
            4096 => Some(Self::B4096),
            _ => None,
        }
    }

    /// Its code: that of verbs and of the CM (`ibv_mtu`), 1 to 5; 11, 1024's with bit 3, for 1408
    /// (protocol.md 2.3).
    #[inline]
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The PMTU of a [`code`](Self::code).
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::B256),
            2 => Some(Self::B512),
            3 => Some(Self::B1024),
            4 => Some(Self::B2048),
            5 => Some(Self::B4096),
            11 => Some(Self::B1408),
            _ => None,
        }
    }

    /// The largest PMTU that a dialect has and that is not above this one.
    #[must_use]
    pub const fn in_dialect(self, mode: WireMode) -> Self {
        match (self, mode) {
            (Self::B1408, WireMode::Plain) => Self::B1024,
            _ => self,
        }
    }

    /// The largest PMTU of the SRNIC dialect whose packets fit a device MTU (bytes of the IP
    /// packet); `None` below 256 + headers.
    #[must_use]
    pub const fn largest_for(device_mtu: u32) -> Option<Self> {
        let mut i = Self::ALL.len();
        while i > 0 {
            i -= 1;
            if Self::ALL[i].bytes() + Self::OVERHEAD_MAX <= device_mtu {
                return Some(Self::ALL[i]);
            }
        }
        None
    }

    /// Packets of a message of `len` bytes: at least one.
    #[inline]
    #[must_use]
    pub const fn packets(self, len: u32) -> u32 {
        match len {
            0 => 1,
            _ => len.div_ceil(self.bytes()),
        }
    }
}

impl Ord for Pmtu {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes().cmp(&other.bytes())
    }
}

impl PartialOrd for Pmtu {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
