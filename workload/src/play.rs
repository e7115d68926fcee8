//! Plays a scenario in virtual time, with the engine that runs on the wire.

mod flow;

use crate::scenario::{Faults, Host, Link, Scenario, ScenarioError};
use datapath::counters::Counters;
use datapath::stream::RtoConfig;
use datapath::time::Time;
use flow::Flow;
use simnet::{LinkConfig, LinkId, LinkStats, NodeId, PortOptions, Rig, RigOptions};
use std::time::Duration;

/// After the last post, a scenario has so many times its own time, and at least this, to end.
const DRAIN: (u64, u64) = (10, 500_000_000);
/// Nanoseconds from one look of a program at its completion queues to the next.
const LOOK_NS: u64 = 500;
/// Longest frame: one packet of the largest path MTU.
const MAX_FRAME: usize = 4608;
/// Lateness of frames if a scenario does not say.
const LATE_NS: u64 = 5_000;

/// What came of an entry.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct EntryOutcome {
    /// Requests that succeeded while requests were posted.
    pub requests: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Requests that ended with an error, at any time.
    pub errors: u64,
    /// Requests that have not ended.
    pub stuck: u64,
    /// Requests of each queue pair that succeeded while requests were posted.
    pub shares: Vec<u64>,
    /// Nanoseconds from post to completion, in order; of those with a completion.
    pub latencies: Vec<u64>,
    /// Nanoseconds in which requests were posted.
    pub time_ns: u64,
}

impl EntryOutcome {
    /// Payload in 10^9 bits a second.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub fn gbps(&self) -> f64 {
        8.0 * self.bytes as f64 / (self.time_ns as f64).max(1.0)
    }

    /// The latency below which a part `of` the requests are, in nanoseconds; 0 if there is none.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index"
    )]
    pub fn quantile(&self, of: f64) -> u64 {
        let last = self.latencies.len().saturating_sub(1);
        self.latencies.get((last as f64 * of) as usize).copied().unwrap_or(0)
    }
}

/// What came of a scenario.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Of each entry.
    pub entries: Vec<EntryOutcome>,
    /// What the engines of all hosts counted.
    pub counters: Counters,
    /// What the links counted, from each host and to it.
    pub links: Vec<[LinkStats; 2]>,
    /// Turns of all engines.
    pub turns: u64,
    /// Hash over every frame that was delivered, with its time.
    pub hash: u64,
    /// Virtual time of all of it.
    pub took: Duration,
}

impl Outcome {
    /// A sum over all links.
    #[must_use]
    pub fn on_links(&self, of: impl Fn(&LinkStats) -> u64) -> u64 {
        self.links.iter().flatten().map(of).sum()
    }
}

/// Something between the scenario and the network: it may change the rig before it runs.
pub type Prepare<'a> = &'a dyn Fn(&mut Rig);

/// Plays it.
///
/// # Errors
/// [`ScenarioError`]: of [`Scenario::check`].
pub fn play(scenario: &Scenario) -> Result<Outcome, ScenarioError> {
    play_with(scenario, &|_| ())
}

/// Plays it on a rig that `prepare` may have changed.
///
/// # Errors
/// [`ScenarioError`]: of [`Scenario::check`].
pub fn play_with(scenario: &Scenario, prepare: Prepare<'_>) -> Result<Outcome, ScenarioError> {
    scenario.check()?;
    let mut rig = Rig::new(options(scenario));
    for _ in 0..scenario.hosts() {
        rig.add_node();
    }
    let mut flows = Vec::new();
    for (number, entry) in scenario.workload.iter().enumerate() {
        flows.extend(Flow::all_of(&mut rig, number, entry)?);
    }
    for node in (0..scenario.hosts()).map(NodeId) {
        rig.net.set_faults_of(node, faults(&scenario.faults), simnet::Faults::default());
    }
    prepare(&mut rig);
    let time_ns = u64::from(scenario.time_us) * 1000;
    run(&mut rig, &mut flows, time_ns);
    Ok(outcome(scenario, &rig, &flows, time_ns))
}

fn run(rig: &mut Rig, flows: &mut [Flow], time_ns: u64) {
    let end = rig.now().after(time_ns);
    flows.iter_mut().for_each(|flow| flow.step(rig, true));
    while rig.now() < end {
        look(rig, flows, end);
        flows.iter_mut().for_each(|flow| flow.step(rig, true));
    }
    flows.iter_mut().for_each(Flow::stop);
    let end = rig.now().after((time_ns * DRAIN.0).max(DRAIN.1));
    while rig.now() < end && !flows.iter().all(Flow::moves_on) {
        look(rig, flows, end);
        flows.iter_mut().for_each(|flow| flow.step(rig, false));
    }
}

/// Lets time pass until a program would look again, or longer if nothing happens before.
fn look(rig: &mut Rig, flows: &[Flow], end: Time) {
    let now = rig.now();
    let wakes = flows.iter().filter_map(|flow| flow.wakes_at(now)).min();
    let next = [rig.next_step(), wakes].into_iter().flatten().min().unwrap_or(end);
    rig.run_for(next.max(now.after(LOOK_NS)).min(end).since(now));
}

