//! The requester: the send queue, the request stream that it sends and the response stream that it
//! receives.

use std::collections::VecDeque;

use wire::serial::{Msn, Psn, Ssn};

use crate::context::Cx;
use crate::defects::Defect;
use crate::memory;
use crate::oracle::Status;
use crate::packet::{Ack, AckKind, Answer, Body, Cell, NakCode, Request, Response, Side, Verb};
use crate::receive::{Refusal, Sink};
use crate::rx::RxStream;
use crate::schedule::{Op, Schedule, Verb as OpVerb};
use crate::timers::Patience;
use crate::tx::{Flow, TxStream};

/// A started send-queue entry.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Number of the message in this life.
    index: usize,
    op: Op,
    msn: Msn,
    first_psn: Psn,
    ssn: Option<Ssn>,
    answer: Option<Answer>,
}

impl Entry {
    fn end(&self) -> Psn {
        self.first_psn.add(self.op.packets())
    }
}

/// Why the requester stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It does not.
    Fine,
    /// The queue pair goes to ERR.
    Failed,
}

/// The requester.
#[derive(Clone, Debug)]
pub struct Requester {
    /// Requests.
    pub tx: TxStream,
    /// Responses.
    pub rx: RxStream,
    /// Where READ data and atomic results go.
    pub local: Vec<Cell>,
    tag: u64,
    posted: VecDeque<(usize, Op)>,
    sq: VecDeque<Entry>,
    next_msn: Msn,
    next_ssn: Ssn,
    next_rpsn: Psn,
    answers_started: usize,
    failing: Option<(Psn, Status)>,
    response_at: Option<u64>,
    response_backoff: u64,
    response_patience: Patience,
}

/// The first MSN and SSN of a life.
#[must_use]
pub fn first_numbers(schedule: &Schedule) -> (Msn, Ssn) {
    (Msn::new(0).sub(schedule.below_wrap), Ssn::new(0).sub(schedule.below_wrap))
}

impl Requester {
    /// A requester whose first sPSN and rPSN are `first`.
    #[must_use]
    pub fn new(first: Psn, gen_no: u32, tag: u64, schedule: &Schedule, defect: Option<Defect>) -> Self {
        let (next_msn, next_ssn) = first_numbers(schedule);
        Self {
            tx: TxStream::new(first, schedule, defect),
            rx: RxStream::new(first, schedule.window, gen_no),
            local: vec![memory::UNTOUCHED; memory::LOCAL_LEN],
            tag,
            posted: VecDeque::new(),
            sq: VecDeque::new(),
            next_msn,
            next_ssn,
            next_rpsn: first,
            answers_started: 0,
            failing: None,
            response_at: None,
            response_backoff: schedule.rto * 3,
            response_patience: Patience::new(schedule),
        }
    }

    /// Takes work request number `index`.
    pub fn post(&mut self, index: usize, op: Op) {
        self.posted.push_back((index, op));
    }

    /// A packet that was never sent is ready, were the gates open.
    #[must_use]
    pub fn has_fresh(&self, schedule: &Schedule) -> bool {
        let unfinished = self.sq.back().is_some_and(|entry| self.tx.snd_nxt.is_before(entry.end()));
        unfinished || self.posted.front().is_some_and(|(_, op)| self.may_start(op, schedule))
    }

    fn may_start(&self, op: &Op, schedule: &Schedule) -> bool {
        let answers = self.sq.iter().filter(|entry| entry.answer.is_some()).count();
        op.answers() == 0 || answers < schedule.rd_atomic
    }

    /// Makes sure that the packet at snd_nxt belongs to a started entry.
    fn start_next(&mut self, schedule: &Schedule) {
        if self.sq.back().is_some_and(|entry| self.tx.snd_nxt.is_before(entry.end())) {
            return;
        }
        let Some((index, op)) = self.posted.pop_front() else { return };
        let answer = (op.answers() > 0)
            .then(|| Answer { rslot: self.answers_started % schedule.rd_atomic, start: self.next_rpsn });
        let ssn = op.receives().then_some(self.next_ssn);
        let first_psn = self.tx.snd_nxt;
        self.sq.push_back(Entry { index, op, msn: self.next_msn, first_psn, ssn, answer });
        self.next_msn = self.next_msn.next();
        self.next_ssn = self.next_ssn.add(u32::from(ssn.is_some()));
        self.next_rpsn = self.next_rpsn.add(op.answers());
        self.answers_started += usize::from(answer.is_some());
    }

