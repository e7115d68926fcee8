//! Flows that share one link whose queue marks.

use core::fmt;
use datapath::qp::attr::{CongestionAlgorithm, CongestionTuning};
use datapath::queue::QueueCaps;
use datapath::stream::RtoConfig;
use simnet::{LinkId, NodeId, Qp, QpOptions, Region, Rig, RigOptions, Work};
use wire::Pmtu;

/// Bytes of each WRITE.
const MESSAGE: usize = 32 << 10;

/// The link, and what runs over it.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// The link's rate in gigabits a second.
    pub gbps: u64,
    /// Frames in the queue from which on it marks.
    pub mark_frames: usize,
    /// Frames that the queue holds.
    pub queue_frames: usize,
    pub pmtu: Pmtu,
    /// Largest window, in packets.
    pub window: u16,
    pub congestion: CongestionAlgorithm,
    pub tuning: CongestionTuning,
    /// Acknowledgements lost, in parts per million.
    pub ack_loss_ppm: u32,
}

impl Default for Scene {
    /// 100 Gb/s with marks from 20 frames on, and DCTCP.
    fn default() -> Self {
        Self {
            gbps: 100,
            mark_frames: 20,
            queue_frames: 4_096,
            pmtu: Pmtu::B1024,
            window: 64,
            congestion: CongestionAlgorithm::Dctcp,
            tuning: CongestionTuning::default(),
            ack_loss_ppm: 0,
        }
    }
}

struct Flow {
    qp: Qp,
    source: Region,
    target: Region,
    starts_ns: u64,
    /// Bytes that its sender's uplink has delivered.
    seen: u64,
}

/// One interval: what each flow got, and the longest queue.
#[derive(Clone, Debug)]
pub struct Sample {
    /// End of the interval, in nanoseconds.
    pub at_ns: u64,
    /// Of each flow that has begun, in gigabits a second of frames.
    pub gbps: Vec<f64>,
    /// Longest queue, in frames.
    pub queue: usize,
    /// Frames that the queue had no room for, from the start on.
    pub overflowed: u64,
    /// The link's rate.
    pub link_gbps: f64,
}

impl Sample {
    /// Part of the link's rate that is used; frames only, without gaps.
    pub fn utilisation(&self) -> f64 {
        self.gbps.iter().sum::<f64>() / self.link_gbps
    }

    /// Jain's index: 1 if all have the same, 1/n if one has everything.
    pub fn jain(&self) -> f64 {
        let sum: f64 = self.gbps.iter().sum();
        let squares: f64 = self.gbps.iter().map(|share| share * share).sum();
        sum * sum / (self.gbps.len() as f64 * squares)
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, most) = self.gbps.iter().fold((f64::MAX, 0.0_f64), |(l, m), g| (l.min(*g), m.max(*g)));
        let (at, count, queue) = (self.at_ns / 1_000, self.gbps.len(), self.queue);
        let (jain, used) = (self.jain(), self.utilisation());
        write!(f, "{at:7} {count:5} {used:11.3} {jain:6.3} {least:8.2} {most:8.2} {queue:9}")
    }
}

/// Headings of a table of samples.
pub const HEADING: &str = "     us flows utilisation   Jain min Gb/s max Gb/s queue max";

/// The means of samples over several intervals.
pub fn mean(samples: &[Sample]) -> Sample {
    let last = samples.last().expect("there are samples");
    let count = samples.len() as f64;
    let flow = |index: usize| samples.iter().map(|sample| sample.gbps[index]).sum::<f64>() / count;
    Sample {
        gbps: (0..last.gbps.len()).map(flow).collect(),
        queue: samples.iter().map(|sample| sample.queue).max().unwrap_or(0),
        ..last.clone()
    }
}

/// A rig with one receiver and a sender for each flow.
pub struct Bottleneck {
    rig: Rig,
    flows: Vec<Flow>,
    link: LinkId,
    link_gbps: f64,
}

