//! What a rig and its queue pairs are made with.

use super::Srq;
use crate::network::PortOptions;
use crate::rest::Rest;
use datapath::engine::{AckTiming, EngineConfig};
use datapath::latency::LatencyConfig;
use datapath::memory::{Access, ProtectionDomainId};
use datapath::qp::attr::{CongestionAlgorithm, CongestionTuning, RecoveryPolicy, WriteOrder};
use datapath::qp::state::QpType;
use datapath::queue::QueueCaps;
use datapath::sched::{CostTable, HostRateConfig, SchedAttributes, SchedulerConfig};
use datapath::stream::RtoConfig;
use wire::{Pmtu, WireMode};

/// All that a peer can be allowed.
pub(super) const REMOTE_EVERYTHING: Access =
    Access::LOCAL_WRITE.union(Access::REMOTE_WRITE).union(Access::REMOTE_READ).union(Access::REMOTE_ATOMIC);

/// Who runs the slow path of each engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlowPathDriver {
    /// The engine, in its turn.
    Stepped,
    /// Behind the rings of a thread, but run by the rig: every so many nanoseconds of virtual time.
    Late(u64),
    /// A thread, in its own time: nothing repeats exactly.
    Thread,
}

/// What a host takes for its work beside [`RigOptions::turn_cost_ns`], in nanoseconds: its next
/// turn begins when that is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostModel {
    /// For each frame that it sends or receives.
    pub frame_ns: u64,
    /// For each byte of them, in picoseconds.
    pub byte_ps: u64,
    /// For each atomic of a peer's that it executes.
    pub atomic_ns: u64,
}

/// Options of a rig.
#[derive(Clone, Copy, Debug)]
pub struct RigOptions {
    /// Makes every fault, every QPN, everything that is random.
    pub seed: u64,
    /// How nodes are attached.
    pub port: PortOptions,
    /// Time that a turn of an engine takes, in nanoseconds; at least 1.
    pub turn_cost_ns: u64,
    /// What hosts take for the rest.
    pub host: HostModel,
    /// What keeps engines from looking for frames.
    pub rest: Rest,
    /// Queue pairs of an engine at most.
    pub max_qps: u32,
    /// Memory regions of an engine at most; the rig has one more for each that it makes.
    pub max_mrs: usize,
    /// Largest window of a queue pair, in packets.
    pub window_max: u16,
    /// Streams of an engine that can be in Recovery at once.
    pub recovery_contexts: u32,
    /// Queue pairs beyond which an engine treats them as many.
    pub crowd: u32,
    /// Who runs the slow path.
    pub slow_path: SlowPathDriver,
    /// Floors of the timers.
    pub rto: RtoConfig,
    /// How the queue pairs of an engine share its turns.
    pub scheduler: SchedulerConfig,
    /// What operations cost of the caps of tenants.
    pub costs: CostTable,
    /// When the engines acknowledge.
    pub acks: AckTiming,
    /// When the engines mark what they receive, as they fall behind.
    pub host_marks_ns: u32,
    /// Rates of hosts that do not keep up, if they may have one.
    pub host_rates: Option<HostRateConfig>,
    /// Which send requests of each engine are sampled for where their time goes.
    pub latency: Option<LatencyConfig>,
    /// Addresses are fd00::1 and on instead of 10.0.0.1 and on.
    pub ipv6: bool,
    /// VLAN tag of all frames.
    pub vlan: Option<u16>,
}

impl Default for RigOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            port: PortOptions::default(),
            turn_cost_ns: 200,
            host: HostModel::default(),
            rest: Rest::Never,
            max_qps: 64,
            max_mrs: 1024,
            window_max: 512,
            recovery_contexts: 64,
            crowd: EngineConfig::default().crowd,
            slow_path: SlowPathDriver::Stepped,
            rto: RtoConfig::SIMULATION,
            scheduler: SchedulerConfig::default(),
            costs: CostTable::default(),
            acks: AckTiming::default(),
            host_marks_ns: 0,
            host_rates: None,
            latency: None,
            ipv6: false,
            vlan: None,
        }
    }
}

impl RigOptions {
    /// The defaults, with a seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }
}

/// Options of a queue pair; both ends of a connection take the same unless they are made one by
/// one.
#[derive(Clone, Copy, Debug)]
pub struct QpOptions {
    /// Its service. Of UD the Q_Key is 0, and a connected peer means nothing.
    pub qp_type: QpType,
    /// Path MTU.
    pub pmtu: Pmtu,
    /// Window in packets.
    pub window: u16,
    /// The first PSN that it sends.
    pub sq_psn: u32,
    /// How losses are recovered.
    pub recovery: RecoveryPolicy,
    /// What WRITEs promise about their order in memory.
    pub write_order: WriteOrder,
    /// Congestion control.
    pub congestion: CongestionAlgorithm,
    /// Its parameters.
    pub congestion_tuning: CongestionTuning,
    /// Weight and priority.
    pub scheduling: SchedAttributes,
    /// A try lasts 4.096 us x 2^timeout; 0: no failure detector.
    pub timeout: u8,
    /// Tries without any sign of life.
    pub retry_cnt: u8,
    /// RNR waits; 7: for ever.
    pub rnr_retry: u8,
    /// Code of the delay that its RNR NAKs ask for; 1 is 10 us.
    pub min_rnr_timer: u8,
    /// Milliseconds without a sign of life after which it asks for one; 0: never.
    pub keepalive_ms: u32,
    /// READs and atomics that it may have outstanding.
    pub max_rd_atomic: u8,
    /// READs and atomics of the peer's that it takes at once.
    pub max_dest_rd_atomic: u8,
    /// What the peer may do.
    pub access: Access,
    /// Partition key.
    pub pkey: u16,
    /// Sizes of its queues.
    pub caps: QueueCaps,
    /// Entries of each of its completion queues.
    pub cq_entries: u32,
    /// The shared receive queue that it takes receives from, if it has none of its own.
    pub srq: Option<Srq>,
    /// Its protection domain, if not that of the node.
    pub pd: Option<ProtectionDomainId>,
    /// Ask the network for the peer's Ethernet address instead of knowing it.
    pub resolve: bool,
    /// The dialect.
    pub wire_mode: WireMode,
}

impl Default for QpOptions {
    fn default() -> Self {
        Self {
            qp_type: QpType::Rc,
            pmtu: Pmtu::B1024,
            window: 128,
            sq_psn: 0x00_1000,
            recovery: RecoveryPolicy::SelectiveRepeat,
            write_order: WriteOrder::empty(),
            congestion: CongestionAlgorithm::Fixed,
            congestion_tuning: CongestionTuning::default(),
            scheduling: SchedAttributes::default(),
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            min_rnr_timer: 1,
            keepalive_ms: 0,
            max_rd_atomic: 8,
            max_dest_rd_atomic: 8,
            access: REMOTE_EVERYTHING,
            pkey: 0xFFFF,
            caps: QueueCaps {
                max_send_wr: 256,
                max_recv_wr: 256,
                max_send_sge: 8,
                max_recv_sge: 8,
                max_inline: 200,
            },
            cq_entries: 1024,
            srq: None,
            pd: None,
            resolve: false,
            wire_mode: WireMode::Srnic,
        }
    }
}
