//! Congestion controllers: DCTCP, Swift, DCQCN and a fixed window. Pure integer arithmetic, no
//! dependency (protocol.md 2.6).
//!
//! A [`Controller`] is 40 bytes at most, `Copy`, reads no clock and draws no random number, so the
//! same events give the same windows everywhere.
//!
//! ```
//! use cc_dctcp::{AckEvent, Controller, ControllerConfig, DctcpConfig};
//!
//! let config = ControllerConfig::Dctcp(DctcpConfig::new(512 * 1024, 1024));
//! config.validate()?;
//! let mut controller = Controller::new(&config);
//! assert_eq!(controller.cwnd_bytes(), 512 * 1024);
//! // Half of the 16 acknowledged packets were marked.
//! controller.on_ack(&AckEvent { acked_bytes: 16 * 1024, acked_packets: 16, ce_delta: 8, ..AckEvent::default() });
//! assert_eq!(controller.cwnd_bytes(), 256 * 1024);
//! # Ok::<(), cc_dctcp::ConfigError>(())
//! ```
#![forbid(unsafe_code)]

mod config;
mod controller;
mod dcqcn;
mod dctcp;
mod delay;
mod fixed;
mod host_rate;
mod loss;
mod swift;
mod window;

pub use config::{ConfigError, ControllerConfig, LossResponse};
pub use controller::{AckEvent, Controller};
pub use dcqcn::{Dcqcn, DcqcnConfig};
pub use dctcp::{Dctcp, DctcpConfig};
pub use delay::RTT_NS_MAX;
pub use fixed::Fixed;
pub use host_rate::{HostRate, HostRateConfig};
pub use loss::{LossEvent, LossRate, PathDelay, RoundTrip};
pub use swift::{Swift, SwiftConfig, TARGET_NS_MAX};

/// 1.0 in Q16.
const ONE: u32 = 1 << 16;
