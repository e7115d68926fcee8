//! A connection: two directions, each with its streams, seen at one end or at both.

use super::flow::{FlowKey, Flows, Record};
use super::judge::{self, Event, What};
use super::matching::{Spot, match_up};
use super::pairing::Pair;
use super::records::{Records, answers, path_mtu, view};
use super::rules::{self, Violation};
use super::stream::{Traffic, View, is_acknowledged};
use std::net::IpAddr;
use wire::{Kind, Transport};

/// What is known of a connection.
#[derive(Clone, PartialEq, Debug)]
pub struct Connection {
    /// The direction that was seen first.
    pub forth: FlowKey,
    /// The other one, if an acknowledgement told which it is.
    pub back: Option<FlowKey>,
    /// Whether its packets have the extension words of the dialect.
    pub is_srnic: bool,
    /// Its service: `rc`, `uc`, `ud` or `cnp`.
    pub service: &'static str,
    /// Bytes of payload of a packet that is not the last of its message; `None` if there is none.
    pub pmtu: Option<u32>,
    /// Captures that have it; of more than two the first two count.
    pub captures: usize,
    /// Its streams with packets.
    pub streams: Vec<Stream>,
    /// Rules that were broken, by frame of the capture with most of its packets.
    pub violations: Vec<Violation>,
}

/// What is known of a stream.
#[derive(Clone, PartialEq, Debug)]
pub struct Stream {
    /// Who sends it.
    pub src: IpAddr,
    /// Who receives it.
    pub dst: IpAddr,
    /// What it carries.
    pub traffic: Traffic,
    /// Packets, resends included, at the sender's end if that was captured.
    pub packets: u64,
    /// Bytes of payload, those of resends included.
    pub bytes: u64,
    /// What happened to single packets, by PSN.
    pub events: Vec<Event>,
    /// Packets with CE, at the point that saw most.
    pub marked: u64,
    /// Marks that the receiver reported since its first acknowledgement.
    pub marks_reported: u64,
    /// Probes of an idle connection.
    pub keepalives: u64,
    /// Packets outstanding at most.
    pub window: u64,
    /// Times from a packet to its acknowledgement; `None` if there is none.
    pub round_trip: Option<Quantiles>,
    /// What the receiver's host took of these, as it says.
    pub host_delay: Option<Quantiles>,
    /// Acknowledgements.
    pub acks: u64,
    /// Of these, how many said that something is missing.
    pub nacks: u64,
    /// Of these, how many said that no receive was posted.
    pub rnr_naks: u64,
    /// Waits that they asked for, in nanoseconds.
    pub rnr_wait_ns: u64,
    /// Of these, how many end the connection.
    pub error_naks: u64,
    /// Acknowledgements that did not arrive; `None` if only one end was captured.
    pub acks_lost: Option<u64>,
}

/// Times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quantiles {
    /// The shortest.
    pub min: u64,
    /// The median.
    pub p50: u64,
    /// Of a hundred the longest but one.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}

impl Quantiles {
    fn of(times: &[u64]) -> Option<Self> {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        let at = |percent: usize| sorted.get((sorted.len().saturating_sub(1) * percent) / 100).copied();
        Some(Self { min: at(0)?, p50: at(50)?, p99: at(99)?, max: at(100)? })
    }
}

impl Stream {
    /// How many packets this happened to.
    #[must_use]
    pub fn count(&self, what: What) -> usize {
        self.events.iter().filter(|event| event.what == what).count()
    }

    /// Packets sent again.
    #[must_use]
    pub fn resent(&self) -> usize {
        [What::Needed, What::Refused, What::Needless, What::Unjudged]
            .into_iter()
            .map(|what| self.count(what))
            .sum()
    }
}

