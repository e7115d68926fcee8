//! Whether what came of a scenario is as it should be, and the counters that a search follows.

use crate::play::{EntryOutcome, Outcome};
use crate::scenario::{Entry, Op, Scenario, Service};
use std::fmt;

/// An entry should have this part of what its links, windows and queues allow.
const SHARE: f64 = 0.4;
/// Bytes of headers, ICRC, FCS, preamble and gap of a packet, generously.
const OVERHEAD: f64 = 130.0;
/// READs and atomics that a queue pair has under way at most.
const READS: u32 = 8;
/// Requests that a queue pair sends in a turn of its.
const GRANT: u32 = 8;
/// Packets that are sent again for one that is lost, late or damaged.
const AGAIN: u64 = 4;
/// Packets that nothing has to explain.
const FREE: u64 = 4;

/// Nanoseconds that a request may take without a reason, and those if packets are harmed: timers.
const SLACK_NS: f64 = 20_000.0;
const REPAIR_NS: f64 = 200_000.0;

/// What is not as it should be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// A request ended with an error.
    Error,
    /// Requests do not end.
    Stuck,
    /// Packets were sent again that were not lost.
    Resent,
    /// Packets came twice that were sent once.
    Doubled,
    /// Packets came out of order over a network that keeps it.
    Reordered,
    /// Packets came damaged over a network that damages none.
    Damaged,
    /// An engine dropped packets of a network that is well.
    Dropped,
    /// A request found no receive although there were enough.
    NotReady,
    /// No request was as fast as an idle network allows.
    Late,
    /// Far fewer bytes than link, window and depth allow.
    Slow,
    /// A queue pair got far less than others like it.
    Unfair,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Error,
        Self::Stuck,
        Self::Resent,
        Self::Doubled,
        Self::Reordered,
        Self::Damaged,
        Self::Dropped,
        Self::NotReady,
        Self::Late,
        Self::Slow,
        Self::Unfair,
    ];

    /// Whether it is wrong on any machine: how long requests take is not.
    #[must_use]
    pub const fn holds_anywhere(self) -> bool {
        !matches!(self, Self::Late | Self::Slow)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Error => "error",
            Self::Stuck => "stuck",
            Self::Resent => "resent",
            Self::Doubled => "doubled",
            Self::Reordered => "reordered",
            Self::Damaged => "damaged",
            Self::Dropped => "dropped",
            Self::NotReady => "not-ready",
            Self::Late => "late",
            Self::Slow => "slow",
            Self::Unfair => "unfair",
        })
    }
}

/// What is not as it should be, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What.
    pub kind: Kind,
    /// Numbers.
    pub words: String,
}

/// What a scenario itself explains.
struct Explained {
    /// Frames that the links lost, damaged or held up, because the scenario says so.
    harmed: u64,
    damaged: u64,
    doubled: u64,
    /// Nothing is to go wrong, and nothing waits in vain.
    calm: bool,
    /// Requests may find no receive, or wait for reasons that are not judged.
    short: bool,
}

impl Explained {
    fn new(scenario: &Scenario, outcome: &Outcome) -> Self {
        let faults = scenario.faults;
        let counted =
            |part: f64, of: fn(&simnet::LinkStats) -> u64| if part > 0.0 { outcome.on_links(of) } else { 0 };
        let overflowed = outcome.on_links(|link| link.overflowed);
        let damaged = counted(faults.corrupt, |link| link.corrupted);
        let doubled = counted(faults.duplicate, |link| link.duplicated);
        let late = counted(faults.reorder, |link| link.reordered);
        let lost = counted(faults.loss, |link| link.lost) + overflowed;
        let any = [faults.loss, faults.reorder, faults.duplicate, faults.corrupt];
        let short = |entry: &Entry| {
            entry.op.takes_receive()
                && (entry.receives_ahead() < entry.depth
                    || entry.receive_ns > 0
                    || entry.service == Service::Uc)
        };
        // Who attacks, and whom a policy or a slow host holds back, is measured and not judged.
        let special = !scenario.tenant.is_empty()
            || scenario.host.takes_time()
            || scenario.host.holds_back()
            || scenario.workload.iter().any(Entry::is_hostile);
        Self {
            harmed: lost + damaged + late,
            damaged,
            doubled,
            calm: !special && overflowed == 0 && any.iter().all(|part| *part == 0.0),
            short: special || scenario.workload.iter().any(short),
        }
    }
}