    /// Sends all that the gates let through.
    pub fn pump(&mut self, cx: &mut Cx<'_>) {
        loop {
            if let Some(psn) = self.tx.resend_lost() {
                self.send(psn, true, cx);
            } else if self.tx.may_send_fresh() && self.has_fresh(cx.schedule) {
                self.start_next(cx.schedule);
                let psn = self.tx.send_fresh(cx.now);
                let last = !self.tx.may_send_fresh() || !self.has_fresh(cx.schedule);
                self.send(psn, last, cx);
            } else {
                break;
            }
        }
        self.watch_responses(cx);
    }

    /// Sends the request packet `psn`.
    pub fn send(&self, psn: Psn, ack_req: bool, cx: &mut Cx<'_>) {
        let found = self.sq.iter().find(|e| psn.steps_from(e.first_psn) < e.op.packets());
        let Some(entry) = found else {
            return cx.oracle.fail(format!("host {} qp {} has no request for psn {psn}", cx.host, cx.qp));
        };
        cx.send(psn, Body::Request(self.packet(entry, psn.steps_from(entry.first_psn), ack_req)));
    }

    fn packet(&self, entry: &Entry, offset: u32, ack_req: bool) -> Request {
        let op = &entry.op;
        let end = offset + 1 == op.packets();
        let at = usize::try_from(offset).expect("small");
        let mut cell = (offset < op.cells).then(|| memory::payload(self.tag, entry.index, offset));
        let answer = entry.answer.unwrap_or(Answer { rslot: 0, start: entry.first_psn });
        let verb = match op.verb {
            OpVerb::Send => Verb::Send { ssn: entry.ssn.unwrap_or_default() },
            OpVerb::Write => {
                Verb::Write { addr: memory::write_target(entry.index) + at, imm: entry.ssn.filter(|_| end) }
            }
            OpVerb::Flag(flag) => {
                cell = Some(entry.index as Cell + 1);
                Verb::Write { addr: flag, imm: entry.ssn }
            }
            OpVerb::Read => {
                cell = None;
                Verb::Read { addr: read_source(entry.index), n: op.cells, answer }
            }
            OpVerb::ReadFlag(flag) => {
                cell = None;
                Verb::Read { addr: flag, n: 1, answer }
            }
            OpVerb::FetchAdd => {
                cell = None;
                Verb::FetchAdd { addr: memory::COUNTER, answer }
            }
        };
        Request { msn: entry.msn, offset, end, ack_req, bad_key: op.bad_at == Some(offset), cell, verb }
    }

    /// An acknowledgement of the request stream.
    pub fn on_ack(&mut self, psn: Psn, ack: &Ack, cx: &mut Cx<'_>) -> Outcome {
        match ack.kind {
            AckKind::Ack | AckKind::Nack => {
                cx.read_ack(&mut self.tx, psn, ack);
            }
            AckKind::Rnr | AckKind::Error(_) if !self.tx.accepts(ack.cumulative(psn)) => {}
            AckKind::Rnr => {
                self.tx.retire(psn, cx.now);
                if !self.tx.on_rnr(psn, cx.now) {
                    self.fail_at(psn, Status::RnrRetryExceeded);
                }
            }
            AckKind::Error(code) if psn.is_before(self.tx.snd_nxt) => {
                self.tx.retire(psn, cx.now);
                self.fail_at(
                    psn,
                    match code {
                        NakCode::InvalidRequest => Status::RemoteInvalidRequest,
                        NakCode::RemoteAccess => Status::RemoteAccess,
                    },
                );
            }
            AckKind::Error(_) => {}
        }
        self.complete(cx)
    }

    /// Everything before `psn` completes normally, its message with `status`, the rest is flushed.
    fn fail_at(&mut self, psn: Psn, status: Status) {
        self.failing = Some((psn, status));
        self.tx.stop();
    }

    /// Completes the head of the send queue as long as it is done.
    pub fn complete(&mut self, cx: &mut Cx<'_>) -> Outcome {
        while let Some(head) = self.sq.front().copied() {
            let fails_here =
                self.failing.filter(|(psn, _)| psn.steps_from(head.first_psn) < head.op.packets());
            if let Some((_, status)) = fails_here {
                self.flush(status, cx);
                return Outcome::Failed;
            }
            let sent = !self.tx.una.is_before(head.end());
            let answered =
                head.answer.is_none_or(|a| !self.rx.epsn.is_before(a.start.add(head.op.answers())));
            if !sent || !answered {
                break;
            }
            self.sq.pop_front();
            cx.oracle.on_completion(cx.host, cx.qp, Status::Success, cx.now, &mut self.local);
        }
        Outcome::Fine
    }

