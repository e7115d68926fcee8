//! Congestion controllers, as command lines name them.

use clap::ValueEnum;
use verbs_api::CongestionAlgorithm;

/// A congestion controller.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Congestion {
    /// A constant window: congestion control is off
    Fixed,
    /// DCTCP, from ECN marks, and from losses that delay confirms
    Dctcp,
    /// Swift, from delays
    Swift,
    /// DCQCN, a baseline
    Dcqcn,
}

impl From<Congestion> for CongestionAlgorithm {
    fn from(congestion: Congestion) -> Self {
        match congestion {
            Congestion::Fixed => Self::Fixed,
            Congestion::Dctcp => Self::Dctcp,
            Congestion::Swift => Self::Swift,
            Congestion::Dcqcn => Self::Dcqcn,
        }
    }
}
