//! One stream of packets, as one capture has it: each packet, how often it was seen, and what its
//! receiver said of it.

use super::flow::Record;
use super::pairing::last_acknowledged;
use std::collections::BTreeMap;
use std::ops::Range;
use wire::{AckFlags, Kind, NakCode, Psn, Syndrome, Transport};

/// Which packets of a direction a stream has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Traffic {
    /// SENDs, WRITEs, READ requests and atomics.
    Requests,
    /// What READs and atomics bring.
    Responses,
}

impl Traffic {
    /// The stream of a packet; `None` of an acknowledgement.
    pub const fn of(record: &Record) -> Option<Self> {
        match record.kind() {
            Kind::Send | Kind::Write | Kind::ReadRequest | Kind::Atomic => Some(Self::Requests),
            Kind::ReadResponse | Kind::AtomicAck => Some(Self::Responses),
            Kind::Ack | Kind::Cnp => None,
        }
    }
}

/// A packet that was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sighting {
    /// Number of the frame.
    pub frame: u64,
    /// When.
    pub at_ns: u64,
    /// Equal if the packets are.
    pub icrc: u32,
    /// Whether it asks for an acknowledgement, as all resends of the dialect do.
    pub ack_req: bool,
    /// Whether its receiver said later that it had no room for it, or wants all again.
    pub refused: bool,
    /// Whether its receiver said that it is missing, since it was seen last.
    pub asked: bool,
}

/// What is known of one PSN.
#[derive(Clone, PartialEq, Debug)]
pub struct Seen {
    /// The first packet that had it.
    pub first: Record,
    /// How many PSNs it takes.
    pub span: i64,
    /// All packets that had it, in order.
    pub sightings: Vec<Sighting>,
    /// Whether a higher one was seen before it.
    pub late: bool,
    /// When its receiver first said that it has it.
    pub covered_ns: Option<u64>,
    /// How often its receiver said that it came once more.
    pub duplicates: usize,
}

/// A stream at one point. PSNs are counted on past 2^24.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct View {
    /// What was seen.
    pub seen: BTreeMap<i64, Seen>,
    /// PSNs that were said to be missing, and when that was last.
    asked: BTreeMap<i64, u64>,
    /// All from here on is new.
    next: Option<i64>,
    /// The first that nobody has acknowledged.
    una: Option<i64>,
    /// Bytes of payload, those of resends included.
    pub bytes: u64,
    /// Packets with CE.
    pub marked: u64,
    /// Marks that the receiver reported since its first acknowledgement.
    pub marks_reported: u64,
    ce_cnt: Option<u16>,
    /// Probes of a connection that is idle.
    pub keepalives: u64,
    /// Times in nanoseconds from a packet to its acknowledgement.
    pub round_trips: Vec<u64>,
    /// What of these the receiver's host took, as it says.
    pub host_delays: Vec<u64>,
    /// Packets outstanding at most.
    pub window: i64,
    /// Number of the frame with which there were so many for the first time.
    pub window_frame: u64,
    /// Acknowledgements by kind: all, "something is missing", "no receive is posted".
    pub acks: u64,
    /// Of these NAKs of a sequence error.
    pub nacks: u64,
    /// Of these RNR NAKs.
    pub rnr_naks: u64,
    /// Waits that RNR NAKs asked for, in nanoseconds.
    pub rnr_wait_ns: u64,
    /// Of these NAKs that end a connection.
    pub error_naks: u64,
    /// Acknowledgements of what nobody has sent.
    pub beyond: Vec<Beyond>,
    /// Frames that had the PSN of another packet, with that PSN.
    pub reused: Vec<(u64, u32)>,
}

/// An acknowledgement of more than was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beyond {
    /// Number of the frame.
    pub frame: u64,
    /// What it names.
    pub psn: u32,
    /// The newest that was sent.
    pub newest: u32,
}

/// Packets that may be outstanding (protocol.md 2.2): no answer speaks of older ones.
const OUTSTANDING_MAX: i64 = 1 << 15;
/// First PSN of a capture, far enough from 0 to go back from.
const ORIGIN: i64 = 1 << 32;

/// The PSN on the wire.
pub fn on_wire(psn: i64) -> u32 {
    u32::try_from(psn & i64::from(Psn::MASK)).unwrap_or(0)
}

/// A PSN that is counted on, near another such.
fn unwrap(psn: Psn, near: i64) -> i64 {
    near + i64::from(psn.distance_from(Psn::new(on_wire(near))))
}

