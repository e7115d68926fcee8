//! The rig: engines on a network, the objects that tests work with, and the virtual time that
//! drives both.
//!
//! The time jumps to the next event: a frame that moves, or an engine that has something to do. A
//! turn takes `turn_cost_ns`, so that turns are ordered and an engine is not infinitely fast.

mod connect;
mod memory;
mod options;
mod run;
mod shared;
mod slow_path;
mod timed;
mod work;

pub use memory::{Region, Span, pattern};
pub use options::{HostModel, QpOptions, RigOptions, SlowPathDriver};
pub use run::Stuck;
pub use shared::Srq;
pub use work::Work;

use crate::network::{LinkId, Network, NodeId};
use crate::port::SimPort;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use datapath::counters::Counters;
use datapath::engine::{AsyncEvent, Engine, EngineConfig, QpConfig, QpHandles};
use datapath::latency::Probe;
use datapath::memory::{Backing, ProtectionDomainId};
use datapath::qp::state::QpState;
use datapath::queue::{Completion, CompletionQueue, SharedRecvQueue};
use datapath::time::Time;
use slow_path::LateWorker;
use std::sync::Arc;
use timed::Timed;

/// A queue pair of a rig.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Qp {
    index: usize,
    node: NodeId,
}

impl Qp {
    /// The node that it belongs to.
    #[must_use]
    pub const fn node(self) -> NodeId {
        self.node
    }

    /// Its number among all queue pairs of the rig, from 0 on.
    #[must_use]
    pub const fn index(self) -> usize {
        self.index
    }
}

/// An engine and what belongs to it.
struct Node {
    engine: Timed,
    /// Takes the times of posts and polls, if operations are sampled.
    probe: Option<Arc<Probe>>,
    /// Its slow path, if the rig runs it.
    slow_path: Option<LateWorker>,
    ip: IpAddr,
    host: HostModel,
    /// The protection domain of everything that does not ask for another.
    pd: ProtectionDomainId,
    /// Where tests look at memory from outside: no queue pair is in it.
    inspect: ProtectionDomainId,
    next_iova: u64,
    /// Its last turn ends here.
    busy_until: Time,
    busy_ns: u64,
    /// Its engine has had a turn since something else took the time of its host.
    has_turned: bool,
    /// Frozen nodes take no turns.
    frozen: bool,
    /// It was frozen since its last turn, and has not looked for frames meanwhile.
    was_frozen: bool,
    events: Vec<AsyncEvent>,
}

struct Endpoint {
    id: Qp,
    handles: QpHandles,
    /// Numbers of its completion queues.
    cqs: [u32; 2],
    options: QpOptions,
    send_cq: CompletionQueue,
    recv_cq: CompletionQueue,
    sends: Vec<Completion>,
    recvs: Vec<Completion>,
    peer: Option<Qp>,
    next_wr_id: u64,
}

/// A registered region and its guards.
struct Registered {
    node: NodeId,
    /// The whole allocation, guards included, under the node's inspection domain.
    inspect_key: u32,
    inspect_iova: u64,
    len: usize,
    _backing: Arc<dyn Backing>,
}

/// Engines on a network, in virtual time.
pub struct Rig {
    /// The network, to configure links and look at counters.
    pub net: Network,
    options: RigOptions,
    now: Time,
    nodes: Vec<Node>,
    endpoints: Vec<Endpoint>,
    regions: Vec<Registered>,
    srqs: Vec<SharedRecvQueue>,
    auto_poll: bool,
    turns: u64,
}

impl Rig {
    /// A rig without nodes.
    #[must_use]
    pub fn new(options: RigOptions) -> Self {
        Self {
            net: Network::new(options.seed),
            options,
            now: Time::ZERO,
            nodes: Vec::new(),
            endpoints: Vec::new(),
            regions: Vec::new(),
            srqs: Vec::new(),
            auto_poll: true,
            turns: 0,
        }
    }

    /// Two nodes and one connected queue pair between them.
    ///
    /// # Panics
    /// If the options are not valid for an engine.
    #[must_use]
    pub fn pair(options: RigOptions, qp: QpOptions) -> (Self, Qp, Qp) {
        let mut rig = Self::new(options);
        let (left, right) = (rig.add_node(), rig.add_node());
        let (a, b) = rig.connected(left, right, qp);
        (rig, a, b)
    }

    /// Adds a node with an engine. Its address is 10.0.0.0 (or fd00::) plus its number from 1 on.
    ///
    /// # Panics
    /// If the options are not valid for an engine.
    pub fn add_node(&mut self) -> NodeId {
        let (id, port) = self.net.add_port(&self.options.port);
        let ip = ip_of(id, self.options.ipv6);
        let config = EngineConfig {
            ip,
            max_qps: self.options.max_qps,
            max_cqs: 2 * self.options.max_qps as usize,
            max_mrs: self.options.max_mrs,
            window_max: self.options.window_max,
            recovery_contexts: self.options.recovery_contexts,
            crowd: self.options.crowd,
            rto: self.options.rto,
            vlan: self.options.vlan,
            scheduler: self.options.scheduler,
            costs: self.options.costs,
            acks: self.options.acks,
            host_marks_ns: self.options.host_marks_ns,
            host_rates: self.options.host_rates,
            latency: self.options.latency,
            seed: crate::rng::splitmix64(self.options.seed ^ id.0 as u64).into(),
            key_seed: crate::rng::splitmix64(!self.options.seed ^ id.0 as u64).into(),
            ..EngineConfig::default()
        };
        let (mut engine, slow_path) = slow_path::engine_with(self.options.slow_path, port, config)
            .expect("the rig's options make a valid engine");
        let (pd, inspect) = (engine.core_mut().allocate_pd(), engine.core_mut().allocate_pd());
        let probe = engine.core().probe();
        self.nodes.push(Node {
            engine: Timed::new(engine),
            probe,
            slow_path,
            ip,
            host: self.options.host,
            pd,
            inspect,
            next_iova: 0x10_0000 * (id.0 as u64 + 1),
            busy_until: self.now,
            busy_ns: 0,
            has_turned: true,
            frozen: false,
            was_frozen: false,
            events: Vec::new(),
        });
        id
    }

