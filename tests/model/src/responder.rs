//! The responder: the request stream that it receives, memory, completion slots, and the response
//! stream that it sends.

use wire::serial::{Msn, Psn, Ssn};

use crate::context::Cx;
use crate::defects::Defect;
use crate::memory;
use crate::packet::{AckKind, Body, Cell, NakCode, Request, Response, Side, Verb};
use crate::receive::{Refusal, Sink};
use crate::receive_queue::ReceiveQueue;
use crate::requester::first_numbers;
use crate::rx::{RxStream, State};
use crate::schedule::Schedule;
use crate::slots::{Admission, Answering, CompletionSlots, Effect, Rslots, Slot, Source};
use crate::tx::TxStream;

/// The responder.
#[derive(Clone, Debug)]
pub struct Responder {
    /// Requests.
    pub rx: RxStream,
    /// Responses.
    pub tx: TxStream,
    /// What remote peers reach.
    pub memory: Vec<Cell>,
    /// The error NAK that answers every request from now on.
    pub refused: Option<(Psn, NakCode)>,
    /// The key of flags and counter is no longer valid.
    pub words_revoked: bool,
    slots: CompletionSlots,
    rslots: Rslots,
    next_msn: Msn,
    next_ssn: Ssn,
    receives: ReceiveQueue,
    next_rpsn: Psn,
}

impl Responder {
    /// A responder that expects sPSN `first` and sends rPSN `first`.
    #[must_use]
    pub fn new(first: Psn, gen_no: u32, tag: u64, schedule: &Schedule, defect: Option<Defect>) -> Self {
        let (next_msn, next_ssn) = first_numbers(schedule);
        Self {
            rx: RxStream::new(first, schedule.window, gen_no),
            tx: TxStream::new(first, schedule, defect),
            memory: memory::fresh(tag),
            refused: None,
            words_revoked: false,
            slots: CompletionSlots::new(schedule.window, defect),
            rslots: Rslots::new(schedule.rd_atomic),
            next_msn,
            next_ssn,
            receives: ReceiveQueue::new(next_ssn, schedule.srq.is_some()),
            next_rpsn: first,
        }
    }

    /// Posts receives.
    pub fn post_receives(&mut self, n: u32) {
        self.receives.post(n);
    }

    /// ERR or RESET: shared WQEs of messages under way go back.
    pub fn abandon_receives(&mut self, free: &mut u32) {
        self.receives.abandon(free);
    }