impl View {
    /// Takes a packet of the stream. `pmtu` is the path MTU, if it is known.
    pub fn packet(&mut self, record: &Record, pmtu: Option<u32>) {
        let psn = match self.next {
            Some(near) => unwrap(record.headers.bth.psn, near),
            None => ORIGIN + i64::from(record.headers.bth.psn.get()),
        };
        self.bytes += u64::from(record.payload);
        self.marked += u64::from(record.ce);
        if self.is_keepalive(record, psn) {
            self.keepalives += 1;
            return;
        }
        let home = self.home(psn);
        let before = self.seen.get(&home).and_then(|seen| seen.sightings.last()).map(|last| last.at_ns);
        let asked = self.asked.get(&psn).is_some_and(|at| before.is_none_or(|before| *at >= before));
        let sighting = Sighting {
            frame: record.frame,
            at_ns: record.at_ns,
            icrc: record.icrc,
            ack_req: record.headers.bth.ack_req,
            refused: false,
            asked,
        };
        if let Some(seen) = self.seen.get_mut(&home) {
            if home == psn && !is_same_packet(&seen.first, record) {
                self.reused.push((record.frame, on_wire(psn)));
            }
            seen.sightings.push(sighting);
            return;
        }
        let span = span(record, pmtu);
        let late = self.next.is_some_and(|next| psn < next);
        let seen =
            Seen { first: *record, span, sightings: vec![sighting], late, covered_ns: None, duplicates: 0 };
        self.seen.insert(psn, seen);
        self.next = Some(self.next.unwrap_or(psn).max(psn + span));
        let una = *self.una.get_or_insert(psn);
        if psn + span - una > self.window {
            (self.window, self.window_frame) = (psn + span - una, record.frame);
        }
    }

    /// The packet that a PSN belongs to: itself, or the READ of which it asks for the rest.
    fn home(&self, psn: i64) -> i64 {
        let before = self.seen.range(..=psn).next_back();
        before.filter(|(first, seen)| psn < *first + seen.span).map_or(psn, |(first, _)| *first)
    }

    /// A WRITE of nothing to nowhere, of a PSN that was sent already (protocol.md 2.4).
    fn is_keepalive(&self, record: &Record, psn: i64) -> bool {
        let nowhere = record.headers.reth.is_some_and(|reth| reth.va == 0 && reth.rkey == 0);
        let old = self.una.is_none_or(|una| psn < una);
        record.kind() == Kind::Write && record.payload == 0 && nowhere && old
    }

    /// Takes an acknowledgement of the stream, or an answer that is one.
    pub fn answer(&mut self, record: &Record) {
        let psn = record.headers.bth.psn;
        let syndrome = record.headers.aeth.map(|aeth| aeth.syndrome);
        let (Some(near), Some(syndrome)) = (self.next, syndrome) else { return };
        let is_ack = record.kind() == Kind::Ack;
        let cumulative = if is_ack { last_acknowledged(psn, syndrome) } else { psn };
        let cumulative = unwrap(cumulative, near);
        let newest = near - 1;
        self.acks += u64::from(is_ack);
        if cumulative > newest {
            let beyond = Beyond { frame: record.frame, psn: on_wire(cumulative), newest: on_wire(newest) };
            return self.beyond.push(beyond);
        }
        self.note_duplicate(record, cumulative);
        self.note_round_trip(record, cumulative);
        self.cover(self.una.unwrap_or(near)..cumulative + 1, record.at_ns);
        self.una = self.una.map(|una| una.max(cumulative + 1));
        self.note_marks(record);
        match syndrome {
            Syndrome::RnrNak { timer } => {
                self.rnr_naks += 1;
                self.rnr_wait_ns += wire::rnr_timer_ns(timer);
                self.refuse(cumulative + 1, record.at_ns);
            }
            Syndrome::Nak(NakCode::PsnSequence) => self.nack(record, cumulative + 1),
            Syndrome::Nak(_) => self.error_naks += 1,
            Syndrome::Ack { .. } | Syndrome::Reserved(_) => {}
        }
    }

    fn nack(&mut self, record: &Record, epsn: i64) {
        self.nacks += 1;
        let said = record.headers.ackx.filter(|ackx| ackx.flags.contains(AckFlags::SACK_VALID));
        let Some(said) = said else { return self.refuse(epsn, record.at_ns) };
        let sack = unwrap(said.sack_psn, epsn);
        let Some(next) = self.next else { return };
        if sack < epsn || sack >= next {
            return;
        }
        self.cover(sack..sack + 1, record.at_ns);
        if let Some(bits) = record.headers.sackb {
            let backward = said.flags.contains(AckFlags::BACKWARD);
            for bit in (0..64_i64).filter(|bit| bits >> bit & 1 != 0) {
                let psn = if backward { sack - 1 - bit } else { epsn + 1 + bit };
                self.cover(psn..psn + 1, record.at_ns);
            }
        }
        self.ask(epsn..sack, record.at_ns);
    }

