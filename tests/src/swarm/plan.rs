//! Everything that a seed decides.

use super::message::{Kind, Limits, Script};
use super::reads;
use super::shared_receives::SharedReceivesPlan;
use super::shares;
use super::slow_hosts;
use super::variety;
use super::weather::{self, Change};
use datapath::memory::WindowType;
use datapath::qp::attr::{CongestionAlgorithm, RecoveryPolicy};
use datapath::queue::QueueCaps;
use datapath::stream::RtoConfig;
use simnet::{LinkConfig, PortOptions, QpOptions, RigOptions, Rng};
use wire::Pmtu;

/// A 24-bit PSN's mask.
const PSN_MASK: u32 = 0xFF_FFFF;
/// What is drawn beside the history itself has a generator of its own, so that it changes no older
/// history.
const EXTRAS: u64 = 10;
/// One seed in four has 1,408 bytes in place of the path MTU of 1,024. The number is chosen so that
/// no seed of `seeds.txt` draws 1,408.
const PATH_MTUS: u64 = 41;

/// A history, before it is played.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What it was drawn from.
    pub seed: u64,
    /// Engines and network.
    pub rig: RigOptions,
    /// Nodes.
    pub nodes: usize,
    /// Shared receive queues, one a node at most.
    pub shared_receives: Vec<Option<SharedReceivesPlan>>,
    /// Pairs of queue pairs.
    pub connections: Vec<ConnectionPlan>,
    /// What goes wrong, and when.
    pub weather: Vec<(u64, Change)>,
    /// When all faults stop, in nanoseconds.
    pub storm_ns: u64,
    /// Nothing but frames lost goes wrong in it: nobody may do anything twice without a reason.
    pub tidy: bool,
}

/// Two queue pairs and what they do.
#[derive(Clone, Debug)]
pub struct ConnectionPlan {
    /// The nodes, which may be one.
    pub nodes: [usize; 2],
    /// What each end is made with.
    pub options: [QpOptions; 2],
    /// Retries are so few that a storm may exhaust them.
    pub lethal: bool,
    /// Ends that take receives from the shared queue of their node.
    pub shared: [bool; 2],
    /// Completion queues so short that they may overflow.
    pub cramped: bool,
    /// Lives, one after the other, with a RESET between.
    pub lives: Vec<LifePlan>,
}

/// What a pair does between two RESETs.
#[derive(Clone, Debug)]
pub struct LifePlan {
    /// From the left to the right, and back.
    pub flows: [FlowPlan; 2],
    /// What ends it.
    pub end: End,
    /// When an end rests in SQD.
    pub pause: Option<Pause>,
    /// Memory that is deregistered under the packets.
    pub withdrawal: Option<Withdrawal>,
    /// The queue pairs are not reset at its end, but destroyed, and others take their place.
    pub replaced: bool,
}

/// A region that is deregistered while work on it is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Withdrawal {
    /// The flow that uses it.
    pub flow: usize,
    /// Where the data come from; else where they go.
    pub source: bool,
    /// When, in nanoseconds since the life began.
    pub after_ns: u64,
}

/// A time in SQD, in nanoseconds since the life began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pause {
    /// Which end.
    pub end: usize,
    /// RTS to SQD.
    pub from_ns: u64,
    /// SQD to RTS.
    pub to_ns: u64,
}

/// How a life ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// When all is done.
    Done,
    /// One end resets after so many nanoseconds, the other so much later.
    Reset {
        /// When the first end resets.
        after_ns: u64,
        /// Which end is the first.
        first: usize,
        /// How much later the other one resets, and both connect again.
        gap_ns: u64,
    },
    /// One end is told to go to ERR.
    Err {
        /// When.
        after_ns: u64,
        /// Which end.
        end: usize,
    },
}

/// One direction of a life.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// The messages.
    pub script: Script,
    /// When how many of them are posted: nanoseconds since the life began, and the count.
    pub posts: Vec<(u64, usize)>,
    /// When how many receives are posted: nanoseconds since the life began, and the count.
    pub receives: Vec<(u64, usize)>,
    /// WRITEs, READs and atomics go through a window of this type, which the first message of the
    /// other direction binds.
    pub window: Option<WindowType>,
}

