//! The errors of a configuration.

use super::{MTU_BYTES_MAX, MTU_BYTES_MIN};
use crate::dctcp::G_SHIFT_MAX;
use crate::{RTT_NS_MAX, TARGET_NS_MAX};
use core::fmt;

/// A parameter out of its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// A fixed window of no bytes would never send.
    ZeroWindow,
    /// The PMTU is not within 256 to 4096 bytes.
    Mtu {
        /// The PMTU given, in bytes.
        mtu_bytes: u32,
    },
    /// The largest window does not hold one packet.
    WindowBelowMtu {
        /// The window given, in bytes.
        max_window_bytes: u32,
        /// The PMTU given, in bytes.
        mtu_bytes: u32,
    },
    /// The gain is not within 1/2 to 1/1024.
    Gain {
        /// The shift given.
        g_shift: u32,
    },
    /// The reference round trip of DCTCP's fair growth is above [`RTT_NS_MAX`].
    ReferenceRtt {
        /// The time given, in nanoseconds.
        given_ns: u32,
    },
    /// A target delay, of Swift or of a host, is 0 or above [`TARGET_NS_MAX`].
    Target {
        /// The time given, in nanoseconds.
        given_ns: u32,
    },
    /// The least rate to a host that does not keep up would never send.
    ZeroFloor,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ZeroWindow => write!(f, "a fixed window of 0 bytes never sends"),
            Self::Mtu { mtu_bytes } => {
                write!(f, "PMTU of {mtu_bytes} bytes is not within {MTU_BYTES_MIN} to {MTU_BYTES_MAX}")
            }
            Self::WindowBelowMtu { max_window_bytes, mtu_bytes } => {
                write!(f, "largest window of {max_window_bytes} bytes holds no packet of {mtu_bytes} bytes")
            }
            Self::Gain { g_shift } => write!(f, "gain shift {g_shift} is not within 1 to {G_SHIFT_MAX}"),
            Self::ReferenceRtt { given_ns } => {
                write!(f, "reference round trip of {given_ns} ns is above {RTT_NS_MAX}")
            }
            Self::Target { given_ns } => {
                write!(f, "target delay of {given_ns} ns is not within 1 to {TARGET_NS_MAX}")
            }
            Self::ZeroFloor => write!(f, "a least rate of 0 bytes a second never sends"),
        }
    }
}

impl core::error::Error for ConfigError {}