    /// What is in `range` and was not said to have arrived is missing.
    fn ask(&mut self, range: Range<i64>, at_ns: u64) {
        let oldest = range.end - OUTSTANDING_MAX;
        for psn in range.start.max(oldest)..range.end {
            if self.seen.get(&psn).is_none_or(|seen| seen.covered_ns.is_none()) {
                self.asked.insert(psn, at_ns);
            }
        }
    }

    /// The receiver has no room for what is from `psn` on, or wants all of it again.
    fn refuse(&mut self, psn: i64, at_ns: u64) {
        for (_, seen) in self.seen.range_mut(psn..) {
            if seen.covered_ns.is_none() {
                seen.sightings.iter_mut().for_each(|sighting| sighting.refused = true);
            }
        }
        if let Some(next) = self.next {
            self.ask(psn..next, at_ns);
        }
    }

    fn cover(&mut self, range: Range<i64>, at_ns: u64) {
        if range.is_empty() {
            return;
        }
        for (_, seen) in self.seen.range_mut(range) {
            seen.covered_ns.get_or_insert(at_ns);
        }
    }

    /// In the dialect an acknowledgement of a packet that was received before names it by its META.
    /// In standard RoCEv2 it is one that says nothing new.
    fn note_duplicate(&mut self, record: &Record, cumulative: i64) {
        let (Some(next), Some(una)) = (self.next, self.una) else { return };
        let Some(ackx) = record.headers.ackx else {
            let is_ack = matches!(record.headers.aeth.map(|aeth| aeth.syndrome), Some(Syndrome::Ack { .. }));
            if is_ack && record.kind() == Kind::Ack && cumulative < una {
                self.seen.entry(cumulative).and_modify(|seen| seen.duplicates += 1);
            }
            return;
        };
        if !ackx.flags.contains(AckFlags::DUPLICATE | AckFlags::META_VALID) {
            return;
        }
        let of = record.headers.meta;
        let mut newest = self.seen.range_mut(next - OUTSTANDING_MAX..).rev();
        if let Some((_, seen)) = newest.find(|(_, seen)| seen.first.headers.meta == of) {
            seen.duplicates += 1;
        }
    }

    /// The last packet that this acknowledges, if it is new and went once.
    fn note_round_trip(&mut self, record: &Record, cumulative: i64) {
        let Some(seen) = self.seen.get(&cumulative) else { return };
        if seen.covered_ns.is_some() || seen.sightings.len() != 1 {
            return;
        }
        self.round_trips.push(record.at_ns.saturating_sub(seen.sightings[0].at_ns));
        self.host_delays.extend(record.headers.ackx.map(|ackx| u64::from(ackx.ack_delay_ns())));
    }

    fn note_marks(&mut self, record: &Record) {
        let Some(ackx) = record.headers.ackx else { return };
        let before = *self.ce_cnt.get_or_insert(ackx.ce_cnt);
        let more = ackx.ce_cnt.wrapping_sub(before);
        // What is older than another was overtaken.
        if more < 1 << 15 {
            self.marks_reported += u64::from(more);
            self.ce_cnt = Some(ackx.ce_cnt);
        }
    }

    /// Packets, resends included.
    pub fn packets(&self) -> u64 {
        self.seen.values().map(|seen| seen.sightings.len() as u64).sum()
    }

    /// The shortest time from a packet to its acknowledgement.
    pub fn round_trip_min(&self) -> u64 {
        self.round_trips.iter().min().copied().unwrap_or(0)
    }
}

/// Whether one is a copy of the other, sent again. What answers a READ of standard RoCEv2 may be
/// cut into other packets when it is asked for again.
fn is_same_packet(one: &Record, other: &Record) -> bool {
    let essence = |record: &Record| {
        let headers = &record.headers;
        (headers.bth.opcode, headers.meta, headers.ssnw, headers.rdw, headers.reth, record.payload)
    };
    essence(one) == essence(other) || (one.kind() == Kind::ReadResponse && !one.is_srnic())
}

/// PSNs that a packet takes: a READ of standard RoCEv2 takes those of its response (protocol.md
/// 1.6).
fn span(record: &Record, pmtu: Option<u32>) -> i64 {
    match (record.kind(), record.headers.reth, pmtu) {
        (Kind::ReadRequest, Some(reth), Some(pmtu)) if !record.is_srnic() => {
            i64::from(reth.dma_len.div_ceil(pmtu).max(1))
        }
        _ => 1,
    }
}

/// Whether a stream's packets are acknowledged.
pub fn is_acknowledged(traffic: Traffic, record: &Record) -> bool {
    record.transport() == Transport::Rc && (traffic == Traffic::Requests || record.is_srnic())
}
