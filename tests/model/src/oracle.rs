//! The judge: it sees both hosts, and says what must hold at each event. The rules never ask it for
//! anything.

use wire::serial::Psn;

use crate::ledger::Ledger;
use crate::packet::{AckKind, Body, Cell, Packet, Side};
use crate::rx::{RxStream, State};
use crate::schedule::Schedule;
use crate::slots::Slot;
use crate::slow_path::{SlowPath, StreamId};
use crate::tx::TxCounters;

pub use crate::ledger::Status;

/// A set of PSNs of one life of a stream.
#[derive(Clone, Copy, Default, Debug)]
struct PsnSet {
    first: Psn,
    bits: [u64; 4],
}

impl PsnSet {
    fn insert(&mut self, psn: Psn) -> bool {
        let at = psn.steps_from(self.first);
        let Some(word) = self.bits.get_mut((at / 64) as usize) else { return false };
        *word |= 1 << (at % 64);
        true
    }

    fn contains(&self, psn: Psn) -> bool {
        let at = psn.steps_from(self.first);
        self.bits.get((at / 64) as usize).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }
}

/// What the judge knows of a receiving stream.
#[derive(Clone, Copy, Default, Debug)]
struct Receipt {
    placed: PsnSet,
    sacked: PsnSet,
}

/// How often a sending stream may repeat itself in a tidy schedule, where nothing but data packets
/// is lost and nothing is late: once per packet that the network or the receiver dropped, and one
/// timeout per loss that no SACK can show.
#[derive(Clone, Copy, Default, Debug)]
struct Budget {
    resends: u32,
    timeouts: u32,
    /// The PSN of the newest RNR NAK, and when it was first sent.
    rnr: Option<(Psn, u64)>,
    /// The PSN after the highest one sent.
    edge: Psn,
    /// The newest epsn of which a NACK without SACK has arrived.
    asked_all: Option<Psn>,
    /// The newest epsn of which an RNR NAK has arrived.
    asked_by_rnr: Option<Psn>,
}

/// Everything known about a run.
#[derive(Clone, Debug)]
pub struct Oracle {
    verdict: Option<String>,
    /// By queue pair, then by the host that posts.
    ledgers: Vec<[Ledger; 2]>,
    /// By host, then by stream.
    receipts: [Vec<Receipt>; 2],
    /// By sending host, then by stream.
    budgets: [Vec<Budget>; 2],
    /// By host: queue pairs whose requests need not be answered in this life.
    requests_excused: [Vec<bool>; 2],
    /// By host: queue pairs whose responses need not arrive in this life.
    responses_excused: [Vec<bool>; 2],
    /// Retries are so few that ordinary losses may use them up.
    retries_short: bool,
    strict: bool,
    window: u32,
    rnr_retry: u32,
    rnr_wait: u64,
}

impl Oracle {
    /// Nothing has happened yet.
    #[must_use]
    pub fn new(schedule: &Schedule) -> Self {
        Self {
            verdict: None,
            ledgers: (0..schedule.qps).map(|_| [Ledger::new(0), Ledger::new(0)]).collect(),
            receipts: [
                vec![Receipt::default(); schedule.qps * 2],
                vec![Receipt::default(); schedule.qps * 2],
            ],
            budgets: [vec![Budget::default(); schedule.qps * 2], vec![Budget::default(); schedule.qps * 2]],
            requests_excused: [vec![false; schedule.qps], vec![false; schedule.qps]],
            responses_excused: [vec![false; schedule.qps], vec![false; schedule.qps]],
            retries_short: schedule.retry_cnt < 7,
            strict: schedule.strict,
            window: schedule.window,
            rnr_retry: schedule.rnr_retry,
            rnr_wait: schedule.rnr_wait,
        }
    }

    /// The first violation.
    #[must_use]
    pub fn verdict(&self) -> Option<&str> {
        self.verdict.as_deref()
    }

    /// Something is wrong.
    pub fn fail(&mut self, what: String) {
        self.verdict.get_or_insert(what);
    }

    /// The ledger of what `host` posts on `qp`.
    pub fn ledger(&mut self, host: usize, qp: usize) -> &mut Ledger {
        &mut self.ledgers[qp][host]
    }