    /// All accepted READs and ATOMICs are answered and acknowledged.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.tx.una == self.next_rpsn
    }

    fn has_fresh(&self) -> bool {
        self.tx.snd_nxt != self.next_rpsn
    }

    /// Sends all that the gates let through.
    pub fn pump(&mut self, cx: &mut Cx<'_>) {
        loop {
            if let Some(psn) = self.tx.resend_lost() {
                self.send(psn, true, cx);
            } else if self.tx.may_send_fresh() && self.has_fresh() {
                let psn = self.tx.send_fresh(cx.now);
                let last = !self.tx.may_send_fresh() || !self.has_fresh();
                self.send(psn, last, cx);
            } else {
                break;
            }
        }
    }

    /// Sends the response packet `psn`.
    pub fn send(&self, psn: Psn, ack_req: bool, cx: &mut Cx<'_>) {
        let Some((rslot, held, offset)) = self.rslots.find(psn) else {
            return cx.oracle.fail(format!("host {} qp {} has no response for psn {psn}", cx.host, cx.qp));
        };
        let cell = match held.source {
            Source::Memory { addr, cells } => {
                (offset < cells).then(|| self.memory[addr + usize::try_from(offset).expect("small")])
            }
            Source::Saved(cell) => Some(cell),
            Source::NotYet => None,
        };
        cx.send(psn, Body::Response(Response { msn: held.msn, rslot, offset, ack_req, cell }));
    }

    /// Answers a request after an error: the same NAK again.
    pub fn repeat_refusal(&self, cx: &mut Cx<'_>) {
        if let Some((psn, code)) = self.refused
            && !cx.has(Defect::ErrorNakOnce)
        {
            cx.send_refusal(psn, AckKind::Error(code));
        }
    }

    /// A duplicate of a READ or ATOMIC request means that responses are missing.
    pub fn resend_una(&mut self, request: &Request, cx: &mut Cx<'_>) {
        if matches!(request.verb, Verb::Read { .. } | Verb::FetchAdd { .. })
            && let Some(psn) = self.tx.resend_una()
        {
            self.send(psn, true, cx);
        }
    }

    fn is_revoked(&self, addr: usize) -> bool {
        self.words_revoked && addr < memory::SOURCE
    }

    /// Error NAK(`psn`): all below is executed, and no request is accepted any more.
    fn refuse(&mut self, psn: Psn, code: NakCode, cx: &mut Cx<'_>) {
        self.refused = Some((psn, code));
        self.rx.epsn = psn;
        self.rx.gen_no = self.rx.gen_no.wrapping_add(1);
        self.rx.state = State::InOrder;
        self.rx.flush_at = None;
        cx.send_refusal(psn, AckKind::Error(code));
    }

    /// True if the key that `slot` needs was withdrawn after its packets were accepted. A larger
    /// WRITE is in memory already.
    fn lost_its_key(&self, slot: &Slot) -> bool {
        let addr = match slot.effect {
            Effect::Read { addr, .. } | Effect::FetchAdd { addr, .. } => Some(addr),
            _ => slot.parked.map(|(addr, _)| addr),
        };
        addr.is_some_and(|addr| self.is_revoked(addr))
    }

    fn execute(&mut self, slot: &Slot, cx: &mut Cx<'_>) {
        if let Some((addr, cell)) = slot.parked {
            self.memory[addr] = cell;
        }
        let answering = match slot.effect {
            Effect::Write => None,
            Effect::Receive { ssn } => {
                if ssn != self.next_ssn {
                    cx.oracle.fail(format!("receive {ssn} instead of {}", self.next_ssn));
                }
                self.next_ssn = self.next_ssn.next();
                self.receives.complete(ssn, cx.srq);
                None
            }
            Effect::Read { addr, n, answer } => {
                let source = match self.executed_early(answer.rslot, slot.msn) {
                    Some(source) => source,
                    None => Source::Memory { addr, cells: n },
                };
                Some((answer, n.max(1), source))
            }
            Effect::FetchAdd { addr, answer } => {
                let source = match self.executed_early(answer.rslot, slot.msn) {
                    Some(source) => source,
                    None => Source::Saved(self.fetch_add(addr)),
                };
                Some((answer, 1, source))
            }
        };
        if let Some((answer, n, source)) = answering {
            if answer.start != self.next_rpsn {
                cx.oracle.fail(format!("rpsn_start {} instead of {}", answer.start, self.next_rpsn));
            }
            self.rslots.set(answer.rslot, Answering { msn: slot.msn, start: answer.start, n, source });
            self.next_rpsn = self.next_rpsn.add(n);
        }
    }

    fn fetch_add(&mut self, addr: usize) -> Cell {
        let old = self.memory[addr];
        self.memory[addr] = old.wrapping_add(1);
        old
    }

    /// The mutant's result of a READ or ATOMIC that ran when it arrived.
    fn executed_early(&self, rslot: usize, msn: Msn) -> Option<Source> {
        let held = self.rslots.get(rslot)?;
        (held.msn == msn && !matches!(held.source, Source::NotYet)).then_some(held.source)
    }

    fn reserve_rslot(&mut self, request: &Request, rslot: usize, start: Psn, cx: &mut Cx<'_>) {
        let admission = self.rslots.admit(rslot, request.msn, self.tx.snd_nxt);
        if let Admission::Retires(end) = admission {
            self.tx.retire(end, cx.now);
        }
        let mut source = Source::NotYet;
        if cx.has(Defect::ReadAtArrival) {
            source = match request.verb {
                Verb::FetchAdd { addr, .. } => Source::Saved(self.fetch_add(addr)),
                Verb::Read { addr, n: 1, .. } => Source::Saved(self.memory[addr]),
                _ => Source::NotYet,
            };
        }
        let held = self.rslots.get(rslot);
        if held.is_none_or(|held| held.msn != request.msn) || cx.has(Defect::ReadAtArrival) {
            self.rslots.set(rslot, Answering { msn: request.msn, start, n: 0, source });
        }
    }
}

impl Sink for Responder {
    type Item = Request;
    const SIDE: Side = Side::Request;

    fn rx(&mut self) -> &mut RxStream {
        &mut self.rx
    }

    fn ack_requested(item: &Request) -> bool {
        item.ack_req
    }

    fn fits(&self, psn: Psn, item: &Request) -> bool {
        let ahead = item.msn.distance_from(self.next_msn);
        let owned_again = item.verb.ssn().is_some_and(|ssn| ssn.is_before(self.next_ssn));
        (0..=psn.distance_from(self.rx.epsn)).contains(&ahead) && !owned_again
    }

