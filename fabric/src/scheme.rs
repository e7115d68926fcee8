//! What stands beside each other: a transport in the hosts, and the switches that it is for.

use crate::clock::Ps;
use crate::host::HostConfig;
use crate::host::engine::EngineHostConfig;
use crate::host::model::{Control, MAP_BITS, ModelConfig, Recovery};
use crate::ideal::Frames;
use crate::pfc::PfcConfig;
use crate::switch::{Marks, SwitchConfig};
use cc_dctcp::LossResponse;
use datapath::qp::attr::CongestionTuning;
use wire::Pmtu;

/// A transport and its network. docs/fabric.md has where each of its parameters comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scheme {
    /// The engine as it ships: selective repeat, DCTCP.
    Srnic,
    /// As the paper has it: losses do nothing to the window.
    SrnicPaper,
    /// The engine on lossless Ethernet.
    SrnicPfc,
    /// A reference model of the engine.
    SrnicModel,
    /// A reference model of IRN: selective repeat, a cap of in-flight packets, paced DCQCN.
    Irn,
    /// IRN with the congestion control of SRNIC: DCTCP in the window. What differs from SRNIC then
    /// is the host, and how losses are repaired.
    IrnDctcp,
    /// A reference model of a NIC like `ConnectX-6`, on lossless Ethernet: go-back-N, paced DCQCN.
    Cx6,
    /// That NIC without PFC.
    Cx6Lossy,
}

impl Scheme {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Srnic,
        Self::SrnicPaper,
        Self::SrnicPfc,
        Self::SrnicModel,
        Self::Irn,
        Self::IrnDctcp,
        Self::Cx6,
        Self::Cx6Lossy,
    ];

    /// As tables and command lines name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Srnic => "srnic",
            Self::SrnicPaper => "srnic-paper",
            Self::SrnicPfc => "srnic-pfc",
            Self::SrnicModel => "srnic-model",
            Self::Irn => "irn",
            Self::IrnDctcp => "irn-dctcp",
            Self::Cx6 => "cx6",
            Self::Cx6Lossy => "cx6-lossy",
        }
    }

    /// The scheme of that name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.name() == name)
    }

    /// Its hosts, whose windows are at most `window` packets.
    #[must_use]
    pub fn host(self, window: u16) -> HostConfig {
        let engine = EngineHostConfig { window, ..EngineHostConfig::default() };
        // Receivers keep as many bits of what came ahead.
        let model = ModelConfig { cap: u32::from(window).min(MAP_BITS), ..MODEL };
        match self {
            Self::Srnic | Self::SrnicPfc => HostConfig::Engine(engine),
            Self::SrnicPaper => {
                let tuning = CongestionTuning { loss_response: LossResponse::None, ..engine.tuning };
                HostConfig::Engine(EngineHostConfig { tuning, ..engine })
            }
            Self::SrnicModel => HostConfig::Model(ModelConfig {
                control: Control::WindowDctcp,
                frames: Frames::SRNIC,
                turn: engine.turn,
                ring: engine.ring,
                ..model
            }),
            Self::Irn => HostConfig::Model(model),
            Self::IrnDctcp => HostConfig::Model(ModelConfig { control: Control::WindowDctcp, ..model }),
            Self::Cx6 => {
                HostConfig::Model(ModelConfig { timer_short: Ps::NEVER, timer_long: Ps::NEVER, ..GO_BACK_N })
            }
            Self::Cx6Lossy => HostConfig::Model(GO_BACK_N),
        }
    }

    /// Its switches.
    #[must_use]
    pub const fn switch(self) -> SwitchConfig {
        let marks = match self {
            Self::Irn | Self::Cx6 | Self::Cx6Lossy => Marks::DCQCN,
            _ => SwitchConfig::DEFAULT.marks,
        };
        let pfc = match self {
            Self::SrnicPfc | Self::Cx6 => Some(PfcConfig::DEFAULT),
            _ => None,
        };
        SwitchConfig { marks, pfc, ..SwitchConfig::DEFAULT }
    }
}

/// A NIC that acts at once, and sends as IRN does.
const MODEL: ModelConfig = ModelConfig {
    recovery: Recovery::SelectiveRepeat,
    control: Control::PacedDcqcn,
    cap: 160,
    mtu: Pmtu::B1024,
    // Ethernet, IPv4, UDP, BTH, a RETH in every packet, ICRC; and BTH, AETH, a SACK.
    frames: Frames { data_headers: 74, acknowledgement: 66 },
    timer_short: Ps::from_ns(100_000),
    timer_long: Ps::from_ns(320_000),
    packets_per_ack: 1,
    notify_gap: Ps::from_ns(50_000),
    cut_gap: Ps(0),
    turn: Ps::from_ns(1),
    ring: 2,
    ps_per_byte: 80,
};

/// A NIC that repairs by go-back-N.
const GO_BACK_N: ModelConfig = ModelConfig {
    recovery: Recovery::GoBackN,
    cap: u32::MAX,
    // Without RETH, as in all packets but the first; BTH, AETH.
    frames: Frames { data_headers: 58, acknowledgement: 62 },
    timer_short: Ps::from_ns(320_000),
    packets_per_ack: 16,
    ..MODEL
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_have_names_of_their_own() {
        for scheme in Scheme::ALL {
            assert_eq!(Scheme::of_name(scheme.name()), Some(scheme));
        }
        assert_eq!(Scheme::of_name("tcp"), None);
    }
}
