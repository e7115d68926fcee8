//! One kind of traffic, or of other work, of a scenario.

use super::{Faults, ScenarioError, within};
use datapath::engine::WINDOW_LIMIT;
use datapath::qp::attr::{CongestionAlgorithm, RecoveryPolicy};
use serde::{Deserialize, Serialize};
use srnic_fabric::file::SizesFile;
use std::fmt;
use wire::Pmtu;

/// Queue pairs of a scenario at most.
pub(super) const QPS_MAX: u32 = 16_384;
/// Bytes of a message at most.
const MESSAGE_MAX: u32 = 16 << 20;
/// Memory regions of an entry at most.
const REGIONS_MAX: u32 = 256;
/// Hosts at most.
const HOSTS_MAX: usize = 64;
/// Requests that a queue pair may have outstanding at most.
const DEPTH_MAX: u32 = 4096;
/// The latest begin of an entry, in microseconds: no scenario takes longer.
const START_MAX_US: u32 = 10_000_000;

/// One kind of traffic from a host to another, or to itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Entry {
    /// What results call it.
    pub name: String,
    /// The tenant that its queue pairs belong to, on both hosts; empty: that of all.
    pub tenant: String,
    /// The host that posts.
    pub from: usize,
    /// The host that it works on.
    pub to: usize,
    /// What it posts.
    pub op: Op,
    /// Bytes of each message: a number, `cache-follower`, or knots as in docs/fabric.md. Atomics
    /// have 8.
    pub sizes: SizesFile,
    /// Queue pairs.
    pub qps: u32,
    /// Requests that each has outstanding.
    pub depth: u32,
    /// Requests that are posted at once.
    pub batch: u32,
    /// Nanoseconds from one post of a queue pair to the next at least.
    pub pace_ns: u32,
    /// When it begins, in microseconds.
    pub start_us: u32,
    /// Packets that each may have under way.
    pub window: u16,
    /// Path MTU.
    pub mtu: u32,
    /// The transport service.
    pub service: Service,
    /// One in so many requests has a completion.
    pub signaled: u32,
    /// Whether the host that posts looks at its completions. If not, its completion queues have
    /// `depth` entries and overrun.
    pub polled: bool,
    /// Elements of a request, or of a receive.
    pub elements: u32,
    /// Memory regions that requests take in turn.
    pub regions: u32,
    /// Receives that are posted; as many as requests may be outstanding if this is 0.
    pub receives: u32,
    /// Nanoseconds from one receive that is posted to the next at least.
    pub receive_ns: u32,
    /// Whether ends that failed connect again. Errors are no news then.
    pub reconnect: bool,
    /// What goes wrong with its packets, both ways, beside what goes wrong with all.
    pub faults: Faults,
    /// Congestion control: `fixed`, `dctcp`, `swift`, `dcqcn`.
    pub congestion: String,
    /// `selective-repeat` or `go-back-n`.
    pub recovery: String,
}

impl Default for Entry {
    fn default() -> Self {
        Self {
            name: String::new(),
            tenant: String::new(),
            from: 0,
            to: 1,
            op: Op::Write,
            sizes: SizesFile::Bytes(4096),
            qps: 1,
            depth: 16,
            batch: 1,
            pace_ns: 0,
            start_us: 0,
            window: 128,
            mtu: 1024,
            service: Service::Rc,
            signaled: 1,
            polled: true,
            elements: 1,
            regions: 1,
            receives: 0,
            receive_ns: 0,
            reconnect: false,
            faults: Faults::default(),
            congestion: "fixed".to_owned(),
            recovery: "selective-repeat".to_owned(),
        }
    }
}

/// What an entry does again and again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// RDMA WRITE.
    Write,
    /// RDMA WRITE with immediate.
    WriteImm,
    /// SEND.
    Send,
    /// RDMA READ.
    Read,
    /// Fetch-and-add.
    Atomic,
    /// RDMA WRITE to memory that its key does not show.
    BadKey,
    /// A packet for a queue pair that is not there.
    BadQpn,
    /// A packet for a queue pair of the entry's, far beyond its window.
    BadPsn,
    /// A queue pair and its completion queues are created and destroyed.
    Create,
    /// A memory region is registered and deregistered.
    Register,
}

impl Op {
    /// Whether the peer needs a receive for it.
    #[must_use]
    pub const fn takes_receive(self) -> bool {
        matches!(self, Self::WriteImm | Self::Send)
    }

    /// Whether data, or a word, come back.
    #[must_use]
    pub const fn has_response(self) -> bool {
        matches!(self, Self::Read | Self::Atomic)
    }

