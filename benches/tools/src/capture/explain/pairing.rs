//! Which two flows are the two directions of one connection. A packet names the queue pair of its
//! receiver alone; an acknowledgement fits the flow whose packets it acknowledges.

use super::flow::{FlowKey, Flows, Record};
use std::collections::{BTreeMap, BTreeSet};
use wire::{AckFlags, Kind, NakCode, Psn, Syndrome, Transport};

/// A flow, and the other direction if it was found.
pub type Pair = (FlowKey, Option<FlowKey>);

/// Packets that may lie between what is acknowledged and the newest request.
const BETWEEN_MAX: i32 = 1 << 14;

/// The PSN up to which an answer says that requests have arrived; `None` if it says nothing of
/// requests.
pub fn cumulative(record: &Record) -> Option<Psn> {
    let psn = record.headers.bth.psn;
    match (record.kind(), record.headers.aeth.map(|aeth| aeth.syndrome)) {
        (Kind::Ack, _) if is_read_ack(record) => None,
        (Kind::Ack, Some(syndrome)) => Some(last_acknowledged(psn, syndrome)),
        (Kind::ReadResponse | Kind::AtomicAck, _) if !record.is_srnic() => Some(psn),
        _ => None,
    }
}

/// Whether it acknowledges responses.
pub fn is_read_ack(record: &Record) -> bool {
    record.headers.ackx.is_some_and(|ackx| ackx.flags.contains(AckFlags::RESPONSE_STREAM))
}

/// The last PSN that an acknowledgement says has arrived.
pub const fn last_acknowledged(psn: Psn, syndrome: Syndrome) -> Psn {
    match syndrome {
        Syndrome::Nak(NakCode::PsnSequence) | Syndrome::RnrNak { .. } => psn.prev(),
        // What it names was refused, and is not waited for any more.
        Syndrome::Ack { .. } | Syndrome::Nak(_) | Syndrome::Reserved(_) => psn,
    }
}

/// Finds the pairs of all captures, in the order in which flows were first seen.
pub fn pairs(files: &[&Flows]) -> Vec<Pair> {
    let mut finder = Finder::default();
    for file in files {
        finder.newest.clear();
        for (key, record) in &file.all {
            finder.see(*key, record);
        }
    }
    finder.pairs()
}

#[derive(Default)]
struct Finder {
    order: Vec<FlowKey>,
    seen: BTreeSet<FlowKey>,
    partner: BTreeMap<FlowKey, FlowKey>,
    /// The newest request of each flow, and its UDP source port.
    newest: BTreeMap<FlowKey, (Psn, u16)>,
}

impl Finder {
    fn see(&mut self, key: FlowKey, record: &Record) {
        if self.seen.insert(key) {
            self.order.push(key);
        }
        if record.transport() != Transport::Rc {
            return;
        }
        if record.headers.bth.opcode.is_request() {
            let psn = record.headers.bth.psn;
            let (newest, _) = self.newest.entry(key).or_insert((psn, record.src_port));
            if newest.is_before(psn) {
                *newest = psn;
            }
        } else if let Some(psn) = cumulative(record)
            && !self.partner.contains_key(&key)
            && let Some(found) = self.partner_of(key, psn, record.src_port)
        {
            self.partner.insert(key, found);
            self.partner.insert(found, key);
        }
    }

    /// The flow the other way whose newest packet is nearest to what is acknowledged; of several,
    /// one with this source port, as both directions have the same if both ends are srnic's.
    fn partner_of(&self, key: FlowKey, psn: Psn, src_port: u16) -> Option<FlowKey> {
        let others = self.newest.iter().filter(|(other, _)| {
            other.src == key.dst && other.dst == key.src && !self.partner.contains_key(other)
        });
        others
            .map(|(other, (newest, port))| (*port != src_port, newest.distance_from(psn).abs(), *other))
            .filter(|(_, between, other)| *between < BETWEEN_MAX && *other != key)
            .min()
            .map(|(_, _, other)| other)
    }

    fn pairs(&self) -> Vec<Pair> {
        let mut told = BTreeSet::new();
        let mut pairs = Vec::new();
        for key in &self.order {
            let partner = self.partner.get(key).copied();
            if told.insert(*key) {
                told.extend(partner);
                pairs.push((*key, partner));
            }
        }
        pairs
    }
}
