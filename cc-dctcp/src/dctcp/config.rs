//! Parameters of DCTCP.

use crate::config::Limits;
use crate::{ConfigError, LossResponse, RTT_NS_MAX};

/// Largest shift of the gain: a gain of 1/1024.
pub(crate) const G_SHIFT_MAX: u32 = 10;

/// Parameters of [`Dctcp`](crate::Dctcp).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DctcpConfig {
    /// Largest window, and the first one: the cap by the bandwidth-delay product, in bytes.
    pub max_window_bytes: u32,
    /// PMTU, in bytes: smallest window, and what a window grows by in each round trip.
    pub mtu_bytes: u32,
    /// The gain g of the moving average is 2^-g_shift.
    pub g_shift: u32,
    /// The response to losses.
    pub loss_response: LossResponse,
    /// RTT-fair growth (protocol.md 2.6): a path of this round-trip time, in nanoseconds, grows by
    /// one PMTU a round trip, any other by the square of their ratio, so that rates rise alike. 0,
    /// the default: one PMTU on every path.
    pub rtt_reference_ns: u32,
}

impl DctcpConfig {
    /// The defaults of protocol.md 2.6: g = 1/16, and a cut for losses that delay confirms.
    #[must_use]
    pub const fn new(max_window_bytes: u32, mtu_bytes: u32) -> Self {
        let loss_response = LossResponse::ConfirmedByDelay;
        Self { max_window_bytes, mtu_bytes, g_shift: 4, loss_response, rtt_reference_ns: 0 }
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        self.limits().validate()?;
        if !(1..=G_SHIFT_MAX).contains(&self.g_shift) {
            return Err(ConfigError::Gain { g_shift: self.g_shift });
        }
        if self.rtt_reference_ns > RTT_NS_MAX {
            return Err(ConfigError::ReferenceRtt { given_ns: self.rtt_reference_ns });
        }
        Ok(())
    }

    pub(crate) const fn limits(&self) -> Limits {
        Limits { max_window_bytes: self.max_window_bytes, mtu_bytes: self.mtu_bytes }
    }
}
