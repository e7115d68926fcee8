//! Which congestion controller a queue pair runs, and how it is tuned (protocol.md 2.6).

pub use cc_dctcp::LossResponse;

use super::{AttrError, QpAttrMask};
use cc_dctcp::{ControllerConfig, DcqcnConfig, DctcpConfig, RTT_NS_MAX, SwiftConfig, TARGET_NS_MAX};

/// Which congestion controller a queue pair runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum CongestionAlgorithm {
    /// Window DCTCP, from the marks that the peer counts.
    #[default]
    Dctcp,
    /// A constant window: congestion control is off.
    Fixed,
    /// Swift, from delays: one target for the fabric, one for the peer's host.
    Swift,
    /// DCQCN with its rate kept as a window, as a baseline; each mark counts as a notification.
    Dcqcn,
}

/// Parameters of the controllers; each takes those that it has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CongestionTuning {
    /// What losses do to the window, of all but [`CongestionAlgorithm::Fixed`].
    pub loss_response: LossResponse,
    /// DCTCP: round trip, in nanoseconds, of a path whose window grows by one PMTU in each; other
    /// paths grow by the square of their ratio, so that long and short ones share alike. 0, the
    /// default: every path grows by one PMTU. At most 4.19 ms.
    pub rtt_reference_ns: u32,
    /// Swift: round trip without the peer's host that it aims at, in nanoseconds, 1 up to 4.19 ms.
    pub fabric_target_ns: u32,
    /// Swift: longest time in the peer's host (ACK_DELAY) that it aims at, in nanoseconds, 1 up to
    /// 4.19 ms.
    pub host_target_ns: u32,
}

impl Default for CongestionTuning {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl CongestionTuning {
    /// Losses count as congestion if delay confirms it; targets of 25 and 100 us; no RTT-fair
    /// growth.
    pub const DEFAULT: Self = {
        let SwiftConfig { fabric_target_ns, host_target_ns, loss_response, .. } = SwiftConfig::new(0, 0);
        Self { loss_response, rtt_reference_ns: 0, fabric_target_ns, host_target_ns }
    };

    /// Checks every value, whichever controller is chosen.
    pub(super) fn validate(&self) -> Result<(), AttrError> {
        let ranges = [
            (self.rtt_reference_ns, 0, RTT_NS_MAX),
            (self.fabric_target_ns, 1, TARGET_NS_MAX),
            (self.host_target_ns, 1, TARGET_NS_MAX),
        ];
        for (value, min, max) in ranges {
            if !(min..=max).contains(&value) {
                return Err(AttrError::OutOfRange { attribute: QpAttrMask::CONGESTION, value, min, max });
            }
        }
        Ok(())
    }

    /// The controller for a window of at most `max_window_bytes`.
    pub(crate) const fn controller(
        &self,
        algorithm: CongestionAlgorithm,
        max_window_bytes: u32,
        mtu_bytes: u32,
    ) -> ControllerConfig {
        let loss_response = self.loss_response;
        match algorithm {
            CongestionAlgorithm::Fixed => ControllerConfig::Fixed { window_bytes: max_window_bytes },
            CongestionAlgorithm::Dctcp => ControllerConfig::Dctcp(DctcpConfig {
                loss_response,
                rtt_reference_ns: self.rtt_reference_ns,
                ..DctcpConfig::new(max_window_bytes, mtu_bytes)
            }),
            CongestionAlgorithm::Swift => ControllerConfig::Swift(SwiftConfig {
                max_window_bytes,
                mtu_bytes,
                fabric_target_ns: self.fabric_target_ns,
                host_target_ns: self.host_target_ns,
                loss_response,
            }),
            CongestionAlgorithm::Dcqcn => {
                ControllerConfig::Dcqcn(DcqcnConfig { max_window_bytes, mtu_bytes, loss_response })
            }
        }
    }
}