    /// ERR: the oldest message gets `status`, the others are flushed.
    pub fn flush(&mut self, status: Status, cx: &mut Cx<'_>) {
        let n = self.sq.len() + self.posted.len();
        for i in 0..n {
            let status = if i == 0 { status } else { Status::Flushed };
            cx.oracle.on_completion(cx.host, cx.qp, status, cx.now, &mut self.local);
        }
        self.sq.clear();
        self.posted.clear();
        self.tx.stop();
        self.response_at = None;
    }

    /// True if only responses are missing.
    fn waits_for_responses(&self) -> bool {
        let idle = self.tx.outstanding() == 0 || self.tx.flow == Flow::Stopped;
        idle && self.sq.front().is_some_and(|head| head.answer.is_some())
    }

    /// Starts or stops the response timer.
    pub fn watch_responses(&mut self, cx: &Cx<'_>) {
        if !self.waits_for_responses() || cx.has(Defect::NoResponseTimer) {
            self.response_at = None;
        } else if self.response_at.is_none() {
            self.response_patience.restart(cx.now);
            self.response_backoff = cx.schedule.rto * 3;
            self.response_at = Some(cx.now + self.response_backoff);
        }
    }

    /// When the response timer or its patience ends.
    #[must_use]
    pub fn response_deadline(&self) -> Option<u64> {
        let patience = self.response_patience.deadline().unwrap_or(u64::MAX);
        self.response_at.map(|at| at.min(patience))
    }

    /// Asks again for missing responses. False if the retries are used up.
    pub fn poll_response_timer(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(at) = self.response_at else { return true };
        if !self.response_patience.is_left(cx.now) {
            return false;
        }
        if at <= cx.now {
            let limit = cx.schedule.patience.unwrap_or(cx.schedule.rto * 64);
            self.response_backoff = (self.response_backoff * 2).min(limit);
            self.response_at = Some(cx.now + self.response_backoff);
            if let Some(head) = self.sq.front() {
                self.send(head.first_psn, true, cx);
            }
        }
        true
    }

    /// A packet came from the peer.
    pub fn hear(&mut self) {
        self.tx.timers.patience.hear();
        self.response_patience.hear();
    }

    /// Nothing is left to do.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.sq.is_empty() && self.posted.is_empty() && self.tx.outstanding() == 0
    }
}

/// Where READ number `index` reads.
#[must_use]
pub const fn read_source(index: usize) -> usize {
    memory::SOURCE + index % (memory::SOURCE_LEN / 2)
}

impl Sink for Requester {
    type Item = Response;
    const SIDE: Side = Side::Response;

    fn rx(&mut self) -> &mut RxStream {
        &mut self.rx
    }

    fn ack_requested(item: &Response) -> bool {
        item.ack_req
    }

    fn fits(&self, psn: Psn, item: &Response) -> bool {
        self.sq.iter().any(|entry| {
            entry.msn == item.msn
                && entry.answer.is_some_and(|answer| {
                    let offset = psn.steps_from(answer.start);
                    answer.rslot == item.rslot && offset == item.offset && offset < entry.op.answers()
                })
        })
    }

    fn refusal(&self, _item: &Response, _cx: &Cx<'_>) -> Option<Refusal> {
        None
    }

    fn raise(&mut self, _refusal: Refusal, _cx: &mut Cx<'_>) {}

    fn has_refused(&self) -> bool {
        false
    }

    fn place(&mut self, _psn: Psn, item: &Response, _in_order: bool, cx: &mut Cx<'_>) {
        let entry = self.sq.iter().find(|entry| entry.msn == item.msn);
        if let (Some(entry), Some(cell)) = (entry, item.cell) {
            self.local[memory::local_buffer(entry.index) + usize::try_from(item.offset).expect("small")] =
                cell;
        }
        self.response_patience.restart(cx.now);
        self.response_at = None;
    }

    /// The requester has no slots: the queue pair calls `complete` after each event.
    fn emit(&mut self, _cx: &mut Cx<'_>) {}

    fn on_duplicate(&mut self, _item: &Response, _cx: &mut Cx<'_>) {}
}