/// What of the outcome is not as it should be; nothing if all is well.
#[must_use]
pub fn judge(scenario: &Scenario, outcome: &Outcome) -> Vec<Finding> {
    let explained = Explained::new(scenario, outcome);
    let mut found = Vec::new();
    let well_meant = scenario.workload.iter().zip(&outcome.entries).filter(|(entry, _)| !entry.is_hostile());
    for (entry, told) in well_meant {
        entry_alone(scenario, entry, told, &explained, &mut found);
    }
    let mut note = |kind, wrong: bool, words: String| {
        if wrong {
            found.push(Finding { kind, words });
        }
    };
    let counters = &outcome.counters;
    let Explained { harmed, damaged, doubled, calm, short } = explained;
    // Who hears nothing for long asks by sending a packet again: a probe, and no repair.
    let probes = counters.tx_probes;
    let again = counters.tx_retransmits.saturating_sub(probes);
    let twice = counters.rx_duplicates.saturating_sub(probes);
    let words = format!("{again} packets were sent again, and the network harmed {harmed}");
    note(Kind::Resent, !short && again > FREE + AGAIN * harmed, words);
    let words = format!("{twice} packets came twice; the network harmed {harmed} and doubled {doubled}");
    note(Kind::Doubled, !short && twice > FREE + AGAIN * (harmed + doubled), words);
    let early = counters.rx_out_of_order;
    note(Kind::Reordered, calm && early > FREE, format!("{early} packets came out of order"));
    let bad = counters.drop_icrc + counters.drop_malformed + counters.drop_encapsulation;
    note(
        Kind::Damaged,
        bad > damaged,
        format!("{bad} packets came damaged, of which the network made {damaged}"),
    );
    let dropped: Vec<String> = counters
        .iter()
        .filter(|(name, count)| name.starts_with("drop_") && *count > 0)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    note(Kind::Dropped, calm && !short && bad == 0 && !dropped.is_empty(), dropped.join(", "));
    let words = format!("{} requests found no receive", counters.rx_rnr_naks);
    note(Kind::NotReady, calm && !short && counters.rx_rnr_naks > 0, words);
    found.sort_by_key(|finding| finding.kind);
    found.dedup_by_key(|finding| finding.kind);
    found
}

