//! Flows that share a link whose queue marks: the curves are snapshots, what must hold of them is
//! asserted beside.

use std::{
    collections::VecDeque,
    fmt::{self, Write as _},
};

use cc_dctcp::{AckEvent, Controller, ControllerConfig, DctcpConfig};

const MTU: u32 = 1024;

/// A link that takes one packet a tick; all flows have the same way before and behind it.
#[derive(Clone, Copy)]
struct Link {
    /// Round trip of an empty link, in ticks: the bandwidth-delay product in packets.
    round_trip: usize,
    /// Packets that find more than this many before them are marked.
    mark_above: usize,
}

const LINK: Link = Link { round_trip: 64, mark_above: 20 };

struct Flow {
    controller: Controller,
    in_flight: u32,
    starts_at: usize,
    delivered: u32,
}

struct Bottleneck {
    link: Link,
    flows: Vec<Flow>,
    /// (flow, marked)
    queue: VecDeque<(usize, bool)>,
    /// Acknowledgements on their way back; the front one arrives now.
    acks: VecDeque<Option<(usize, bool)>>,
    now: usize,
}

/// What an interval looked like.
struct Interval {
    flows: usize,
    utilisation: f64,
    queue_max: usize,
    packets_min: u32,
    packets_max: u32,
    jain: f64,
    alpha: f64,
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { flows, utilisation, queue_max, packets_min, packets_max, jain, alpha } = self;
        write!(
            f,
            "{flows:5} {utilisation:11.3} {queue_max:9} {packets_min:8} {packets_max:8} {jain:6.3} {alpha:6.3}"
        )
    }
}

const HEADER: &str = "flows utilisation queue max cwnd min cwnd max  Jain  alpha";

impl Bottleneck {
    fn new(link: Link, flows: usize, starts_every: usize) -> Self {
        let window_max = u32::try_from(link.round_trip).unwrap() * MTU;
        let config = ControllerConfig::Dctcp(DctcpConfig::new(window_max, MTU));
        let flows = (0..flows).map(|i| Flow {
            controller: Controller::new(&config),
            in_flight: 0,
            starts_at: i * starts_every,
            delivered: 0,
        });
        let acks = vec![None; link.round_trip].into();
        Self { link, flows: flows.collect(), queue: VecDeque::new(), acks, now: 0 }
    }

    /// One tick: an acknowledgement comes back, windows are filled, one packet leaves.
    fn tick(&mut self) {
        if let Some(Some((flow, marked))) = self.acks.pop_front() {
            let flow = &mut self.flows[flow];
            flow.in_flight -= 1;
            flow.delivered += 1;
            flow.controller.on_ack(&AckEvent {
                acked_bytes: MTU,
                acked_packets: 1,
                ce_delta: u32::from(marked),
                ..AckEvent::default()
            });
        }
        let mut waits = true;
        while waits {
            // One packet a flow in turn, as engines on different hosts would.
            waits = false;
            for (number, flow) in self.flows.iter_mut().enumerate() {
                let window = flow.controller.cwnd_bytes();
                if self.now >= flow.starts_at && (flow.in_flight + 1) * MTU <= window {
                    self.queue.push_back((number, self.queue.len() > self.link.mark_above));
                    flow.in_flight += 1;
                    waits = true;
                }
            }
        }
        self.acks.push_back(self.queue.pop_front());
        self.now += 1;
    }

    fn interval(&mut self, ticks: usize) -> Interval {
        self.flows.iter_mut().for_each(|flow| flow.delivered = 0);
        let mut queue_max = 0;
        for _ in 0..ticks {
            self.tick();
            queue_max = queue_max.max(self.queue.len());
        }
        let active: Vec<_> = self.flows.iter().filter(|flow| flow.starts_at < self.now).collect();
        let windows = active.iter().map(|flow| flow.controller.cwnd_bytes() / MTU);
        let delivered: Vec<f64> = active.iter().map(|flow| f64::from(flow.delivered)).collect();
        let (sum, squares): (f64, f64) =
            (delivered.iter().sum(), delivered.iter().map(|share| share * share).sum());
        let count = f64::from(u32::try_from(active.len()).unwrap());
        let alphas = active.iter().map(|flow| match flow.controller {
            Controller::Dctcp(dctcp) => f64::from(dctcp.alpha()) / 65_536.0,
            _ => 0.0,
        });
        Interval {
            flows: active.len(),
            utilisation: sum / f64::from(u32::try_from(ticks).unwrap()),
            queue_max,
            packets_min: windows.clone().min().unwrap_or(0),
            packets_max: windows.max().unwrap_or(0),
            jain: sum * sum / (count * squares),
            alpha: alphas.sum::<f64>() / count,
        }
    }

    fn curve(&mut self, intervals: usize, ticks: usize) -> (String, Vec<Interval>) {
        let intervals: Vec<_> = (0..intervals).map(|_| self.interval(ticks)).collect();
        let mut text = format!("{HEADER}\n");
        intervals.iter().for_each(|interval| writeln!(text, "{interval}").unwrap());
        (text, intervals)
    }
}

#[test]
fn one_flow_fills_the_link_without_a_queue() {
    let (curve, intervals) = Bottleneck::new(LINK, 1, 0).curve(4, 6400);
    insta::assert_snapshot!("one_flow", curve);
    assert!(intervals[1..].iter().all(|interval| interval.utilisation == 1.0 && interval.queue_max <= 1));
}

#[test]
fn two_flows_share() {
    let (curve, intervals) = Bottleneck::new(LINK, 2, 6400).curve(10, 6400);
    insta::assert_snapshot!("two_flows", curve);
    for interval in &intervals[5..] {
        assert!(interval.jain > 0.95, "{interval}");
        assert!(interval.utilisation > 0.95, "{interval}");
        assert!(interval.queue_max <= LINK.mark_above + 12, "{interval}");
    }
}

#[test]
fn sixteen_flows_share() {
    let (curve, intervals) = Bottleneck::new(LINK, 16, 640).curve(12, 6400);
    insta::assert_snapshot!("sixteen_flows", curve);
    for interval in &intervals[6..] {
        assert!(interval.jain > 0.95, "{interval}");
        assert!(interval.utilisation > 0.98, "{interval}");
        // Each flow adds one packet before it hears of the marks.
        assert!(interval.queue_max <= LINK.mark_above + 2 * 16, "{interval}");
    }
}

#[test]
fn an_incast_of_sixty_four_does_not_collapse() {
    let (curve, intervals) = Bottleneck::new(LINK, 64, 0).curve(10, 6400);
    insta::assert_snapshot!("incast_of_64", curve);
    for interval in &intervals[2..] {
        assert!(interval.utilisation > 0.99, "{interval}");
        assert!(interval.queue_max <= 2 * 64, "{interval}");
        assert!(interval.packets_min >= 1, "{interval}");
    }
}