impl Bottleneck {
    /// `flows`: the round trip of each, in nanoseconds, without queue and turns; and when it
    /// starts.
    pub fn new(scene: &Scene, flows: &[(u64, u64)]) -> Self {
        // Floors for any round trip: those of the simulation are for racks.
        let rto = RtoConfig::default();
        let mut options = RigOptions { window_max: scene.window, rto, ..RigOptions::default() };
        for link in [&mut options.port.up, &mut options.port.down] {
            link.propagation_ns = 10;
            link.ps_per_byte = 8_000 / scene.gbps;
        }
        let mut rig = Rig::new(RigOptions { max_qps: 128, ..options });
        let receiver = rig.add_node();
        let qp = QpOptions {
            pmtu: scene.pmtu,
            window: scene.window,
            congestion: scene.congestion,
            congestion_tuning: scene.tuning,
            caps: QueueCaps {
                max_send_wr: 256,
                max_recv_wr: 1,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline: 0,
            },
            ..QpOptions::default()
        };
        let connect = |rig: &mut Rig, (rtt_ns, starts_ns): (u64, u64)| {
            let sender = rig.add_node();
            rig.net.link_mut(LinkId::Up(sender)).propagation_ns = rtt_ns / 2;
            rig.net.link_mut(LinkId::Down(sender)).propagation_ns = rtt_ns / 2;
            let qp = rig.connected(sender, receiver, qp).0;
            let (source, target) = (rig.region(sender, MESSAGE), rig.region(receiver, MESSAGE));
            Flow { qp, source, target, starts_ns, seen: 0 }
        };
        let flows = flows.iter().map(|flow| connect(&mut rig, *flow)).collect();
        let link = LinkId::Down(receiver);
        let marked = rig.net.link_mut(link);
        (marked.mark_frames, marked.queue_frames_max) = (Some(scene.mark_frames), scene.queue_frames);
        rig.net.set_faults(LinkId::Up(receiver), simnet::Faults::loss(scene.ack_loss_ppm));
        rig.net.keep_recent(0);
        Self { rig, flows, link, link_gbps: scene.gbps as f64 }
    }

    /// Runs for `ns` nanoseconds; those who have begun never run out of data.
    pub fn interval(&mut self, ns: u64) -> Sample {
        let started: Vec<usize> =
            (0..self.flows.len()).filter(|index| self.flows[*index].starts_ns <= self.rig.now().0).collect();
        self.rig.net.reset_queue_max(self.link);
        // A quarter of the send queue lasts for 2 MB.
        let steps = ns.div_ceil(50_000);
        for _ in 0..steps {
            for index in &started {
                let Flow { qp, source, target, .. } = &self.flows[*index];
                let work = Work::write(source.all(), target.all()).unsignaled();
                while self.rig.try_post(*qp, &work).is_ok() {}
            }
            self.rig.run_for(ns / steps);
        }
        let mut gbps = Vec::new();
        for index in started {
            let flow = &mut self.flows[index];
            let bytes = self.rig.net.stats(LinkId::Up(flow.qp.node())).delivered_bytes;
            gbps.push((bytes - flow.seen) as f64 * 8.0 / ns as f64);
            flow.seen = bytes;
        }
        let stats = self.rig.net.stats(self.link);
        let (queue, overflowed) = (stats.queue_max, stats.overflowed);
        Sample { at_ns: self.rig.now().0, gbps, queue, overflowed, link_gbps: self.link_gbps }
    }

    /// `count` intervals of `ns` nanoseconds.
    pub fn curve(&mut self, count: usize, ns: u64) -> Vec<Sample> {
        (0..count).map(|_| self.interval(ns)).collect()
    }

    /// Marks that the switch made and that the receiver's engine counted.
    pub fn marks(&self) -> (u64, u64) {
        let seen = self.rig.engine(NodeId(0)).core().counters().rx_ce_marked;
        (self.rig.net.stats(self.link).marked, seen)
    }
}

/// A table of the samples, every `step`th.
pub fn table(samples: &[Sample], step: usize) -> String {
    let rows = samples.iter().skip(step - 1).step_by(step);
    rows.fold(HEADING.to_owned(), |table, sample| format!("{table}\n{sample}"))
}
