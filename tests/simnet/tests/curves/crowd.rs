//! Flows from many hosts to one, over a link whose queue drops what it has no room for.

use crate::path::{Control, sender};
use datapath::qp::attr::RecoveryPolicy;
use datapath::stream::RtoConfig;
use simnet::{
    Faults, LinkConfig, LinkId, NodeId, PortOptions, Qp, QpOptions, Region, Rest, Rig, RigOptions, Work,
};
use wire::WireMode;

/// Bytes of each WRITE.
const MESSAGE: usize = 4 << 10;
/// What a packet of 1,024 bytes takes of the link, with all headers and the gap.
const PACKET_ON_WIRE: f64 = 1_024.0 + 58.0 + 16.0 + 24.0;

/// The bottleneck, and who shares it.
#[derive(Clone, Debug)]
pub struct Crowd {
    /// Rate of the bottleneck, in gigabits a second; the links of the senders have it as well.
    pub gbps: u64,
    /// Frames that its queue holds.
    pub queue_frames: usize,
    /// Frames from which on it marks, if it does.
    pub mark_frames: Option<usize>,
    /// Round trip of each flow, in nanoseconds, without queues and turns.
    pub rtts_ns: Vec<u64>,
    /// Largest window of each, in packets.
    pub window: u16,
    /// Longest delay that each packet gets at random at its sender, in nanoseconds.
    pub jitter_ns: u64,
    /// Packets lost at random each way, in parts per million.
    pub loss_ppm: u32,
    /// The dialect.
    pub wire_mode: WireMode,
    /// What keeps the hosts from looking at their ports.
    pub rest: Rest,
}

/// What the flows got once they have settled.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// Part of what the link can carry that was goodput.
    pub goodput: f64,
    /// Part of the packets sent that were sent again.
    pub resent: f64,
    /// Jain's index of the goodputs.
    pub jain: f64,
    /// Part of the link that the last flow got.
    pub last: f64,
}

impl Crowd {
    /// `flows` flows of 10 us on 10 Gb/s, with a jitter of 1 us: without any, drop-tail queues lock
    /// flows in phase.
    pub fn new(flows: usize, queue_frames: usize) -> Self {
        let rtts_ns = vec![10_000; flows];
        Self {
            gbps: 10,
            queue_frames,
            mark_frames: None,
            rtts_ns,
            window: 128,
            jitter_ns: 1_000,
            loss_ppm: 0,
            wire_mode: WireMode::Srnic,
            rest: Rest::Never,
        }
    }

    /// Runs until the flows have settled, then for `ns` nanoseconds.
    pub fn shares(&self, control: Control, seed: u64, ns: u64) -> Shares {
        let (mut rig, flows) = self.connect(control, seed);
        run(&mut rig, &flows, ns);
        let before: Vec<_> = flows.iter().map(|flow| count(&rig, flow)).collect();
        run(&mut rig, &flows, ns);
        let (mut done, mut sent, mut resent) = (Vec::new(), 0, 0);
        for (flow, before) in flows.iter().zip(before) {
            let now = count(&rig, flow);
            done.push((now.0 - before.0) as f64);
            sent += now.1 - before.1;
            resent += now.2 - before.2;
        }
        let (sum, squares) = (done.iter().sum::<f64>(), done.iter().map(|d| d * d).sum::<f64>());
        let whole = (ns * self.gbps / 8) as f64 / (PACKET_ON_WIRE * (MESSAGE / 1_024) as f64);
        Shares {
            goodput: sum / whole,
            resent: resent as f64 / (sent + resent).max(1) as f64,
            jain: sum * sum / (done.len() as f64 * squares),
            last: done.last().unwrap_or(&0.0) / whole,
        }
    }

    fn connect(&self, control: Control, seed: u64) -> (Rig, Vec<Flow>) {
        let link = LinkConfig { propagation_ns: 10, ps_per_byte: 8_000 / self.gbps, ..LinkConfig::default() };
        let port = PortOptions { up: link, down: link, ..PortOptions::default() };
        let rto = RtoConfig::default();
        let options = RigOptions {
            port,
            rto,
            rest: self.rest,
            window_max: self.window,
            max_qps: 128,
            recovery_contexts: 64,
            ..RigOptions::seeded(seed)
        };
        let mut rig = Rig::new(options);
        let receiver = rig.add_node();
        let recovery = match self.wire_mode {
            WireMode::Srnic => RecoveryPolicy::SelectiveRepeat,
            WireMode::Plain => RecoveryPolicy::GoBackN,
        };
        let qp = QpOptions { wire_mode: self.wire_mode, recovery, ..sender(control, self.window, 512) };
        let mut flows = Vec::new();
        for rtt_ns in &self.rtts_ns {
            let sender = rig.add_node();
            let up = rig.net.link_mut(LinkId::Up(sender));
            up.propagation_ns = rtt_ns / 2;
            up.queue_frames_max = 1 << 16;
            rig.net.link_mut(LinkId::Down(sender)).propagation_ns = rtt_ns / 2;
            let faults = Faults { jitter_ns_max: self.jitter_ns, ..Faults::loss(self.loss_ppm) };
            rig.net.set_faults(LinkId::Up(sender), faults);
            let (qp, _) = rig.connected(sender, receiver, qp);
            let (source, target) = (rig.region(sender, MESSAGE), rig.region(receiver, MESSAGE));
            flows.push(Flow { qp, node: sender, source, target });
        }
        let bottleneck = rig.net.link_mut(LinkId::Down(receiver));
        bottleneck.queue_frames_max = self.queue_frames;
        bottleneck.mark_frames = self.mark_frames;
        rig.net.set_faults(LinkId::Up(receiver), Faults::loss(self.loss_ppm));
        rig.net.keep_recent(0);
        (rig, flows)
    }
}

struct Flow {
    qp: Qp,
    node: NodeId,
    source: Region,
    target: Region,
}

/// Messages done, packets sent for the first time, packets sent again.
fn count(rig: &Rig, flow: &Flow) -> (usize, u64, u64) {
    let counters = rig.engine(flow.node).core().counters();
    (rig.sends(flow.qp).len(), counters.tx_requests, counters.tx_retransmits)
}

fn run(rig: &mut Rig, flows: &[Flow], ns: u64) {
    let steps = ns.div_ceil(100_000);
    for _ in 0..steps {
        for flow in flows {
            let work = Work::write(flow.source.all(), flow.target.all());
            while rig.try_post(flow.qp, &work).is_ok() {}
        }
        rig.run_for(ns / steps);
    }
}
