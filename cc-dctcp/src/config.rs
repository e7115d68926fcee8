//! What a controller is made from.

use core::fmt;

/// Smallest PMTU in bytes (protocol.md 1.4).
const MTU_BYTES_MIN: u32 = 256;
/// Largest PMTU in bytes (protocol.md 1.4).
const MTU_BYTES_MAX: u32 = 4096;
/// Largest shift of the gain: a gain of 1/1024.
const G_SHIFT_MAX: u32 = 10;

/// What a controller does when packets were lost.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LossResponse {
    /// Nothing: marks alone tell of congestion, as in the paper.
    None,
    /// Half the window for each episode of loss, for networks that drop before they mark.
    #[default]
    HalvePerEpisode,
}

/// Parameters of [`Dctcp`](crate::Dctcp).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DctcpConfig {
    /// Largest window, and the first one: the cap by the bandwidth-delay product, in bytes.
    pub max_window_bytes: u32,
    /// PMTU, in bytes: smallest window, and what a window grows by in each round trip.
    pub mtu_bytes: u32,
    /// The gain g of the moving average is 2^-g_shift.
    pub g_shift: u32,
    /// What to do about losses.
    pub loss_response: LossResponse,
}

impl DctcpConfig {
    /// The defaults of protocol.md 2.6: g = 1/16, half the window for each episode of loss.
    #[must_use]
    pub const fn new(max_window_bytes: u32, mtu_bytes: u32) -> Self {
        Self { max_window_bytes, mtu_bytes, g_shift: 4, loss_response: LossResponse::HalvePerEpisode }
    }

    /// The nearest configuration that is valid.
    pub(crate) fn clamped(self) -> Self {
        let mtu_bytes = self.mtu_bytes.clamp(MTU_BYTES_MIN, MTU_BYTES_MAX);
        Self {
            mtu_bytes,
            max_window_bytes: self.max_window_bytes.max(mtu_bytes),
            g_shift: self.g_shift.clamp(1, G_SHIFT_MAX),
            ..self
        }
    }
}

/// Which controller, with its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ControllerConfig {
    /// A window that never changes: congestion control is off.
    Fixed {
        /// The window, in bytes.
        window_bytes: u32,
    },
    /// DCTCP, from marks of ECN.
    Dctcp(DctcpConfig),
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
            Self::Dctcp(config) => {
                let DctcpConfig { max_window_bytes, mtu_bytes, g_shift, .. } = config;
                if !(MTU_BYTES_MIN..=MTU_BYTES_MAX).contains(&mtu_bytes) {
                    Err(ConfigError::Mtu { mtu_bytes })
                } else if max_window_bytes < mtu_bytes {
                    Err(ConfigError::WindowBelowMtu { max_window_bytes, mtu_bytes })
                } else if !(1..=G_SHIFT_MAX).contains(&g_shift) {
                    Err(ConfigError::Gain { g_shift })
                } else {
                    Ok(())
                }
            }
        }
    }
}

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
        }
    }
}

impl core::error::Error for ConfigError {}
