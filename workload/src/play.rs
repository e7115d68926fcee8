//! Plays a scenario in virtual time, with the engine that runs on the wire.

mod domains;
mod flow;
mod harm;
mod storm;

use crate::scenario::{Entry, Faults, Host, Link, Scenario, ScenarioError};
use datapath::counters::Counters;
use datapath::sched::HostRateConfig;
use datapath::stream::RtoConfig;
use datapath::time::Time;
use domains::Domains;
use flow::Flow;
use harm::Harms;
pub use simnet::LinkStats;
use simnet::{HostModel, LinkConfig, LinkId, NodeId, PortOptions, Rig, RigOptions};
use std::time::Duration;
use storm::Storm;

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
    /// The part of its time, 0 to 1, for which each host had something to do.
    pub busy: Vec<f64>,
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

/// Plays it for as long as `goes_on` says so; what came of it by then is what it returns.
///
/// # Errors
/// [`ScenarioError`]: of [`Scenario::check`].
pub fn play_while(scenario: &Scenario, goes_on: &dyn Fn() -> bool) -> Result<Outcome, ScenarioError> {
    play_on(scenario, &|_| (), goes_on)
}

/// Plays it on a rig that `prepare` may have changed.
///
/// # Errors
/// [`ScenarioError`]: of [`Scenario::check`].
pub fn play_with(scenario: &Scenario, prepare: Prepare<'_>) -> Result<Outcome, ScenarioError> {
    play_on(scenario, prepare, &|| true)
}

fn play_on(
    scenario: &Scenario,
    prepare: Prepare<'_>,
    goes_on: &dyn Fn() -> bool,
) -> Result<Outcome, ScenarioError> {
    scenario.check()?;
    let mut rig = Rig::new(options(scenario));
    rig.set_auto_poll(false);
    for _ in 0..scenario.hosts() {
        rig.add_node();
    }
    let mut all = traffic(&mut rig, scenario)?;
    for node in (0..scenario.hosts()).map(NodeId) {
        rig.net.set_faults_of(node, faults(&scenario.faults), simnet::Faults::default());
    }
    prepare(&mut rig);
    let time_ns = u64::from(scenario.time_us) * 1000;
    let busy = run(&mut rig, &mut all, time_ns, goes_on);
    Ok(outcome(scenario, &rig, &all, (time_ns, busy)))
}

/// What an entry does, while time passes.
trait Traffic {
    /// Number of the entry.
    fn entry(&self) -> usize;
    /// Takes what has ended, and begins something if it may.
    fn step(&mut self, rig: &mut Rig, may_post: bool);
    /// When it begins something next although nothing ends, if that is later than now.
    fn wakes_at(&self, now: Time) -> Option<Time>;
    /// From now on it counts what it takes to end.
    fn stop(&mut self);
    /// Whether something has ended since posting ended, or everything has.
    fn moves_on(&self) -> bool;
    /// Adds what came of it.
    fn tell(&self, told: &mut EntryOutcome);
}

fn traffic(rig: &mut Rig, scenario: &Scenario) -> Result<Vec<Box<dyn Traffic>>, ScenarioError> {
    let domains = Domains::new(rig, scenario)?;
    let control_ns = scenario.host.control_ns.into();
    let mut harms = Harms::default();
    let mut all: Vec<Box<dyn Traffic>> = Vec::new();
    for (number, entry) in scenario.workload.iter().enumerate() {
        if !entry.op.is_request() {
            all.push(Box::new(Storm::new(rig, number, entry, &domains, control_ns)?));
            continue;
        }
        for flow in Flow::all_of(rig, number, entry, &domains, control_ns)? {
            if entry.faults != Faults::default() {
                harms.add(rig, flow.ends(), entry.faults);
            }
            all.push(Box::new(flow));
        }
    }
    harms.begin(rig, scenario.seed.into());
    Ok(all)
}