/// Explains one connection.
pub fn explain(files: &[&Flows], pair: Pair) -> Connection {
    let (forth, back) = pair;
    let of_file = |file: &&Flows| file.of_both(forth, back).into_iter().map(|(own, r)| (own, *r)).collect();
    let all: Vec<Records> =
        files.iter().map(of_file).filter(|records: &Records| !records.is_empty()).collect();
    let captures = all.len();
    let mut points: Vec<Records> = all.into_iter().take(2).collect();
    let pmtu = points.iter().filter_map(path_mtu).max();
    if points.len() == 2 && is_turned_round(&points, pmtu) {
        points.swap(0, 1);
    }
    let mut streams = Vec::new();
    for forward in [true, false] {
        // The sender's end comes first.
        let ends: Vec<&Records> =
            if forward { points.iter().collect() } else { points.iter().rev().collect() };
        let direction = if forward { Some(forth) } else { back };
        let Some(key) = direction else { continue };
        for traffic in [Traffic::Requests, Traffic::Responses] {
            streams.extend(stream(&ends, key, forward, traffic, pmtu));
        }
    }
    let fullest = points.iter().max_by_key(|records| records.len());
    let first = points.first().and_then(|records| records.first()).map(|(_, record)| record);
    Connection {
        forth,
        back,
        is_srnic: first.is_some_and(Record::is_srnic),
        service: service(first),
        pmtu,
        captures,
        streams,
        violations: fullest.map(|records| rules::check(records, pmtu)).unwrap_or_default(),
    }
}

fn service(first: Option<&Record>) -> &'static str {
    match first.map(Record::transport) {
        Some(Transport::Rc) | None => "rc",
        Some(Transport::Uc) => "uc",
        Some(Transport::Ud) => "ud",
        Some(Transport::Cnp) => "cnp",
    }
}

/// Whether the second capture is that of who sends the first direction: packets come there in
/// order, and the way to the receiver and back is longer.
fn is_turned_round(points: &[Records], pmtu: Option<u32>) -> bool {
    let sum = |point: &Records| {
        let [mut late, mut trip, mut packets] = [0_i64; 3];
        for forward in [true, false] {
            let sign = if forward { 1 } else { -1 };
            for traffic in [Traffic::Requests, Traffic::Responses] {
                let view = view(point, forward, traffic, pmtu);
                late +=
                    sign * i64::try_from(view.seen.values().filter(|seen| seen.late).count()).unwrap_or(0);
                trip -= sign * i64::from(u32::try_from(view.round_trip_min()).unwrap_or(u32::MAX));
                packets -= sign * i64::try_from(view.packets()).unwrap_or(0);
            }
        }
        (late, trip, packets)
    };
    matches!(points, [one, other] if sum(other) < sum(one))
}

fn stream(
    ends: &[&Records],
    key: FlowKey,
    forward: bool,
    traffic: Traffic,
    pmtu: Option<u32>,
) -> Option<Stream> {
    let views: Vec<View> = ends.iter().map(|records| view(records, forward, traffic, pmtu)).collect();
    let sender = views.first()?;
    let record = views.iter().flat_map(|view| view.seen.values()).map(|seen| seen.first).next()?;
    let events = match views.as_slice() {
        // Several queue pairs may send datagrams to one, each with PSNs of its own.
        _ if record.transport() == Transport::Ud => Vec::new(),
        [view] => judge::one(view, is_acknowledged(traffic, &record)),
        [up, down, ..] => judge::two(up, down),
        [] => Vec::new(),
    };
    let most = |of: fn(&View) -> u64| views.iter().map(of).max().unwrap_or(0);
    Some(Stream {
        src: key.src,
        dst: key.dst,
        traffic,
        packets: sender.packets(),
        bytes: sender.bytes,
        events,
        marked: most(|view| view.marked),
        marks_reported: most(|view| view.marks_reported),
        keepalives: most(|view| view.keepalives),
        window: u64::try_from(sender.window).unwrap_or(0),
        round_trip: Quantiles::of(&sender.round_trips),
        host_delay: Quantiles::of(&sender.host_delays),
        acks: most(|view| view.acks),
        nacks: most(|view| view.nacks),
        rnr_naks: most(|view| view.rnr_naks),
        rnr_wait_ns: most(|view| view.rnr_wait_ns),
        error_naks: most(|view| view.error_naks),
        acks_lost: acks_lost(ends, forward, traffic),
    })
}

/// Acknowledgements of the receiver's end that are not at the sender's.
fn acks_lost(ends: &[&Records], forward: bool, traffic: Traffic) -> Option<u64> {
    let [sender, receiver] = ends else { return None };
    let acks = |records: &Records| -> Vec<Spot> {
        let acks = records.iter().filter(|(own, record)| {
            *own != forward && record.kind() == Kind::Ack && answers(record, traffic)
        });
        acks.map(|(_, r)| Spot { frame: r.frame, at_ns: r.at_ns, icrc: r.icrc, psn: 0 }).collect()
    };
    let matched = match_up(&acks(receiver), &acks(sender));
    Some(matched.arrived.iter().filter(|arrived| arrived.is_none()).count() as u64)
}
