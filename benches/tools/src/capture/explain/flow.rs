//! Packets by where they go.

use std::collections::BTreeMap;
use std::net::IpAddr;
use wire::{Datagram, Ecn, Kind, Packet, Repr, Transport, WireMode};

/// Packets from one host to one queue pair of another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowKey {
    /// Who sends.
    pub src: IpAddr,
    /// Who receives.
    pub dst: IpAddr,
    /// The receiver's queue pair.
    pub qpn: u32,
}

/// A packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// Its number in its capture, from 1 on.
    pub frame: u64,
    /// When, in nanoseconds of that capture's clock.
    pub at_ns: u64,
    /// Whether it is marked CE.
    pub ce: bool,
    /// Whether it may be marked.
    pub ecn_capable: bool,
    /// UDP source port.
    pub src_port: u16,
    /// All headers.
    pub headers: Repr,
    /// Bytes of payload.
    pub payload: u32,
    /// Tells packets apart that differ in anything which does not change on the way.
    pub icrc: u32,
}

impl Record {
    /// What is kept of a packet.
    pub fn of(frame: u64, at_ns: u64, datagram: &Datagram, packet: &Packet<'_>) -> (FlowKey, Self) {
        let key = FlowKey { src: datagram.src, dst: datagram.dst, qpn: packet.dest_qp() };
        let record = Self {
            frame,
            at_ns,
            ce: datagram.ecn == Ecn::Ce,
            ecn_capable: datagram.ecn != Ecn::NotEct,
            src_port: datagram.src_port,
            headers: Repr::parse(packet),
            payload: u32::try_from(packet.payload().len()).unwrap_or(u32::MAX),
            icrc: packet.icrc(),
        };
        (key, record)
    }

    /// Its kind.
    pub const fn kind(&self) -> Kind {
        self.headers.bth.opcode.kind()
    }

    /// Its service.
    pub const fn transport(&self) -> Transport {
        self.headers.bth.opcode.transport()
    }

    /// Whether it is of the SRNIC dialect.
    pub fn is_srnic(&self) -> bool {
        self.headers.mode == WireMode::Srnic
    }
}

/// The packets of a capture, in order.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    /// All packets, with where they go.
    pub all: Vec<(FlowKey, Record)>,
    by_key: BTreeMap<FlowKey, Vec<usize>>,
}

impl Flows {
    /// Takes a packet in.
    pub fn add(&mut self, key: FlowKey, record: Record) {
        self.by_key.entry(key).or_default().push(self.all.len());
        self.all.push((key, record));
    }

    /// Packets of one flow, in order.
    pub fn of(&self, key: FlowKey) -> impl Iterator<Item = &Record> {
        self.by_key.get(&key).into_iter().flatten().filter_map(|index| self.all.get(*index)).map(|(_, r)| r)
    }

    /// Packets of two flows, in order; `true` for those of the first.
    pub fn of_both(&self, one: FlowKey, other: Option<FlowKey>) -> Vec<(bool, &Record)> {
        let mut both: Vec<(bool, &Record)> = self.of(one).map(|record| (true, record)).collect();
        both.extend(other.into_iter().flat_map(|key| self.of(key)).map(|record| (false, record)));
        both.sort_by_key(|(_, record)| record.frame);
        both
    }
}