    fn refusal(&self, item: &Request, cx: &Cx<'_>) -> Option<Refusal> {
        let revoked = item.verb.address().is_some_and(|addr| self.is_revoked(addr));
        if item.bad_key || revoked {
            return Some(Refusal::Error(NakCode::RemoteAccess));
        }
        let ready = |ssn: Ssn| self.receives.serves(ssn, *cx.srq, cx.defect);
        match item.verb {
            Verb::Send { ssn } | Verb::Write { imm: Some(ssn), .. } if !ready(ssn) => Some(Refusal::NotReady),
            Verb::Read { answer, .. } | Verb::FetchAdd { answer, .. } => {
                match self.rslots.admit(answer.rslot, item.msn, self.tx.snd_nxt) {
                    Admission::Refused => Some(Refusal::Error(NakCode::InvalidRequest)),
                    Admission::SameMessage if cx.has(Defect::RslotNotIdempotent) => {
                        Some(Refusal::Error(NakCode::InvalidRequest))
                    }
                    Admission::Retires(end)
                        if cx.has(Defect::RslotReuseRefused) && self.tx.una.is_before(end) =>
                    {
                        Some(Refusal::Error(NakCode::InvalidRequest))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn raise(&mut self, refusal: Refusal, cx: &mut Cx<'_>) {
        match refusal {
            Refusal::NotReady => cx.send_refusal(self.rx.epsn, AckKind::Rnr),
            Refusal::Error(code) => self.refuse(self.rx.epsn, code, cx),
        }
    }

    fn has_refused(&self) -> bool {
        self.refused.is_some()
    }

    fn place(&mut self, psn: Psn, item: &Request, in_order: bool, cx: &mut Cx<'_>) {
        let mut parked = None;
        if let Some(ssn) = item.verb.ssn() {
            self.receives.take(ssn, cx.srq, cx.defect);
        }
        let at = match item.verb {
            Verb::Send { ssn } => {
                let n = ssn.steps_from(first_numbers(cx.schedule).1);
                Some(memory::receive_buffer(usize::try_from(n).expect("24 bits")))
            }
            Verb::Write { addr, .. } => Some(addr),
            Verb::Read { answer, .. } | Verb::FetchAdd { answer, .. } => {
                self.reserve_rslot(item, answer.rslot, answer.start, cx);
                None
            }
        };
        if let (Some(addr), Some(cell)) = (at, item.cell) {
            let offset = if matches!(item.verb, Verb::Send { .. }) { item.offset } else { 0 };
            let addr = addr + usize::try_from(offset).expect("small");
            let only = item.end && item.offset == 0 && matches!(item.verb, Verb::Write { .. });
            if only && !in_order && !cx.has(Defect::ParkedWrittenAtOnce) {
                parked = Some((addr, cell));
            } else {
                self.memory[addr] = cell;
            }
        }
        if item.end {
            let effect = match item.verb {
                Verb::Send { ssn } | Verb::Write { imm: Some(ssn), .. } => Effect::Receive { ssn },
                Verb::Write { imm: None, .. } => Effect::Write,
                Verb::Read { addr, n, answer } => Effect::Read { addr, n, answer },
                Verb::FetchAdd { addr, answer } => Effect::FetchAdd { addr, answer },
            };
            self.slots.write(Slot { msn: item.msn, end_psn: psn, effect, parked });
        }
    }

    fn emit(&mut self, cx: &mut Cx<'_>) {
        while let Some(slot) = self.slots.get(self.next_msn) {
            if !slot.end_psn.is_before(self.rx.epsn) && !cx.has(Defect::EmittedEarly) {
                break;
            }
            if self.lost_its_key(&slot) && !cx.has(Defect::KeyNotCheckedAtEmission) {
                let late = cx.has(Defect::EmissionErrorAtEpsn);
                let psn = if late { self.rx.epsn } else { slot.end_psn };
                return self.refuse(psn, NakCode::RemoteAccess, cx);
            }
            self.slots.clear(slot.msn);
            self.next_msn = self.next_msn.next();
            self.execute(&slot, cx);
            cx.oracle.on_emission(1 - cx.host, cx.qp, &slot, &mut self.memory);
        }
    }

    fn on_duplicate(&mut self, item: &Request, cx: &mut Cx<'_>) {
        self.resend_una(item, cx);
    }
}