impl Plan {
    /// Draws the history of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let rng = &mut Rng::new(seed);
        let extras = &mut Rng::new(seed ^ EXTRAS);
        let tidy = extras.below(4) == 0;
        let nodes = 2 + rng.index(3);
        let storm_ns = 50_000 << rng.below(7);
        let mut rig = draw_rig(rng, seed);
        let pairs = 1 + rng.index(nodes + 1);
        let mut weather = match rng.below(10) {
            0 => Vec::new(),
            _ if tidy => weather::draw_losses(rng, nodes),
            _ => weather::draw(rng, nodes, storm_ns),
        };
        let pmtus = match Rng::new(seed ^ PATH_MTUS << 32).below(4) {
            0 => Pmtu::PLAIN.map(|pmtu| if pmtu == Pmtu::B1024 { Pmtu::B1408 } else { pmtu }),
            _ => Pmtu::PLAIN,
        };
        let scene = Scene { nodes, storm_ns, tidy, pmtus };
        let mut connections: Vec<_> = (0..pairs).map(|_| draw_connection(rng, &rig, scene)).collect();
        if !tidy && extras.below(2) == 0 {
            let lives = connections.iter_mut().flat_map(|connection| &mut connection.lives);
            lives.for_each(|life| draw_upheaval(extras, life, storm_ns));
        }
        for ConnectionPlan { nodes, lives, .. } in &connections {
            if let End::Reset { after_ns, gap_ns, .. } = lives[0].end {
                weather.extend(weather::late_frames(rng, *nodes, after_ns, gap_ns));
            }
        }
        weather.sort_by_key(|(at, _)| *at);
        shares::draw(extras, &mut rig, &mut connections);
        reads::draw(extras, &mut connections, tidy);
        let mut plan = Self {
            seed,
            rig,
            nodes,
            shared_receives: vec![None; nodes],
            connections,
            weather,
            storm_ns,
            tidy,
        };
        variety::draw(&mut plan);
        slow_hosts::draw(&mut plan);
        plan
    }

    /// True if nothing at all goes wrong in it.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        self.weather.is_empty() && self.connections.iter().all(ConnectionPlan::is_clean)
    }
}

impl ConnectionPlan {
    /// True if READs or atomics are among its messages.
    pub fn has_responses(&self) -> bool {
        let flows = self.lives.iter().flat_map(|life| &life.flows);
        flows.flat_map(|flow| &flow.script.messages).any(|message| message.kind.has_response())
    }

    /// Streams of responses that the node may keep back at the end, unacknowledged: their memory is
    /// gone (docs/adr/0014).
    pub fn kept_back(&self, node: usize) -> usize {
        let may_be = |life: &LifePlan| {
            let sides = (0..2).filter(|&side| self.nodes[1 - side] == node);
            sides.filter(|&side| life.flows[side].script.answered() > 0 && life.ends_target(side)).count()
        };
        self.lives.last().map_or(0, may_be)
    }

    /// True if neither an error nor a RESET belongs to its lives.
    pub fn is_clean(&self) -> bool {
        !self.lethal && !self.cramped && self.lives.len() == 1 && !self.lives[0].may_fail(self)
    }
}

impl LifePlan {
    /// True if some work request of it may end with an error.
    pub fn may_fail(&self, connection: &ConnectionPlan) -> bool {
        let broken = self.defects() > 0 || self.withdrawal.is_some() || self.unbinds();
        connection.lethal || connection.cramped || matches!(self.end, End::Err { .. }) || broken
    }

    /// True if a window is taken away while it is in use.
    pub fn unbinds(&self) -> bool {
        let mut messages = self.flows.iter().flat_map(|flow| &flow.script.messages);
        messages.any(|message| message.kind == Kind::Unbind)
    }

    /// True if what a flow's READs read ends while the queue pairs live.
    fn ends_target(&self, flow: usize) -> bool {
        let ends = |withdrawal: Withdrawal| withdrawal.flow == flow && !withdrawal.source;
        let mut messages = self.flows[flow].script.messages.iter();
        self.withdrawal.is_some_and(ends) || self.unbinds() || messages.any(|message| message.invalidates)
    }

    /// Messages that something is wrong with.
    pub fn defects(&self) -> usize {
        let messages = self.flows.iter().flat_map(|flow| &flow.script.messages);
        messages.filter(|message| message.defect.is_some()).count()
    }
}