    /// Creates a queue pair in RESET, with completion queues of its own.
    ///
    /// # Panics
    /// If the engine has no room for it.
    pub fn create_qp(&mut self, node: NodeId, options: QpOptions) -> Qp {
        let pd = options.pd.unwrap_or(self.nodes[node.0].pd);
        let engine = &mut self.nodes[node.0].engine;
        let (send_number, send_cq) =
            engine.core_mut().create_cq(options.cq_entries).expect("a completion queue is free");
        let (recv_number, recv_cq) =
            engine.core_mut().create_cq(options.cq_entries).expect("a completion queue is free");
        let config = QpConfig {
            qp_type: options.qp_type,
            gsi: false,
            pd,
            send_cq: send_number,
            recv_cq: recv_number,
            srq: options.srq.map(Srq::number),
            caps: options.caps,
            window: options.window,
        };
        let handles = engine.core_mut().create_qp(&config).expect("a queue pair is free");
        let qp = Qp { index: self.endpoints.len(), node };
        self.endpoints.push(Endpoint {
            id: qp,
            handles,
            cqs: [send_number, recv_number],
            options,
            send_cq,
            recv_cq,
            sends: Vec::new(),
            recvs: Vec::new(),
            peer: None,
            next_wr_id: 1,
        });
        qp
    }

    /// The present.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Turns that all engines took.
    #[must_use]
    pub const fn turns(&self) -> u64 {
        self.turns
    }

    /// Number of nodes with an engine.
    #[must_use]
    pub const fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The engine of a node.
    #[must_use]
    pub fn engine(&self, node: NodeId) -> &Engine<SimPort> {
        &self.nodes[node.0].engine
    }

    /// The engine of a node, to change it.
    pub fn engine_mut(&mut self, node: NodeId) -> &mut Engine<SimPort> {
        &mut self.nodes[node.0].engine
    }

    /// What the engine of a queue pair's node counted.
    #[must_use]
    pub fn counters(&self, qp: Qp) -> &Counters {
        self.engine(qp.node).core().counters()
    }

    /// The protection domain of a node's regions and queue pairs that ask for no other.
    #[must_use]
    pub fn pd(&self, node: NodeId) -> ProtectionDomainId {
        self.nodes[node.0].pd
    }

    /// Address of a node.
    #[must_use]
    pub fn ip(&self, node: NodeId) -> IpAddr {
        self.nodes[node.0].ip
    }

    /// The link from a queue pair's node to the switch: data of its requester go out here, and ACKs
    /// of its responder.
    #[must_use]
    pub const fn up(&self, qp: Qp) -> LinkId {
        LinkId::Up(qp.node)
    }

    /// QPN of a queue pair.
    #[must_use]
    pub fn qpn(&self, qp: Qp) -> u32 {
        self.endpoints[qp.index].handles.qpn
    }

    /// The options that a queue pair was made with.
    #[must_use]
    pub fn qp_options(&self, qp: Qp) -> &QpOptions {
        &self.endpoints[qp.index].options
    }

    /// State of a queue pair, as its application sees it.
    #[must_use]
    pub fn state(&self, qp: Qp) -> QpState {
        self.endpoints[qp.index].handles.shared.state()
    }

    /// The queue pair that it is connected to.
    #[must_use]
    pub fn peer(&self, qp: Qp) -> Option<Qp> {
        self.endpoints[qp.index].peer
    }

    /// All queue pairs.
    pub fn qps(&self) -> impl Iterator<Item = Qp> + '_ {
        self.endpoints.iter().map(|endpoint| endpoint.id)
    }

    /// A node that takes no turns any more, as a process that was stopped; or goes on.
    pub fn freeze(&mut self, node: NodeId, frozen: bool) {
        let node = &mut self.nodes[node.0];
        if frozen && !node.frozen {
            node.engine.note_drained(self.now.max(node.busy_until));
            node.was_frozen = true;
        }
        node.frozen = frozen;
    }

    /// Asynchronous events of a node so far.
    #[must_use]
    pub fn events(&self, node: NodeId) -> &[AsyncEvent] {
        &self.nodes[node.0].events
    }
}

/// Address of a node.
fn ip_of(node: NodeId, ipv6: bool) -> IpAddr {
    let number = u32::try_from(node.0 + 1).expect("fewer than 2^32 nodes");
    if ipv6 {
        IpAddr::V6(Ipv6Addr::from((0xFD00 << 112) | u128::from(number)))
    } else {
        IpAddr::V4(Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 0)) + number))
    }
}
