//! A queue pair: a requester and a responder, their common state, and who handles which packet.

use crate::context::Cx;
use crate::defects::Defect;
use crate::oracle::Status;
use crate::packet::{Ack, Body, Packet, Side};
use crate::receive::{on_command, on_data};
use crate::requester::{Outcome, Requester};
use crate::responder::Responder;
use crate::rx::RxStream;
use crate::schedule::{Op, Schedule};
use crate::slow_path::Command;
use crate::timers::Alarm;
use crate::tx::{Flow, TxStream};
use wire::serial::Psn;

/// The states of protocol.md 1.9 that matter here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Neither sends nor receives.
    Reset,
    /// RTS.
    Ready,
    /// Everything is flushed, packets are dropped, requests still get an error NAK if one was sent.
    Error,
}

/// How one life of one end begins.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// First PSN of the requests that this end sends, and of their responses.
    pub own_first: Psn,
    /// First PSN of the requests that the peer sends, and of their responses.
    pub peer_first: Psn,
    /// Payloads of the requests that this end sends.
    pub own_tag: u64,
    /// Payloads of the requests that the peer sends.
    pub peer_tag: u64,
}

/// One end of a connection.
#[derive(Clone, Debug)]
pub struct QueuePair {
    /// RESET, RTS or ERR.
    pub state: State,
    /// Sends requests, receives responses.
    pub requester: Requester,
    /// Receives requests, sends responses.
    pub responder: Responder,
}

impl QueuePair {
    /// A queue pair that has been connected. It keeps the generations of the life before, if there
    /// was one.
    #[must_use]
    pub fn connect(life: &Life, before: Option<&Self>, schedule: &Schedule, defect: Option<Defect>) -> Self {
        let before = before.filter(|_| defect != Some(Defect::GenResetWithQp));
        let gens = before.map_or((0, 0), |qp| (qp.requester.rx.gen_no, qp.responder.rx.gen_no));
        Self {
            state: State::Ready,
            requester: Requester::new(life.own_first, gens.0, life.own_tag, schedule, defect),
            responder: Responder::new(life.peer_first, gens.1, life.peer_tag, schedule, defect),
        }
    }

    /// Posts a work request.
    pub fn post(&mut self, op: Op, cx: &mut Cx<'_>) {
        let ledger = cx.oracle.ledger(cx.host, cx.qp);
        if self.state == State::Reset || ledger.posted() == crate::schedule::OPS_MAX {
            return;
        }
        let index = ledger.post(op);
        if self.state == State::Error {
            cx.oracle.on_completion(cx.host, cx.qp, Status::Flushed, cx.now, &mut self.requester.local);
        } else {
            self.requester.post(index, op);
        }
    }

    /// A packet from the wire.
    pub fn on_packet(&mut self, packet: &Packet, cx: &mut Cx<'_>) {
        if self.state != State::Ready {
            let answers = self.state == State::Error && self.responder.refused.is_some();
            if answers && matches!(packet.body, Body::Request(_)) {
                self.responder.repeat_refusal(cx);
            }
            cx.oracle.excuse_peer_of(cx.host, cx.qp, answers);
            return;
        }
        self.requester.hear();
        self.responder.tx.timers.patience.hear();
        match &packet.body {
            Body::Request(request) if self.responder.refused.is_some() => {
                self.responder.repeat_refusal(cx);
                self.responder.resend_una(request, cx);
            }
            Body::Request(request) => on_data(&mut self.responder, packet.psn, request, cx),
            Body::Response(response) => on_data(&mut self.requester, packet.psn, response, cx),
            Body::Ack(ack) if ack.side == Side::Request => {
                let outcome = self.requester.on_ack(packet.psn, ack, cx);
                self.act_on(outcome, cx);
            }
            Body::Ack(ack) => {
                cx.read_ack(&mut self.responder.tx, packet.psn, ack);
            }
        }
        self.settle(cx);
    }

    /// A command of the slow path.
    pub fn on_command(&mut self, command: &Command, cx: &mut Cx<'_>) {
        if self.state != State::Ready {
            return;
        }
        match command.stream.side {
            Side::Request if self.responder.refused.is_some() => {}
            Side::Request => on_command(&mut self.responder, command, cx),
            Side::Response => on_command(&mut self.requester, command, cx),
        }
        self.settle(cx);
    }

    /// What the slow path has read in an acknowledgement.
    pub fn on_evidence(&mut self, psn: Psn, ack: &Ack, cx: &mut Cx<'_>) {
        if self.state != State::Ready {
            return;
        }
        match ack.side {
            Side::Request => self.requester.tx.on_evidence(psn, ack),
            Side::Response => self.responder.tx.on_evidence(psn, ack),
        }
        self.settle(cx);
    }

    /// After each event: completions, the end of an erroneous responder, and transmission.
    pub fn settle(&mut self, cx: &mut Cx<'_>) {
        if self.state != State::Ready {
            return;
        }
        let outcome = self.requester.complete(cx);
        self.act_on(outcome, cx);
        if self.state == State::Ready && self.responder.refused.is_some() && self.responder.is_idle() {
            self.fail(Status::Flushed, cx);
        }
        if self.state == State::Ready {
            self.requester.pump(cx);
            self.responder.pump(cx);
            if self.requester.tx.dawdles() || self.responder.tx.dawdles() {
                cx.oracle.fail(format!("host {} qp {}: a lost packet waits at an open gate", cx.host, cx.qp));
            }
        }
    }