fn draw_rig(rng: &mut Rng, seed: u64) -> RigOptions {
    let link = |rng: &mut Rng| LinkConfig {
        ps_per_byte: [0, 80, 80, 320, 800][rng.index(5)],
        propagation_ns: [100, 500, 2_000, 10_000][rng.index(4)],
        ..LinkConfig::default()
    };
    let rto = if rng.below(6) == 0 {
        RtoConfig { low_floor_ns: 30_000, high_floor_ns: 60_000, tail_floor_ns: 10_000 }
    } else {
        RtoConfig::SIMULATION
    };
    RigOptions {
        seed,
        port: PortOptions {
            up: link(rng),
            down: link(rng),
            tx_ring: [2, 8, 32, 256, 256, 256][rng.index(6)],
            max_frame: if rng.below(4) == 0 { 1600 } else { 4608 },
            ..PortOptions::default()
        },
        turn_cost_ns: [50, 200, 1_000, 5_000][rng.index(4)],
        max_qps: 16,
        window_max: [4, 16, 64, 200, 256, 512][rng.index(6)],
        recovery_contexts: [1, 2, 16, 16][rng.index(4)],
        // Not drawn, so that seeds keep their meaning: with even ones every engine has many queue
        // pairs, or comes to.
        crowd: u32::try_from(seed % 2 * 256 + seed / 2 % 2).unwrap_or(0),
        rto,
        ipv6: rng.below(4) == 0,
        vlan: (rng.below(4) == 0).then(|| 1 + u16::from(small(rng, 100))),
        ..RigOptions::default()
    }
}

/// What all connections of a history share.
#[derive(Clone, Copy)]
struct Scene {
    nodes: usize,
    storm_ns: u64,
    tidy: bool,
    /// Path MTUs to draw from, in ascending order.
    pmtus: [Pmtu; 5],
}

fn draw_connection(rng: &mut Rng, rig: &RigOptions, scene: Scene) -> ConnectionPlan {
    let Scene { nodes, storm_ns, tidy, .. } = scene;
    let left = rng.index(nodes);
    let right = if rng.below(12) == 0 { left } else { (left + 1 + rng.index(nodes - 1)) % nodes };
    let lethal = rng.below(16) == 0 && !tidy;
    let lives = 1 + if rng.below(3) == 0 && !tidy { 1 + rng.index(3) } else { 0 };
    let common = draw_common(rng, rig, &scene, lethal, lives);
    let options = [draw_end(rng, rig, common), draw_end(rng, rig, common)];
    let nodes = [left, right];
    let mut plan =
        ConnectionPlan { nodes, options, lethal, shared: [false; 2], cramped: false, lives: Vec::new() };
    for life in 1..=lives {
        let life = if tidy {
            draw_tidy_life(rng, &plan.options, storm_ns)
        } else {
            draw_life(rng, &plan.options, storm_ns, life < lives)
        };
        plan.lives.push(life);
    }
    plan
}

/// First PSNs are often near the wrap.
fn draw_psn(rng: &mut Rng) -> u32 {
    let random = u32::try_from(rng.below(1 << 24)).unwrap_or(0);
    if rng.below(2) == 0 { PSN_MASK - random % 64 } else { random }
}

/// What both ends agree on.
fn draw_common(rng: &mut Rng, rig: &RigOptions, scene: &Scene, lethal: bool, lives: usize) -> QpOptions {
    let sizes = if rig.port.max_frame < 4608 { 3 } else { 5 };
    let recovery = if rng.below(6) == 0 { RecoveryPolicy::GoBackN } else { RecoveryPolicy::SelectiveRepeat };
    let congestion = match rng.below(8) {
        0 | 2 | 4 => CongestionAlgorithm::Dctcp,
        1 | 3 | 5 => CongestionAlgorithm::Fixed,
        6 => CongestionAlgorithm::Swift,
        _ => CongestionAlgorithm::Dcqcn,
    };
    let (timeout, retry_cnt) =
        if lethal { (4 + small(rng, 4), small(rng, 3)) } else { ([0, 13, 14, 14][rng.index(4)], 7) };
    QpOptions {
        pmtu: scene.pmtus[rng.index(sizes)],
        recovery,
        congestion,
        timeout,
        retry_cnt,
        rnr_retry: if lethal { small(rng, 8) } else { 7 },
        min_rnr_timer: 1 + small(rng, 8),
        // ARP has no checksum: only a network without faults may answer.
        resolve: lives == 1 && !rig.ipv6 && rng.below(4) == 0,
        ..QpOptions::default()
    }
}

