//! The configuration of a controller.

mod error;

pub use error::ConfigError;

use crate::{DcqcnConfig, DctcpConfig, LossEvent, ONE, SwiftConfig};

/// Smallest PMTU in bytes (protocol.md 1.4).
const MTU_BYTES_MIN: u32 = 256;
/// Largest PMTU in bytes (protocol.md 1.4).
const MTU_BYTES_MAX: u32 = 4096;

/// The response of a controller to lost packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LossResponse {
    /// Nothing: marks or delays alone tell of congestion, as in the paper.
    None,
    /// Half the window for each episode of loss, as TCP does: right where every loss is a queue
    /// that overflowed.
    HalvePerEpisode,
    /// A cut only if the round trip shows a queue, or more is lost than a link loses by chance
    /// (docs/adr/0029).
    #[default]
    ConfirmedByDelay,
}

impl LossResponse {
    /// What a loss takes off the window, in Q16; 0: nothing.
    pub(crate) fn cut(self, event: &LossEvent) -> u32 {
        match self {
            Self::None => 0,
            Self::HalvePerEpisode => ONE / 2,
            Self::ConfirmedByDelay => event.confirmed_cut(),
        }
    }
}

/// A controller with its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ControllerConfig {
    /// A window that never changes: congestion control is off.
    Fixed {
        /// The window, in bytes.
        window_bytes: u32,
    },
    /// DCTCP, from the fraction of packets marked by ECN.
    Dctcp(DctcpConfig),
    /// Swift, from delays.
    Swift(SwiftConfig),
    /// DCQCN, from congestion notifications or single marks.
    Dcqcn(DcqcnConfig),
}

impl ControllerConfig {
    /// Are all parameters in their ranges?
    ///
    /// # Errors
    /// The first parameter that is not, with its value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match *self {
            Self::Fixed { window_bytes: 0 } => Err(ConfigError::ZeroWindow),
            Self::Fixed { .. } => Ok(()),
            Self::Dctcp(config) => config.validate(),
            Self::Swift(config) => config.validate(),
            Self::Dcqcn(config) => config.validate(),
        }
    }
}

/// PMTU and largest window, which all but the fixed window have.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub max_window_bytes: u32,
    pub mtu_bytes: u32,
}

impl Limits {
    pub fn validate(self) -> Result<(), ConfigError> {
        let Self { max_window_bytes, mtu_bytes } = self;
        if !(MTU_BYTES_MIN..=MTU_BYTES_MAX).contains(&mtu_bytes) {
            Err(ConfigError::Mtu { mtu_bytes })
        } else if max_window_bytes < mtu_bytes {
            Err(ConfigError::WindowBelowMtu { max_window_bytes, mtu_bytes })
        } else {
            Ok(())
        }
    }

    /// The nearest valid limits; the PMTU in 16 bits.
    pub fn clamped(self) -> (u32, u16) {
        let mtu = self.mtu_bytes.clamp(MTU_BYTES_MIN, MTU_BYTES_MAX);
        (self.max_window_bytes.max(mtu), u16::try_from(mtu).unwrap_or(u16::MAX))
    }
}
