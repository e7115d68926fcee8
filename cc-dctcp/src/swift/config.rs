//! Parameters of Swift.

use crate::config::Limits;
use crate::{ConfigError, LossResponse, RTT_NS_MAX};

/// Longest target delay, in nanoseconds: 4.19 ms, the longest that ACK_DELAY can say.
pub const TARGET_NS_MAX: u32 = RTT_NS_MAX;

/// Parameters of [`Swift`](crate::Swift).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SwiftConfig {
    /// Largest window, and the first one, in bytes.
    pub max_window_bytes: u32,
    /// PMTU, in bytes: smallest window, and what a window grows by in each round trip.
    pub mtu_bytes: u32,
    /// Round trip without the receiving host that a large window aims at, in nanoseconds: that of
    /// the empty path and the queue that it may keep.
    pub fabric_target_ns: u32,
    /// Longest time in the receiving host (ACK_DELAY, protocol.md 2.2) that it aims at, in
    /// nanoseconds.
    pub host_target_ns: u32,
    /// The response to losses.
    pub loss_response: LossResponse,
}

impl SwiftConfig {
    /// 25 us for the fabric and 100 us for the host, and a cut for losses that delay confirms.
    #[must_use]
    pub const fn new(max_window_bytes: u32, mtu_bytes: u32) -> Self {
        Self {
            max_window_bytes,
            mtu_bytes,
            fabric_target_ns: 25_000,
            host_target_ns: 100_000,
            loss_response: LossResponse::ConfirmedByDelay,
        }
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        self.limits().validate()?;
        for given_ns in [self.fabric_target_ns, self.host_target_ns] {
            if !(1..=TARGET_NS_MAX).contains(&given_ns) {
                return Err(ConfigError::Target { given_ns });
            }
        }
        Ok(())
    }

    pub(crate) const fn limits(&self) -> Limits {
        Limits { max_window_bytes: self.max_window_bytes, mtu_bytes: self.mtu_bytes }
    }
}