/// What each end has for itself.
fn draw_end(rng: &mut Rng, rig: &RigOptions, common: QpOptions) -> QpOptions {
    let entries = |rng: &mut Rng| [1, 4, 16, 64, 256][rng.index(5)];
    let caps = QueueCaps {
        max_send_wr: entries(rng),
        max_recv_wr: entries(rng),
        max_send_sge: 1 + u32::from(small(rng, 8)),
        max_recv_sge: 1 + u32::from(small(rng, 8)),
        max_inline: [0, 32, 200][rng.index(3)],
    };
    let window_max = u64::from(rig.window_max);
    let window = if rng.below(3) == 0 { window_max } else { 1 + rng.below(window_max) };
    let window = u16::try_from(window).unwrap_or(1);
    QpOptions { caps, window, cq_entries: 1024, sq_psn: draw_psn(rng), ..common }
}

fn draw_life(rng: &mut Rng, options: &[QpOptions; 2], storm_ns: u64, another: bool) -> LifePlan {
    let mut flows = [
        draw_flow(rng, &options[0], &options[1], storm_ns),
        draw_flow(rng, &options[1], &options[0], storm_ns),
    ];
    let after_ns = rng.below(storm_ns);
    let end = match rng.below(16) {
        0..=7 if another => End::Reset {
            after_ns,
            first: rng.index(2),
            gap_ns: if rng.below(2) == 0 { 0 } else { rng.below(20_000) },
        },
        8 => End::Err { after_ns, end: rng.index(2) },
        _ => End::Done,
    };
    if rng.below(12) == 0 {
        flows[rng.index(2)].script.spoil(rng);
    }
    let pause = (rng.below(8) == 0).then(|| {
        let from_ns = rng.below(storm_ns);
        Pause { end: rng.index(2), from_ns, to_ns: from_ns + rng.below(storm_ns) }
    });
    LifePlan { flows, end, pause, withdrawal: None, replaced: false }
}

/// Work, and nothing else.
fn draw_tidy_life(rng: &mut Rng, options: &[QpOptions; 2], storm_ns: u64) -> LifePlan {
    let flows = [
        draw_flow(rng, &options[0], &options[1], storm_ns),
        draw_flow(rng, &options[1], &options[0], storm_ns),
    ];
    LifePlan { flows, end: End::Done, pause: None, withdrawal: None, replaced: false }
}

/// Memory that goes away, and queue pairs that do.
fn draw_upheaval(rng: &mut Rng, life: &mut LifePlan, storm_ns: u64) {
    if rng.below(12) == 0 && life.defects() == 0 {
        let withdrawal =
            Withdrawal { flow: rng.index(2), source: rng.below(2) == 0, after_ns: rng.below(storm_ns) };
        life.withdrawal = Some(withdrawal);
    }
    life.replaced = rng.below(3) == 0;
}

fn draw_flow(rng: &mut Rng, from: &QpOptions, to: &QpOptions, storm_ns: u64) -> FlowPlan {
    let count = match rng.below(8) {
        0 => 0,
        1..=5 => 1 + rng.index(24),
        _ => rng.index(120),
    };
    let bytes = if rng.below(8) == 0 { 300_000 } else { 60_000 };
    let limits = Limits { count, bytes, ..limits_of(from, to) };
    let script = Script::draw(rng, &limits);
    let receives = script.messages.iter().filter(|message| message.consumes_receive()).count();
    let posts = draw_lumps(rng, script.messages.len(), storm_ns, 3);
    let receives = draw_lumps(rng, receives, storm_ns, 2);
    FlowPlan { script, posts, receives, window: None }
}

/// What two ends set to the messages from one to the other.
pub(super) fn limits_of(from: &QpOptions, to: &QpOptions) -> Limits {
    Limits {
        pmtu: from.pmtu.bytes() as usize,
        inline_max: from.caps.max_inline as usize,
        send_sges: from.caps.max_send_sge as usize,
        recv_sges: to.caps.max_recv_sge as usize,
        count: 0,
        bytes: 60_000,
    }
}

/// Splits `total` over points of time; often all at once.
fn draw_lumps(rng: &mut Rng, total: usize, storm_ns: u64, one_in: u64) -> Vec<(u64, usize)> {
    if rng.below(one_in) > 0 {
        return vec![(0, total)];
    }
    let mut lumps = Vec::new();
    let (mut at, mut rest) = (0, total);
    while rest > 0 {
        let count = 1 + rng.index(rest);
        lumps.push((at, count));
        rest -= count;
        at += rng.below(storm_ns / 4);
    }
    lumps
}

fn small(rng: &mut Rng, bound: u64) -> u8 {
    u8::try_from(rng.below(bound)).unwrap_or(0)
}
