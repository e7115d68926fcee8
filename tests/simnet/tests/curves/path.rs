//! One stream over a path that loses packets at random.

use datapath::qp::attr::{CongestionAlgorithm, CongestionTuning};
use datapath::queue::QueueCaps;
use datapath::stream::RtoConfig;
use simnet::{Faults, LinkConfig, LinkId, PortOptions, Qp, QpOptions, Region, Rig, RigOptions, Work};
use wire::Pmtu;

/// Bytes of each WRITE.
const MESSAGE: usize = 16 << 10;
/// Packets that a measurement lasts for, if none is lost.
const PACKETS: u64 = 16_000;
/// Round trips that it lasts for at least.
const ROUND_TRIPS: u64 = 30;
/// Round trips before it begins, at least.
const SETTLED: u64 = 40;

/// A path and the largest window of the stream over it.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Round trip without queues and turns, in nanoseconds.
    pub rtt_ns: u64,
    /// Rate of its links, in gigabits a second.
    pub gbps: u64,
    /// Largest window, in packets.
    pub window: u16,
    /// Longest delay that each packet gets at random in each direction, in nanoseconds; their order
    /// stays.
    pub jitter_ns: u64,
}

/// Which controller runs, and how.
pub type Control = (CongestionAlgorithm, CongestionTuning);

/// A queue pair with that window that only sends, and keeps up to `max_send_wr` WRITEs posted.
pub fn sender((congestion, congestion_tuning): Control, window: u16, max_send_wr: u32) -> QpOptions {
    QpOptions {
        pmtu: Pmtu::B1024,
        window,
        congestion,
        congestion_tuning,
        caps: QueueCaps { max_send_wr, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline: 0 },
        cq_entries: 2 * max_send_wr,
        ..QpOptions::default()
    }
}

impl Path {
    /// Packets of 1 KiB that the path takes in one round trip.
    pub fn product(&self) -> u64 {
        (self.rtt_ns * self.gbps / 8 / 1_148).max(1)
    }

    /// Goodput in gigabits a second, with `loss_ppm` lost at random each way.
    pub fn goodput(&self, control: Control, loss_ppm: u32, seed: u64) -> f64 {
        let (mut rig, a, source, target) = self.connect(control, loss_ppm, seed);
        let window = u64::from(self.window).min(self.product());
        let lasts_ns = PACKETS.max(ROUND_TRIPS * window) * self.rtt_ns.max(1) / window;
        // Until the path is known, and what a cut does to it.
        run(&mut rig, a, (source, target), (lasts_ns / 4).max(SETTLED * self.rtt_ns));
        let before = rig.sends(a).len();
        run(&mut rig, a, (source, target), lasts_ns);
        ((rig.sends(a).len() - before) * MESSAGE * 8) as f64 / lasts_ns as f64
    }

    fn connect(&self, control: Control, loss_ppm: u32, seed: u64) -> (Rig, Qp, Region, Region) {
        let link = LinkConfig {
            propagation_ns: self.rtt_ns / 4,
            ps_per_byte: 8_000 / self.gbps,
            queue_frames_max: 1 << 16,
            ..LinkConfig::default()
        };
        let port = PortOptions { up: link, down: link, ..PortOptions::default() };
        let rto = RtoConfig::default();
        let options = RigOptions { port, rto, window_max: self.window, ..RigOptions::seeded(seed) };
        let qp = sender(control, self.window, 1_024);
        let (mut rig, a, b) = Rig::pair(options, qp);
        let (source, target) = (rig.region(a.node(), MESSAGE), rig.region(b.node(), MESSAGE));
        rig.net.keep_recent(0);
        for node in [a.node(), b.node()] {
            let faults = Faults { jitter_ns_max: self.jitter_ns, ..Faults::loss(loss_ppm) };
            rig.net.set_faults(LinkId::Up(node), faults);
        }
        (rig, a, source, target)
    }
}

/// The sender never runs out of data for `ns` nanoseconds.
fn run(rig: &mut Rig, a: Qp, (source, target): (Region, Region), ns: u64) {
    // The send queue holds 16 MB: more than any path takes in a step.
    let steps = ns.div_ceil(100_000);
    for _ in 0..steps {
        let work = Work::write(source.all(), target.all());
        while rig.try_post(a, &work).is_ok() {}
        rig.run_for(ns / steps);
    }
}

/// Median.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