    /// Whether it is a work request.
    #[must_use]
    pub const fn is_request(self) -> bool {
        matches!(self, Self::Write | Self::WriteImm | Self::Send | Self::Read | Self::Atomic | Self::BadKey)
    }

    /// Whether it is a call that changes objects of a device.
    #[must_use]
    pub const fn is_control(self) -> bool {
        matches!(self, Self::Create | Self::Register)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Write => "write",
            Self::WriteImm => "write-imm",
            Self::Send => "send",
            Self::Read => "read",
            Self::Atomic => "atomic",
            Self::BadKey => "bad-key",
            Self::BadQpn => "bad-qpn",
            Self::BadPsn => "bad-psn",
            Self::Create => "create",
            Self::Register => "register",
        })
    }
}

/// A transport service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
}

impl Entry {
    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        within("from", u32::try_from(self.from).unwrap_or(u32::MAX), (0.0, HOSTS_MAX as f64 - 1.0))?;
        within("to", u32::try_from(self.to).unwrap_or(u32::MAX), (0.0, HOSTS_MAX as f64 - 1.0))?;
        let depth = (1.0, f64::from(DEPTH_MAX));
        within("qps", self.qps, (1.0, f64::from(QPS_MAX)))?;
        within("depth", self.depth, depth)?;
        within("batch", self.batch, depth)?;
        within("start_us", self.start_us, (0.0, f64::from(START_MAX_US)))?;
        within("window", self.window, (1.0, f64::from(WINDOW_LIMIT)))?;
        within("signaled", self.signaled, (1.0, f64::from(self.depth)))?;
        within("elements", self.elements, (1.0, 8.0))?;
        within("regions", self.regions, (1.0, f64::from(REGIONS_MAX)))?;
        within("receives", self.receives, (0.0, f64::from(DEPTH_MAX)))?;
        within("sizes", self.sizes.clone().sizes()?.largest(), (0.0, f64::from(MESSAGE_MAX)))?;
        self.faults.check()?;
        within("corrupt of a workload (that of [faults] is for all)", self.faults.corrupt, (0.0, 0.0))?;
        if !self.op.is_request() {
            within("pace_ns of a workload without requests", self.pace_ns, (1.0, f64::from(u32::MAX)))?;
        }
        let pmtu = self.pmtu()?;
        self.congestion()?;
        self.recovery()?;
        let reliable_only = self.op.has_response() || !self.op.is_request() || self.op == Op::BadKey;
        if self.service == Service::Uc && reliable_only {
            return Err(ScenarioError::Service(self.op));
        }
        if self.service == Service::Uc && !Pmtu::PLAIN.contains(&pmtu) {
            return Err(ScenarioError::PathMtu(self.mtu));
        }
        Ok(())
    }

    /// Whether it does what well-meant programs do not, or what goes wrong with it is its own.
    #[must_use]
    pub fn is_hostile(&self) -> bool {
        let asks_for_it = self.op == Op::BadKey || !self.op.is_request();
        asks_for_it || !self.polled || self.reconnect || self.faults != Faults::default()
    }

    /// The path MTU.
    ///
    /// # Errors
    /// [`ScenarioError::Word`].
    pub fn pmtu(&self) -> Result<Pmtu, ScenarioError> {
        let choices = "256, 512, 1024, 1408, 2048, 4096";
        Pmtu::from_bytes(self.mtu).ok_or(ScenarioError::Word { key: "mtu", choices })
    }

    /// The congestion controller.
    ///
    /// # Errors
    /// [`ScenarioError::Word`].
    pub fn congestion(&self) -> Result<CongestionAlgorithm, ScenarioError> {
        Ok(match self.congestion.as_str() {
            "fixed" => CongestionAlgorithm::Fixed,
            "dctcp" => CongestionAlgorithm::Dctcp,
            "swift" => CongestionAlgorithm::Swift,
            "dcqcn" => CongestionAlgorithm::Dcqcn,
            _ => {
                let choices = "fixed, dctcp, swift, dcqcn";
                return Err(ScenarioError::Word { key: "congestion", choices });
            }
        })
    }

    /// How losses are repaired.
    ///
    /// # Errors
    /// [`ScenarioError::Word`].
    pub fn recovery(&self) -> Result<RecoveryPolicy, ScenarioError> {
        match self.recovery.as_str() {
            "selective-repeat" => Ok(RecoveryPolicy::SelectiveRepeat),
            "go-back-n" => Ok(RecoveryPolicy::GoBackN),
            _ => Err(ScenarioError::Word { key: "recovery", choices: "selective-repeat, go-back-n" }),
        }
    }

    /// Receives that are posted.
    #[must_use]
    pub const fn receives_ahead(&self) -> u32 {
        if self.receives == 0 { self.depth } else { self.receives }
    }
}