    /// A new life of the direction in which `host` posts begins.
    pub fn begin_life(&mut self, host: usize, qp: usize, tag: u64) {
        self.ledgers[qp][host] = Ledger::new(tag);
        self.requests_excused[host][qp] = self.retries_short;
        self.responses_excused[host][qp] = self.retries_short;
    }

    /// A receiving stream starts at `first`.
    pub fn begin_stream(&mut self, host: usize, stream: StreamId, first: Psn) {
        let empty = PsnSet { first, bits: [0; 4] };
        self.receipts[host][stream.index()] = Receipt { placed: empty, sacked: empty };
        self.budgets[1 - host][stream.index()] = Budget { edge: first, ..Budget::default() };
    }

    /// A blackout: nobody on `qp` need be answered.
    pub fn excuse_all(&mut self, qp: usize) {
        for host in 0..2 {
            self.requests_excused[host][qp] = true;
            self.responses_excused[host][qp] = true;
        }
    }

    /// `host` no longer acknowledges responses on `qp`, nor requests, unless it still answers them
    /// with an error NAK.
    pub fn excuse_peer_of(&mut self, host: usize, qp: usize, answers_requests: bool) {
        self.requests_excused[1 - host][qp] |= !answers_requests;
        self.responses_excused[1 - host][qp] = true;
    }

    /// The responder of `host` gave up.
    pub fn on_responses_given_up(&mut self, host: usize, qp: usize) {
        if !self.responses_excused[host][qp] {
            self.fail(format!("host {host} qp {qp}: responses given up without a reason"));
        }
    }

    /// The network lost a data packet of `host`.
    pub fn on_lost(&mut self, host: usize, stream: StreamId) {
        let budget = &mut self.budgets[host][stream.index()];
        budget.resends += 1;
        budget.timeouts += 1;
    }

    /// `host` dropped a data packet that it might have taken later; `silently` if no NACK of a
    /// later Recovery can tell.
    pub fn on_dropped(&mut self, host: usize, stream: StreamId, silently: bool) {
        let budget = &mut self.budgets[1 - host][stream.index()];
        budget.resends += 1;
        budget.timeouts += u32::from(silently);
    }

    /// `host` sends an RNR NAK.
    pub fn on_rnr(&mut self, host: usize, stream: StreamId, epsn: Psn, now: u64) {
        let budget = &mut self.budgets[1 - host][stream.index()];
        if budget.rnr.is_none_or(|(psn, _)| psn != epsn) {
            budget.rnr = Some((epsn, now));
        }
    }

    /// `host` hands a packet to the network.
    pub fn on_sent(&mut self, host: usize, packet: &Packet) {
        let side = match packet.body {
            Body::Request(_) => Side::Request,
            Body::Response(_) => Side::Response,
            Body::Ack(_) => return,
        };
        let budget = &mut self.budgets[host][StreamId { qp: packet.qp, side }.index()];
        if budget.edge.is_before(packet.psn.next()) {
            budget.edge = packet.psn.next();
        }
    }

    /// A packet arrives at `host`. The first NACK without SACK, or RNR NAK, of an epsn allows it to
    /// repeat all that it has sent since; what comes again does not.
    pub fn on_delivered(&mut self, host: usize, packet: &Packet) {
        let Body::Ack(ack) = packet.body else { return };
        let budget = &mut self.budgets[host][StreamId { qp: packet.qp, side: ack.side }.index()];
        let last = match ack.kind {
            AckKind::Nack if ack.sack.is_none() => &mut budget.asked_all,
            AckKind::Rnr => &mut budget.asked_by_rnr,
            _ => return,
        };
        if last.is_none_or(|last| last.is_before(packet.psn)) {
            *last = Some(packet.psn);
            budget.resends += budget.edge.steps_from(packet.psn);
        }
    }