/// Returns for how many nanoseconds each host was busy while requests were posted.
fn run(rig: &mut Rig, all: &mut [Box<dyn Traffic>], time_ns: u64, goes_on: &dyn Fn() -> bool) -> Vec<u64> {
    let busy = |rig: &Rig| (0..rig.nodes()).map(|host| rig.busy_ns(NodeId(host))).collect::<Vec<_>>();
    let (before, end) = (busy(rig), rig.now().after(time_ns));
    all.iter_mut().for_each(|one| one.step(rig, true));
    while rig.now() < end && goes_on() {
        look(rig, all, end);
        all.iter_mut().for_each(|one| one.step(rig, true));
    }
    let spent = busy(rig).iter().zip(before).map(|(after, before)| after - before).collect();
    all.iter_mut().for_each(|one| one.stop());
    let end = rig.now().after((time_ns * DRAIN.0).max(DRAIN.1));
    while rig.now() < end && !all.iter().all(|one| one.moves_on()) && goes_on() {
        look(rig, all, end);
        all.iter_mut().for_each(|one| one.step(rig, false));
    }
    spent
}

/// Lets time pass until a program would look again, or longer if nothing happens before.
fn look(rig: &mut Rig, all: &[Box<dyn Traffic>], end: Time) {
    let now = rig.now();
    let wakes = all.iter().filter_map(|one| one.wakes_at(now)).min();
    let next = [rig.next_step(), wakes].into_iter().flatten().min().unwrap_or(end);
    rig.run_for(next.max(now.after(LOOK_NS)).min(end).since(now));
    rig.poll_events();
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn outcome(
    scenario: &Scenario,
    rig: &Rig,
    all: &[Box<dyn Traffic>],
    (time_ns, busy): (u64, Vec<u64>),
) -> Outcome {
    let mut entries = vec![EntryOutcome::default(); scenario.workload.len()];
    for one in all {
        one.tell(&mut entries[one.entry()]);
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
        busy: busy.into_iter().map(|ns| ns as f64 / time_ns as f64).collect(),
        hash: rig.net.trace_hash(),
        took: Duration::from_nanos(rig.now().0),
    }
}

fn options(scenario: &Scenario) -> RigOptions {
    let Link { gbps, delay_ns, queue, mark } = scenario.link;
    let Host { turn_ns, tx_ring, rx_ring, frame_ns, byte_ps, atomic_ns, marks_ns, target_ns, .. } =
        scenario.host;
    let link = LinkConfig {
        ps_per_byte: picoseconds(gbps),
        propagation_ns: delay_ns.into(),
        queue_frames_max: queue as usize,
        mark_frames: mark.map(|frames| frames as usize),
        ..LinkConfig::default()
    };
    RigOptions {
        port: PortOptions {
            up: link,
            down: link,
            tells_ahead: false,
            tx_ring: tx_ring as usize,
            rx_ring: if rx_ring == 0 { usize::MAX } else { rx_ring as usize },
            max_frame: MAX_FRAME,
        },
        turn_cost_ns: turn_ns.into(),
        host: HostModel { frame_ns: frame_ns.into(), byte_ps: byte_ps.into(), atomic_ns: atomic_ns.into() },
        costs: scenario.costs.into(),
        host_marks_ns: marks_ns,
        host_rates: (target_ns > 0).then_some(HostRateConfig { target_ns, ..HostRateConfig::DEFAULT }),
        // A queue pair to itself has both ends on one host.
        max_qps: scenario.qps()
            * if scenario.workload.iter().any(|entry| entry.from == entry.to) { 2 } else { 1 },
        max_mrs: regions(scenario),
        window_max: scenario.workload.iter().map(|entry| entry.window).max().unwrap_or(1),
        rto: RtoConfig::default(),
        ..RigOptions::seeded(scenario.seed.into())
    }
}

/// Regions of a host at most: of each entry on both ends, which may be one host, each with one in
/// which the rig looks, and one for each entry that registers some.
fn regions(scenario: &Scenario) -> usize {
    let of = |entry: &Entry| 4 * entry.regions as usize + 1;
    scenario.workload.iter().map(of).sum::<usize>().max(RigOptions::default().max_mrs)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and 8 million")]
fn picoseconds(gbps: f64) -> u64 {
    (8000.0 / gbps).round() as u64
}

fn faults(faults: &Faults) -> simnet::Faults {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below a million")]
    let ppm = |part: f64| (part * f64::from(simnet::PPM)) as u32;
    simnet::Faults {
        loss_ppm: ppm(faults.loss),
        duplicate_ppm: ppm(faults.duplicate),
        reorder_ppm: ppm(faults.reorder),
        reorder_ns_max: late_ns(faults),
        corrupt_ppm: ppm(faults.corrupt),
        ..simnet::Faults::default()
    }
}

/// How late frames are at most.
fn late_ns(faults: &Faults) -> u64 {
    if faults.late_ns == 0 { LATE_NS } else { faults.late_ns.into() }
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

    /// Of ten seconds of virtual time three looks of a program are played.
    #[test]
    fn it_ends_when_it_is_not_to_go_on() {
        let scenario = Scenario::parse("{time_us = 10000000, workload = [{}]}").expect("a scenario");
        let looks = core::cell::Cell::new(0);
        let goes_on = || looks.replace(looks.get() + 1) < 3;
        let told = play_while(&scenario, &goes_on).expect("it can be played");
        assert!(told.took < Duration::from_micros(100), "{:?}", told.took);
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

    /// Frames of 1,024 bytes take 100 ns on each side, and so does the host for each KiB.
    #[test]
    fn a_host_takes_its_time() {
        let text = |host: &str| {
            format!("{{link = {{gbps = 100.0}}, host = {{{host}}}, workload = [{{qps = 2, window = 512}}]}}")
        };
        let gbps = |host: &str| outcome(&text(host)).entries[0].gbps();
        let (fast, frames) = (gbps(""), gbps("frame_ns = 200"));
        assert!(fast > 85.0 && (35.0..41.0).contains(&frames), "{fast} and {frames} Gb/s");
        let bytes = gbps("byte_ps = 200");
        assert!((30.0..39.0).contains(&bytes), "{bytes} Gb/s");
        let busy = outcome(&text("frame_ns = 200")).busy;
        assert!(busy.len() == 2 && busy.iter().all(|busy| (0.9..=1.1).contains(busy)), "{busy:?}");
    }

    #[test]
    fn tenants_share_by_weight_what_queue_pairs_would_take() {
        let text = |tenants: &str| {
            format!(
                "{{host = {{tx_ring = 8}}, {tenants} workload = [{{name = 'a', qps = 1, tenant = 'a', sizes = 8192}}, \
                 {{name = 'b', qps = 9, tenant = 'b', sizes = 8192}}], time_us = 1000}}"
            )
        };
        let shares = |text: String| {
            let entries = outcome(&text).entries;
            entries[0].gbps() / (entries[0].gbps() + entries[1].gbps())
        };
        let with = shares(text("tenant = [{name = 'a', weight = 2}, {name = 'b'}],"));
        assert!((0.6..0.72).contains(&with), "{with}");
        let without = shares(text("").replace("tenant = 'a', ", "").replace("tenant = 'b', ", ""));
        assert!(without < 0.2, "{without}");
    }

    /// A receive ring loses frames; marks and rates hold senders back before it does, and so do
    /// caps on what peers may send.
    #[test]
    fn hosts_and_tenants_hold_back_what_is_sent_to_them() {
        let play = |host: &str, tenant: &str, qps: u32| {
            let named = if tenant.is_empty() { "" } else { "tenant = 'a', " };
            let sender = |from: u32| {
                format!(
                    "{{{named}from = {from}, to = 0, qps = {qps}, window = 256, depth = 64, congestion = 'dctcp'}}"
                )
            };
            outcome(&format!(
                "{{time_us = 3000, link = {{gbps = 100.0}}, host = {{frame_ns = 300, {host}}}, {tenant} workload = [{}, {}]}}",
                sender(1),
                sender(2)
            ))
        };
        let missed = |told: &Outcome| told.links.iter().flatten().map(|link| link.missed).sum::<u64>();
        let lost = missed(&play("rx_ring = 64", "", 4));
        assert!(lost > 100, "{lost}");
        for held in ["rx_ring = 512, marks_ns = 5000", "rx_ring = 512, target_ns = 20000"] {
            let told = play(held, "", 4);
            assert!(missed(&told) * 4 < lost, "{held}: {} of {lost}", missed(&told));
        }
        assert!(play("marks_ns = 5000", "", 4).counters.rx_host_marked > 0);
        let gbps = |tenant: &str| play("", tenant, 1).entries.iter().map(EntryOutcome::gbps).sum::<f64>();
        let (free, capped) = (gbps(""), gbps("tenant = [{name = 'a', rx_bytes_per_s = 1500000000}],"));
        assert!(free > 18.0 && (9.0..13.0).contains(&capped), "{capped} of {free} Gb/s");
    }

    /// Control calls above a cap wait.
    #[test]
    fn storms_of_calls_are_capped() {
        let calls = |entry: &str, cap: u32| {
            let told = outcome(&format!(
                "{{time_us = 1000, host = {{control_ns = 500}}, tenant = [{{name = 'a', control_per_s = {cap}}}], \
                 workload = [{{{entry}, tenant = 'a', sizes = 64}}]}}"
            ));
            told.entries[0].requests + told.counters.rx_error_naks
        };
        for entry in ["op = 'create', pace_ns = 1", "op = 'bad-key', qps = 8, reconnect = true"] {
            let (capped, at_will) = (calls(entry, 20_000), calls(entry, 0));
            // 20 in a millisecond, 33 that may be saved, and eight connections that there were
            // before.
            assert!((20..=20 + 33 + 8).contains(&capped) && at_will > 2 * capped, "{capped} of {at_will}");
        }
    }

    /// Faults of an entry hit no other one.
    #[test]
    fn an_entry_may_have_faults_of_its_own() {
        let text = "{workload = [{faults = {reorder = 0.5}}, {from = 1, to = 0}]}";
        let harmed = outcome(text);
        assert!(harmed.counters.rx_out_of_order > 20, "{:?}", harmed.counters);
        let requests =
            |text: &str| outcome(text).entries.iter().map(|entry| entry.requests).collect::<Vec<_>>();
        let calm = requests("{workload = [{}, {from = 1, to = 0}]}");
        let lossy = requests("{workload = [{faults = {loss = 0.9}}, {from = 1, to = 0}]}");
        assert!(lossy[0] * 4 < calm[0] && lossy[1] >= calm[1], "{calm:?} and {lossy:?}");
    }

    /// What is done, and what the engines say of it.
    #[test]
    fn storms_do_what_they_say() {
        let storm = |op: &str| {
            outcome(&format!(
                "{{host = {{control_ns = 500}}, workload = [{{op = '{op}', sizes = 64, pace_ns = 100}}, {{}}]}}"
            ))
        };
        let calm = outcome("{workload = [{}]}");
        for op in ["create", "register"] {
            let told = storm(op);
            assert!((30..=100).contains(&told.entries[0].requests), "{op}: {:?}", told.entries[0]);
            assert!(told.entries[1].requests < calm.entries[0].requests, "{op} takes the host's time");
            assert_eq!(told.entries[1].errors, 0);
        }
        // Of a thousand that begin, some are still behind the other entry's frames at the end.
        let dropped = storm("bad-qpn").counters.drop_unknown_qp;
        assert!((500..=1_001).contains(&dropped), "{dropped}");
        let counters = storm("bad-psn").counters;
        assert!(counters.drop_beyond_window + counters.rx_duplicates > 500, "{counters:?}");
    }

    #[test]
    fn ends_that_fail_connect_again() {
        let once = outcome("{workload = [{op = 'bad-key', sizes = 64, qps = 4}]}");
        assert!(once.counters.rx_error_naks == 4 && once.entries[0].errors > 0, "{once:?}");
        let again = outcome("{workload = [{op = 'bad-key', sizes = 64, qps = 4, reconnect = true}]}");
        assert!(again.counters.rx_error_naks > 40 && again.entries[0].errors == 0, "{again:?}");
        let unpolled = outcome("{workload = [{sizes = 64, polled = false, reconnect = true}, {}]}");
        assert!(unpolled.counters.drop_cq_overflow > 5 && unpolled.entries[1].errors == 0, "{unpolled:?}");
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
