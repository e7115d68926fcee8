//! What a queue pair may touch while it handles one event.

use crate::defects::Defect;
use crate::oracle::Oracle;
use crate::packet::{Ack, AckKind, Body, Packet, Side};
use crate::rx::RxStream;
use crate::schedule::Schedule;
use crate::slow_path::{SlowPath, StreamId};
use crate::tx::TxStream;
use wire::serial::Psn;

/// The surroundings of queue pair `qp` of host `host`.
#[derive(Debug)]
pub struct Cx<'a> {
    /// Ticks since the start.
    pub now: u64,
    /// Parameters.
    pub schedule: &'a Schedule,
    /// The mutant, if this is one.
    pub defect: Option<Defect>,
    /// The host's slow path.
    pub slow: &'a mut SlowPath,
    /// Free WQEs of the host's shared receive queue.
    pub srq: &'a mut u32,
    /// Packets to send.
    pub out: &'a mut Vec<Packet>,
    /// The judge.
    pub oracle: &'a mut Oracle,
    /// This host.
    pub host: usize,
    /// This queue pair.
    pub qp: usize,
}

impl Cx<'_> {
    /// Is the rule broken in this run?
    #[must_use]
    pub fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    /// The receiving stream `side` of this queue pair.
    #[must_use]
    pub fn stream(&self, side: Side) -> StreamId {
        StreamId { qp: self.qp, side }
    }

    /// Sends a packet to the peer.
    pub fn send(&mut self, psn: Psn, body: Body) {
        self.out.push(Packet { qp: self.qp, psn, body });
    }

    /// An ACK or NACK of what `tx` has sent: the fast path takes the cumulative part, and the rest
    /// goes the way of the slow path if the scoreboard lives there.
    pub fn read_ack(&mut self, tx: &mut TxStream, psn: Psn, ack: &Ack) {
        let fresh = tx.on_ack(psn, ack, self.now);
        if fresh && self.schedule.slow_scoreboard {
            self.slow.push_evidence(self.qp, psn, ack);
        } else if fresh {
            tx.on_evidence(psn, ack);
        }
    }

    /// Acknowledges what is in order; `duplicate` is the PSN of the duplicate that asked for it.
    pub fn send_ack(&mut self, side: Side, rx: &mut RxStream, duplicate: Option<Psn>) {
        rx.unacked = 0;
        rx.flush_at = None;
        let ack = Ack { side, kind: AckKind::Ack, sack: None, bitmap: 0, duplicate };
        self.send(rx.epsn.prev(), Body::Ack(ack));
    }

    /// NACK(epsn); without `sack` it asks for everything.
    pub fn send_nack(&mut self, side: Side, rx: &mut RxStream, sack: Option<Psn>, bitmap: u64) {
        rx.unacked = 0;
        rx.flush_at = None;
        if let Some(psn) = sack {
            self.oracle.on_sack(self.host, self.stream(side), psn, bitmap, rx.epsn);
        }
        let ack = Ack { side, kind: AckKind::Nack, sack, bitmap, duplicate: None };
        self.send(rx.epsn, Body::Ack(ack));
    }

    /// A packet is dropped without SACK; `full` if for lack of room for its metadata.
    pub fn drop_unsacked(&mut self, side: Side, rx: &mut RxStream, psn: Psn, full: bool) {
        rx.dropped = true;
        self.oracle.on_dropped(self.host, self.stream(side), full || psn == rx.epsn);
    }

    /// RNR NAK or error NAK of the request stream.
    pub fn send_refusal(&mut self, psn: Psn, kind: AckKind) {
        if kind == AckKind::Rnr {
            self.oracle.on_rnr(self.host, self.stream(Side::Request), psn, self.now);
        }
        let ack = Ack { side: Side::Request, kind, sack: None, bitmap: 0, duplicate: None };
        self.send(psn, Body::Ack(ack));
    }
}