fn outcome(scenario: &Scenario, rig: &Rig, flows: &[Flow], time_ns: u64) -> Outcome {
    let mut entries = vec![EntryOutcome::default(); scenario.workload.len()];
    for flow in flows {
        flow.tell(&mut entries[flow.entry]);
    }
    for (told, entry) in entries.iter_mut().zip(&scenario.workload) {
        told.latencies.sort_unstable();
        told.time_ns = time_ns.saturating_sub(u64::from(entry.start_us) * 1000);
    }
    let mut counters = Counters::default();
    let nodes = (0..rig.nodes()).map(NodeId);
    nodes.clone().for_each(|node| counters.add(rig.engine(node).core().counters()));
    let links = nodes.map(|node| [*rig.net.stats(LinkId::Up(node)), *rig.net.stats(LinkId::Down(node))]);
    Outcome {
        entries,
        counters,
        links: links.collect(),
        turns: rig.turns(),
        hash: rig.net.trace_hash(),
        took: Duration::from_nanos(rig.now().0),
    }
}

fn options(scenario: &Scenario) -> RigOptions {
    let Link { gbps, delay_ns, queue, mark } = scenario.link;
    let Host { turn_ns, tx_ring } = scenario.host;
    let link = LinkConfig {
        ps_per_byte: picoseconds(gbps),
        propagation_ns: delay_ns.into(),
        queue_frames_max: queue as usize,
        mark_frames: mark.map(|frames| frames as usize),
        ..LinkConfig::default()
    };
    RigOptions {
        port: PortOptions { up: link, down: link, tx_ring: tx_ring as usize, max_frame: MAX_FRAME, ..PortOptions::default() },
        turn_cost_ns: turn_ns.into(),
        // A queue pair to itself has both ends on one host.
        max_qps: scenario.qps()
            * if scenario.workload.iter().any(|entry| entry.from == entry.to) { 2 } else { 1 },
        window_max: scenario.workload.iter().map(|entry| entry.window).max().unwrap_or(1),
        rto: RtoConfig::default(),
        ..RigOptions::seeded(scenario.seed.into())
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and 8 million")]
fn picoseconds(gbps: f64) -> u64 {
    (8000.0 / gbps).round() as u64
}

fn faults(faults: &Faults) -> simnet::Faults {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below a million")]
    let ppm = |part: f64| (part * f64::from(simnet::PPM)) as u32;
    let late_ns = if faults.late_ns == 0 { LATE_NS } else { faults.late_ns.into() };
    simnet::Faults {
        loss_ppm: ppm(faults.loss),
        duplicate_ppm: ppm(faults.duplicate),
        reorder_ppm: ppm(faults.reorder),
        reorder_ns_max: late_ns,
        corrupt_ppm: ppm(faults.corrupt),
        ..simnet::Faults::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &str) -> Outcome {
        play(&Scenario::parse(text).expect("a scenario")).expect("it can be played")
    }

    #[test]
    fn a_scenario_is_the_same_each_time() {
        let text =
            "{faults = {loss = 0.02}, workload = [{op = 'read', qps = 8}, {op = 'send', from = 1, to = 0}]}";
        let first = outcome(text);
        assert_eq!(first, outcome(text));
        assert_ne!(first.hash, outcome(&format!("{{seed = 2, {}", &text[1..])).hash);
    }

    /// 25 Gb/s, and packets of 1,024 bytes that take 1,106 on the wire.
    #[test]
    fn each_operation_moves_bytes() {
        for op in ["write", "write-imm", "send", "read"] {
            let text = format!(
                "{{workload = [{{op = '{op}', qps = 2, window = 512, signaled = 4, elements = 3}}]}}"
            );
            let done = outcome(&text).entries.remove(0);
            assert!((20.0..25.0).contains(&done.gbps()), "{op}: {} Gb/s", done.gbps());
            assert_eq!((done.errors, done.stuck, done.shares.len()), (0, 0, 2), "{op}");
            assert!(done.quantile(0.0) > 2_000 && done.quantile(0.0) <= done.quantile(0.99), "{op}");
        }
        assert!(outcome("{workload = [{op = 'atomic'}]}").entries[0].requests > 100);
        let unreliable = outcome("{workload = [{op = 'send', service = 'uc', receives = 256}]}");
        assert!(unreliable.entries[0].gbps() > 15.0 && unreliable.counters.tx_acks == 0, "{unreliable:?}");
    }

    #[test]
    fn what_is_to_go_wrong_goes_wrong() {
        let lossy = outcome("{faults = {loss = 0.05}, workload = [{}]}");
        assert!(lossy.on_links(|link| link.lost) > 0 && lossy.counters.tx_retransmits > 0);
        let starved = outcome("{workload = [{op = 'send', receives = 1, receive_ns = 20000}]}");
        assert!(starved.counters.rx_rnr_naks > 0);
        assert!(starved.entries[0].requests <= 6);
        let paced = outcome("{workload = [{pace_ns = 10000}]}");
        assert!((9..=10).contains(&paced.entries[0].requests), "{:?}", paced.entries);
    }
}
