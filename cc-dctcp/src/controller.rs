//! Any of the controllers, and the events that they all hear.

use crate::{ControllerConfig, Dcqcn, Dctcp, Fixed, LossEvent, LossResponse, RoundTrip, Swift};

/// The facts about congestion that one acknowledgement carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AckEvent {
    /// Time, in nanoseconds of the caller's clock.
    pub now_ns: u64,
    /// Bytes newly acknowledged or SACKed.
    pub acked_bytes: u32,
    /// Packets newly acknowledged or SACKed.
    pub acked_packets: u32,
    /// The increase of the receiver's count of CE marks (protocol.md 2.5, "CE_CNT").
    pub ce_delta: u32,
    /// A new sample of the round trip.
    pub trip: Option<RoundTrip>,
    /// Longest time that the packet can have spent in the receiving host, in nanoseconds
    /// (protocol.md 2.2, "ACK_DELAY").
    pub host_delay_ns: u32,
    /// Less than a window was in flight for want of data, so the window was not put to the test.
    pub app_limited: bool,
}

/// A congestion controller of one stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Controller {
    /// A window that never changes.
    Fixed(Fixed),
    /// DCTCP.
    Dctcp(Dctcp),
    /// Swift.
    Swift(Swift),
    /// DCQCN.
    Dcqcn(Dcqcn),
}

// It lives in the stream's part of the QPC, which is counted in cache lines.
const _: () = assert!(size_of::<Controller>() <= 40);

impl Controller {
    /// Makes the controller that `config` asks for. What [`ControllerConfig::validate`] refuses is
    /// moved to the nearest value that it takes.
    #[must_use]
    pub fn new(config: &ControllerConfig) -> Self {
        match *config {
            ControllerConfig::Fixed { window_bytes } => Self::Fixed(Fixed::new(window_bytes)),
            ControllerConfig::Dctcp(config) => Self::Dctcp(Dctcp::new(config)),
            ControllerConfig::Swift(config) => Self::Swift(Swift::new(config)),
            ControllerConfig::Dcqcn(config) => Self::Dcqcn(Dcqcn::new(config)),
        }
    }

    /// Packets were acknowledged.
    #[inline]
    pub fn on_ack(&mut self, event: &AckEvent) {
        match self {
            Self::Fixed(_) => {}
            Self::Dctcp(dctcp) => dctcp.on_ack(event),
            Self::Swift(swift) => swift.on_ack(event),
            Self::Dcqcn(dcqcn) => dcqcn.on_ack(event),
        }
    }

    /// Packets were lost; called once for each episode of loss: for packets sent after the last one
    /// was heard of.
    pub fn on_loss_episode(&mut self, event: &LossEvent) {
        match self {
            Self::Fixed(_) => {}
            Self::Dctcp(dctcp) => dctcp.on_loss_episode(event),
            Self::Swift(swift) => swift.on_loss_episode(event),
            Self::Dcqcn(dcqcn) => dcqcn.on_loss_episode(event),
        }
    }

    /// Returns `true` if it asks that losses be confirmed by delay.
    #[must_use]
    pub fn confirms_losses(&self) -> bool {
        let response = match self {
            Self::Fixed(_) => return false,
            Self::Dctcp(dctcp) => dctcp.loss_response(),
            Self::Swift(swift) => swift.loss_response(),
            Self::Dcqcn(dcqcn) => dcqcn.loss_response(),
        };
        response == LossResponse::ConfirmedByDelay
    }

    /// A cut turned out to be for nothing: back to a window of `window_bytes`, if it is smaller
    /// now.
    pub fn restore(&mut self, window_bytes: u32) {
        match self {
            Self::Fixed(_) => {}
            Self::Dctcp(dctcp) => dctcp.restore(window_bytes),
            Self::Swift(swift) => swift.restore(window_bytes),
            Self::Dcqcn(dcqcn) => dcqcn.restore(window_bytes),
        }
    }

    /// The retransmission timer fired.
    pub fn on_rto(&mut self, event: &LossEvent) {
        match self {
            Self::Fixed(_) => {}
            Self::Dctcp(dctcp) => dctcp.on_rto(event),
            Self::Swift(swift) => swift.on_rto(event),
            Self::Dcqcn(dcqcn) => dcqcn.on_rto(event),
        }
    }

    /// A congestion notification packet came (`Plain` mode). `now_ns` is in nanoseconds. Swift
    /// looks at delays only.
    pub fn on_cnp(&mut self, now_ns: u64) {
        match self {
            Self::Fixed(_) | Self::Swift(_) => {}
            Self::Dctcp(dctcp) => dctcp.on_cnp(now_ns),
            Self::Dcqcn(dcqcn) => dcqcn.on_cnp(now_ns),
        }
    }

    /// The window: bytes that may be in flight.
    #[inline]
    #[must_use]
    pub const fn cwnd_bytes(&self) -> u32 {
        match self {
            Self::Fixed(fixed) => fixed.cwnd_bytes(),
            Self::Dctcp(dctcp) => dctcp.cwnd_bytes(),
            Self::Swift(swift) => swift.cwnd_bytes(),
            Self::Dcqcn(dcqcn) => dcqcn.cwnd_bytes(),
        }
    }
}

#[cfg(test)]
mod tests;