fn entry_alone(
    scenario: &Scenario,
    entry: &Entry,
    told: &EntryOutcome,
    explained: &Explained,
    found: &mut Vec<Finding>,
) {
    let mut note = |kind, wrong: bool, words: String| {
        if wrong {
            found.push(Finding { kind, words });
        }
    };
    note(Kind::Error, told.errors > 0, format!("{} requests ended with an error", told.errors));
    note(Kind::Stuck, told.stuck > 0, format!("{} requests do not end", told.stuck));
    if explained.short || entry.service == Service::Uc {
        return;
    }
    let slack = if explained.calm { SLACK_NS } else { REPAIR_NS };
    let (fastest, allowed) = (told.quantile(0.0), slowest_first(scenario, entry) + slack);
    let words = format!("the fastest request took {fastest} ns, where {allowed:.0} are enough");
    note(Kind::Late, as_float(fastest) > allowed && !told.latencies.is_empty(), words);
    if !explained.calm || entry.pace_ns > 0 {
        return;
    }
    // Requests without completions are known by the next one that has one.
    let untold = f64::from(entry.qps) * f64::from(entry.signaled - 1);
    let expected = expected_requests(scenario, entry) - untold;
    let words = format!("{} requests, of {expected:.0} that are possible", told.requests);
    note(Kind::Slow, expected > 16.0 && as_float(told.requests) < SHARE * expected, words);
    let (least, mean) =
        (told.shares.iter().min().copied().unwrap_or(0), told.requests / u64::from(entry.qps));
    let words = format!("a queue pair had {least} requests, the mean is {mean}");
    note(Kind::Unfair, mean > 16 + 4 * u64::from(entry.signaled) && least * 4 < mean, words);
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
const fn as_float(count: u64) -> f64 {
    count as f64
}

/// Nanoseconds of a bit.
fn bit_ns(scenario: &Scenario) -> f64 {
    1.0 / scenario.link.gbps
}

/// Nanoseconds on the wire of a message, and its packets.
fn message(scenario: &Scenario, entry: &Entry) -> (f64, f64) {
    let bytes = match entry.op {
        Op::Atomic => 8.0,
        _ => entry.sizes.clone().sizes().map_or(1.0, |sizes| sizes.mean()),
    };
    let packets = (bytes / f64::from(entry.mtu)).ceil().max(1.0);
    (8.0 * (bytes + OVERHEAD * packets) * bit_ns(scenario), packets)
}

/// Nanoseconds for which what a host sends waits in its transmit ring behind data of other entries.
fn ring(scenario: &Scenario, entry: &Entry, host: usize) -> f64 {
    let sends = |other: &Entry| if other.op.has_response() { other.to } else { other.from };
    let others =
        scenario.workload.iter().filter(|other| !std::ptr::eq(*other, entry) && sends(other) == host);
    let waits = |other: &Entry| {
        let (wire, packets) = message(scenario, other);
        let under_way = f64::from(other.qps) * f64::from(other.depth) * packets;
        under_way.min(scenario.host.tx_ring.into()) * wire / packets
    };
    others.map(waits).sum()
}

/// Nanoseconds from a packet to its acknowledgement. Acknowledgements wait behind data of the host
/// that sends them.
fn round_trip(scenario: &Scenario, entry: &Entry) -> f64 {
    let packet = 8.0 * (f64::from(entry.mtu) + OVERHEAD) * bit_ns(scenario);
    let rings = ring(scenario, entry, entry.to) + ring(scenario, entry, entry.from);
    rings + 4.0 * f64::from(scenario.link.delay_ns) + 8.0 * f64::from(scenario.host.turn_ns) + 3.0 * packet
}

/// Requests that link, window and depth allow, if entries that share a link share it evenly.
fn expected_requests(scenario: &Scenario, entry: &Entry) -> f64 {
    let (wire, packets) = message(scenario, entry);
    let rtt = round_trip(scenario, entry);
    let uses = |other: &&Entry| other.to == entry.to || other.from == entry.from || other.op.has_response();
    let sharing = scenario.workload.iter().filter(uses).count();
    // Batches and rare completions leave places of the queue empty.
    let unused = (entry.batch.min(entry.depth) - 1).max(entry.signaled - 1);
    let mut depth = entry.depth - unused.min(entry.depth - 1);
    if entry.op.has_response() {
        depth = depth.min(READS);
    }
    let (qps, depth) = (f64::from(entry.qps), f64::from(depth));
    let by_link = 1.0 / (wire * f64::from(u32::try_from(sharing).unwrap_or(1)));
    let by_depth = qps * depth / (rtt * (packets / f64::from(entry.window)).max(1.0) + depth * wire);
    let by_window = qps * f64::from(entry.window) / packets / (rtt + wire);
    let time = f64::from(scenario.time_us) * 1000.0 - f64::from(entry.start_us) * 1000.0 - 2.0 * rtt;
    time.max(0.0) * by_link.min(by_depth).min(by_window)
}

/// Nanoseconds within which one request of all must have completed.
fn slowest_first(scenario: &Scenario, entry: &Entry) -> f64 {
    let (wire, packets) = message(scenario, entry);
    let before: f64 = scenario
        .workload
        .iter()
        .map(|other| {
            let first = f64::from(other.depth.min(GRANT.max(other.signaled)));
            f64::from(other.qps) * first * message(scenario, other).0
        })
        .sum();
    let rounds = (packets / f64::from(entry.window)).ceil();
    2.0 * (before + rounds * round_trip(scenario, entry) + f64::from(entry.signaled) * wire)
}

/// The names of [`signals`].
pub const SIGNALS: [&str; 20] = [
    "sent again a packet",
    "out of order a packet",
    "twice a packet",
    "acknowledgements a packet",
    "recoveries a packet",
    "probes a packet",
    "no receive a packet",
    "small WRITEs parked a packet",
    "records lost",
    "full transmit rings a turn",
    "grants a packet",
    "doorbells a packet",
    "packets a turn",
    "packets a request",
    "bytes a packet",
    "responses a packet",
    "frames that wait",
    "latency in round trips",
    "spread of latencies",
    "goodput below what is possible",
];

/// What a search follows: counters of the engines and links as shares, and performance beside what
/// is possible. Larger is nearer to trouble.
#[must_use]
pub fn signals(scenario: &Scenario, outcome: &Outcome) -> Vec<f64> {
    let counters = &outcome.counters;
    let packets = as_float((counters.tx_requests + counters.tx_responses + counters.tx_unreliable).max(1));
    let turns = as_float(outcome.turns.max(1));
    let a_packet = |count: u64| as_float(count) / packets;
    let requests: u64 = outcome.entries.iter().map(|told| told.requests).sum();
    let longest_queue = outcome.links.iter().flatten().map(|link| link.queue_max).max().unwrap_or(0);
    let entries = || scenario.workload.iter().zip(&outcome.entries);
    let worst =
        |of: &dyn Fn(&Entry, &EntryOutcome) -> f64| entries().map(|(e, t)| of(e, t)).fold(0.0, f64::max);
    vec![
        a_packet(counters.tx_retransmits),
        a_packet(counters.rx_out_of_order),
        a_packet(counters.rx_duplicates),
        a_packet(counters.tx_acks),
        a_packet(counters.recoveries),
        a_packet(counters.tx_probes + counters.tail_probes + counters.rto_fired),
        a_packet(counters.rx_rnr_naks),
        a_packet(counters.parked_writes),
        as_float(counters.records_lost),
        as_float(counters.tx_ring_full) / turns,
        a_packet(counters.sched_grants),
        a_packet(counters.doorbells),
        packets / turns,
        packets / as_float(requests.max(1)),
        as_float(outcome.on_links(|link| link.delivered_bytes)) / packets,
        a_packet(counters.tx_responses),
        as_float(longest_queue as u64),
        worst(&|entry, told| as_float(told.quantile(0.0)) / round_trip(scenario, entry)),
        worst(&|_, told| as_float(told.quantile(0.99)) / as_float(told.quantile(0.5).max(1))),
        worst(&|entry, told| expected_requests(scenario, entry) / as_float(told.requests.max(1))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::play::{play, play_with};
    use simnet::{LinkId, NodeId, Verdict};

    fn kinds(scenario: &Scenario, outcome: &Outcome) -> Vec<Kind> {
        judge(scenario, outcome).iter().map(|finding| finding.kind).collect()
    }

    fn with(verdict: fn(u64) -> Verdict) -> Vec<Kind> {
        let scenario = Scenario::parse("{workload = [{qps = 4, sizes = 512}]}").expect("a scenario");
        let prepare = move |rig: &mut simnet::Rig| {
            rig.net.set_filter(LinkId::Up(NodeId(0)), Box::new(move |passing| verdict(passing.number)));
        };
        kinds(&scenario, &play_with(&scenario, &prepare).expect("played"))
    }

    #[test]
    fn what_the_network_does_in_secret_is_found() {
        assert_eq!(with(|_| Verdict::Pass), []);
        let lost = with(|number| if number % 10 == 9 { Verdict::Drop } else { Verdict::Pass });
        assert!(lost.contains(&Kind::Resent) && lost.contains(&Kind::Reordered), "{lost:?}");
        assert!(
            with(|number| if number % 4 == 3 { Verdict::Duplicate } else { Verdict::Pass })
                .contains(&Kind::Doubled)
        );
        assert!(
            with(|number| if number % 5 == 4 { Verdict::Delay(9_000) } else { Verdict::Pass })
                .contains(&Kind::Reordered)
        );
        let late = with(|_| Verdict::Delay(60_000));
        assert!(late.contains(&Kind::Late) && late.contains(&Kind::Slow), "{late:?}");
        let dead = with(|number| if number > 300 { Verdict::Drop } else { Verdict::Pass });
        assert!(dead.contains(&Kind::Stuck) || dead.contains(&Kind::Error), "{dead:?}");
    }

    /// What the scenario says is no anomaly.
    #[test]
    fn what_a_scenario_asks_for_is_well() {
        for faults in ["loss = 0.02", "reorder = 0.05", "duplicate = 0.1", "corrupt = 0.02"] {
            let text = format!(
                "{{faults = {{{faults}}}, workload = [{{qps = 4}}, {{op = 'read', from = 1, to = 0}}]}}"
            );
            let scenario = Scenario::parse(&text).expect("a scenario");
            let outcome = play(&scenario).expect("played");
            assert_eq!(judge(&scenario, &outcome), [], "{text}");
            assert_eq!(signals(&scenario, &outcome).len(), SIGNALS.len());
        }
    }
}