    fn act_on(&mut self, outcome: Outcome, cx: &mut Cx<'_>) {
        if outcome == Outcome::Failed {
            self.fail(Status::Flushed, cx);
        }
    }

    /// To ERR; the oldest message gets `status`.
    fn fail(&mut self, status: Status, cx: &mut Cx<'_>) {
        self.requester.flush(status, cx);
        self.responder.tx.stop();
        self.responder.abandon_receives(cx.srq);
        self.requester.rx.flush_at = None;
        self.responder.rx.flush_at = None;
        self.state = State::Error;
        let served = self.responder.refused.is_some() && self.responder.is_idle();
        cx.oracle.excuse_peer_of(cx.host, cx.qp, served);
    }

    /// When `poll` has something to do.
    #[must_use]
    pub fn deadline(&self) -> u64 {
        if self.state != State::Ready {
            return u64::MAX;
        }
        let wait = match self.requester.tx.flow {
            Flow::RnrWait { until } => Some(until),
            _ => None,
        };
        let timer = |tx: &TxStream| tx.timers.deadline().filter(|_| !tx.sleeps());
        [
            wait,
            timer(&self.requester.tx),
            timer(&self.responder.tx),
            self.requester.response_deadline(),
            self.requester.rx.flush_at,
            self.responder.rx.flush_at,
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(u64::MAX)
    }

    /// Handles what is due.
    pub fn poll(&mut self, cx: &mut Cx<'_>) {
        self.flush_acks(cx);
        self.poll_requests(cx);
        if self.state == State::Ready {
            self.poll_responses(cx);
        }
        self.settle(cx);
    }

    fn flush_acks(&mut self, cx: &mut Cx<'_>) {
        if self.requester.rx.flush_at.is_some_and(|at| at <= cx.now) {
            cx.send_ack(Side::Response, &mut self.requester.rx, None);
        }
        if self.responder.rx.flush_at.is_some_and(|at| at <= cx.now) {
            cx.send_ack(Side::Request, &mut self.responder.rx, None);
        }
    }

    fn poll_requests(&mut self, cx: &mut Cx<'_>) {
        let requester = &mut self.requester;
        if let Flow::RnrWait { until } = requester.tx.flow
            && until <= cx.now
            && let Some(psn) = requester.tx.on_rnr_wait_over(cx.now)
        {
            requester.send(psn, true, cx);
        }
        if requester.tx.sleeps() {
            return;
        }
        let again = match requester.tx.timers.poll(cx.now) {
            Alarm::Quiet => [None, None],
            Alarm::Timeout => requester.tx.on_timeout(),
            Alarm::TailProbe => [requester.tx.on_tail_probe(), None],
            Alarm::GiveUp => return self.fail(Status::RetryExceeded, cx),
        };
        for psn in again.into_iter().flatten() {
            requester.send(psn, true, cx);
        }
        if !requester.poll_response_timer(cx) {
            self.fail(Status::RetryExceeded, cx);
        }
    }

    fn poll_responses(&mut self, cx: &mut Cx<'_>) {
        let responder = &mut self.responder;
        if responder.tx.sleeps() {
            return;
        }
        let again = match responder.tx.timers.poll(cx.now) {
            Alarm::Quiet => [None, None],
            Alarm::Timeout => responder.tx.on_timeout(),
            Alarm::TailProbe => [responder.tx.on_tail_probe(), None],
            Alarm::GiveUp => {
                cx.oracle.on_responses_given_up(cx.host, cx.qp);
                return self.fail(Status::Flushed, cx);
            }
        };
        for psn in again.into_iter().flatten() {
            responder.send(psn, true, cx);
        }
    }

    /// At the end of a run: nothing is left to do.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.state != State::Ready || (self.requester.is_idle() && self.responder.is_idle())
    }

    /// A receiving stream waits for packets.
    #[must_use]
    pub fn is_recovering(&self) -> bool {
        let recovering = crate::rx::State::Recovery;
        let streams = [&self.requester.rx, &self.responder.rx];
        self.state == State::Ready && streams.iter().any(|rx| rx.state == recovering)
    }

    /// The four streams, for reports.
    #[must_use]
    pub fn outline(&self) -> String {
        let tx =
            |tx: &TxStream| format!("una {} snd_nxt {} pipe {} {:?}", tx.una, tx.snd_nxt, tx.pipe(), tx.flow);
        let rx = |rx: &RxStream| {
            format!("epsn {} {:?} gen {} run {}..={}", rx.epsn, rx.state, rx.gen_no, rx.left, rx.right)
        };
        format!(
            "{:?}; requests sent: {}; requests received: {}; responses sent: {}; responses received: {}",
            self.state,
            tx(&self.requester.tx),
            rx(&self.responder.rx),
            tx(&self.responder.tx),
            rx(&self.requester.rx)
        )
    }
}