    /// At the end of a tidy schedule: nobody repeated himself without a reason.
    pub fn judge_cost(&mut self, host: usize, stream: StreamId, counters: &TxCounters) {
        let budget = self.budgets[host][stream.index()];
        let late = counters.timeouts > budget.timeouts && !self.strict;
        if counters.resent > budget.resends + counters.amnesty || late {
            self.fail(format!("host {host} {stream:?}: {counters:?} for {budget:?}"));
        }
    }

    /// A packet was placed.
    pub fn on_placed(&mut self, host: usize, stream: StreamId, psn: Psn) {
        if !self.receipts[host][stream.index()].placed.insert(psn) {
            self.fail(format!("host {host} {stream:?} placed psn {psn}, which nobody sent"));
        }
    }

    /// A NACK with SACKs leaves.
    pub fn on_sack(&mut self, host: usize, stream: StreamId, psn: Psn, bitmap: u64, epsn: Psn) {
        let above = (0..64).filter(|i| bitmap >> i & 1 == 1).map(|i| epsn.add(1 + i));
        for psn in std::iter::once(psn).chain(above) {
            let receipt = &mut self.receipts[host][stream.index()];
            let placed = receipt.placed.contains(psn);
            receipt.sacked.insert(psn);
            if !placed {
                self.fail(format!("host {host} {stream:?} SACKs psn {psn}, which it does not have"));
            }
        }
    }

    /// epsn moved: all below it must be here.
    pub fn on_epsn(&mut self, host: usize, stream: StreamId, old: Psn, new: Psn) {
        let steps = new.distance_from(old);
        let bound = i32::try_from(self.window).expect("small");
        if !(0..=bound).contains(&steps) {
            return self.fail(format!("host {host} {stream:?} epsn {old} -> {new}"));
        }
        let placed = &self.receipts[host][stream.index()].placed;
        let missing = (0..steps.unsigned_abs()).map(|i| old.add(i)).find(|psn| !placed.contains(*psn));
        if let Some(psn) = missing {
            self.fail(format!("host {host} {stream:?} epsn {old} -> {new}, psn {psn} missing"));
        }
    }

    /// No SACKed packet is forgotten, and an idle slow path leaves epsn at a real hole.
    pub fn check_recovery(&mut self, host: usize, stream: StreamId, rx: &RxStream, slow: &SlowPath) {
        let receipt = self.receipts[host][stream.index()];
        for psn in (0..self.window).map(|i| rx.epsn.add(i)).filter(|psn| receipt.sacked.contains(*psn)) {
            let in_run = psn.steps_from(rx.left) <= rx.right.steps_from(rx.left);
            let known = rx.state == State::Recovery && (in_run || slow.knows(stream, rx.gen_no, psn));
            if !known {
                self.fail(format!("host {host} {stream:?} forgets psn {psn}, which it has SACKed"));
            }
        }
        let stuck = rx.state == State::Recovery && slow.is_idle(stream) && receipt.placed.contains(rx.epsn);
        if stuck {
            self.fail(format!("host {host} {stream:?} stays in Recovery at {}, which it has", rx.epsn));
        }
    }

    /// The responder executed a message that `poster` posted.
    pub fn on_emission(&mut self, poster: usize, qp: usize, slot: &Slot, memory: &mut [Cell]) {
        if let Err(what) = self.ledgers[qp][poster].on_emission(slot, memory) {
            self.fail(format!("requests of host {poster} qp {qp}: {what}"));
        }
    }

    /// The requester on `host` completed a message.
    pub fn on_completion(&mut self, host: usize, qp: usize, status: Status, now: u64, local: &mut [Cell]) {
        let excused = match status {
            Status::RetryExceeded => self.requests_excused[host][qp],
            Status::RnrRetryExceeded => {
                let first = self.budgets[host][StreamId { qp, side: Side::Request }.index()].rnr;
                let waits = u64::from(self.rnr_retry) * self.rnr_wait;
                self.rnr_retry != 7 && first.is_some_and(|(_, first)| now >= first + waits)
            }
            _ => true,
        };
        if !excused {
            self.fail(format!("host {host} qp {qp}: {status:?} without a reason"));
        }
        if let Err(what) = self.ledgers[qp][host].on_completion(status, local) {
            self.fail(format!("host {host} qp {qp}: {what}"));
        }
    }
}
