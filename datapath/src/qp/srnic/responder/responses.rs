//! The responses that a queue pair owes its peer: which they are, and the stream that carries them
//! (protocol.md 2.4).

use crate::counters::QpCounters;
use crate::qp::attr::QpAttr;
use crate::qp::context::Qpc;
use crate::qp::feedback::{Feedback, adopt_window};
use crate::qp::response::Source;
use crate::qp::send_stream::SendStream;
use crate::sched::SchedFlags;
use crate::stream::{AckInfo, TxRecovery, TxStream, Watchdog, WatchdogConfig, sequence_window};
use crate::time::Time;
use cc_dctcp::Controller;
use sr_recovery::{Generation, Record, StreamId};
use std::collections::VecDeque;
use wire::{Meta, Msn, Psn};

/// Packets that all responses of a queue pair under way may take, so that rPSNs are unambiguous.
pub(in crate::qp) const RESPONSE_SPAN_MAX: u32 = 1 << 23;

/// The response to one request that was executed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Response {
    /// PSN of the request.
    pub request_psn: Psn,
    /// Its number.
    pub msn: Msn,
    /// First PSN of the response.
    pub start: Psn,
    /// Packets.
    pub packets: u32,
    pub source: Source,
}

impl Response {
    const fn end(&self) -> Psn {
        self.start.add(self.packets)
    }
}

/// Responses not yet acknowledged, and their stream. There is one if `max_dest_rd_atomic` is not 0.
pub(crate) struct Responses {
    pub tx: TxStream,
    pub tx_recovery: TxRecovery,
    pub controller: Controller,
    pub feedback: Feedback,
    pub watchdog: Watchdog,
    /// Probes that are due.
    pub probes: [Option<Psn>; 2],
    /// By RSLOT.
    held: Box<[Option<Response>]>,
    /// RSLOTs that are held, in the order of their rPSNs.
    order: VecDeque<u8>,
    /// Behind the last response accepted.
    end: Psn,
    /// The peer seems to miss something, as a NACK says, or a request that came again, since it
    /// last acknowledged anything or was told that it cannot be had.
    pub missed: bool,
    /// First PSN of a response whose memory may not be read any more: nothing from there on is
    /// sent.
    cut: Option<Psn>,
}

impl Responses {
    /// Nothing accepted. The first response has the peer's first PSN; `window` packets may be in
    /// the network. The `generation` is newer than any that the stream `id` had.
    pub fn new(
        attr: &QpAttr,
        id: StreamId,
        window: u16,
        controller: Controller,
        watchdog: WatchdogConfig,
        generation: Generation,
    ) -> Self {
        let psn = Psn::new(attr.rq_psn);
        let slots = usize::from(attr.max_dest_rd_atomic);
        let sequence = sequence_window(window);
        let mut tx = TxStream::new(psn, sequence);
        let pmtu = u16::try_from(attr.path_mtu.bytes()).unwrap_or(u16::MAX);
        adopt_window(&mut tx, &controller, pmtu);
        Self {
            tx,
            tx_recovery: TxRecovery::new(id, generation, sequence, attr.recovery, psn),
            controller,
            feedback: Feedback::default(),
            watchdog: Watchdog::new(watchdog),
            probes: [None; 2],
            held: vec![None; slots].into(),
            order: VecDeque::with_capacity(slots),
            end: psn,
            missed: false,
            cut: None,
        }
    }

    /// Their stream. `id` is its name; the rest is of the queue pair.
    pub(in crate::qp) fn stream<'a>(
        &'a mut self,
        qpc: &'a mut Qpc,
        counters: &'a mut QpCounters,
        id: StreamId,
    ) -> SendStream<'a> {
        SendStream {
            id,
            tx: &mut self.tx,
            recovery: &mut self.tx_recovery,
            watchdog: &mut self.watchdog,
            controller: &mut self.controller,
            feedback: &mut self.feedback,
            probes: &mut self.probes,
            sched: &mut qpc.responses_sched,
            counters,
            pmtu: qpc.id.pmtu,
        }
    }

    /// Whether a request may use `rslot` for a response of that many packets: the slot exists, and
    /// what it acknowledges has been sent.
    pub(super) fn admits(&self, rslot: u8, packets: u32) -> bool {
        let Some(held) = self.held.get(usize::from(rslot)) else { return false };
        let acknowledged = self.acknowledged_by(*held, packets);
        packets <= RESPONSE_SPAN_MAX && acknowledged.is_none_or(|next| !self.tx.nxt().is_before(next))
    }

    /// Before what everything has arrived, as a request says that uses the slot of `held`: the peer
    /// reuses a slot only when its response is complete there, and asks for more than a few
    /// responses may take only when nothing is under way.
    fn acknowledged_by(&self, held: Option<Response>, packets: u32) -> Option<Psn> {
        let free_from = held.map_or(self.tx.una(), |held| held.end());
        let fits = self.end.steps_from(free_from) + packets <= RESPONSE_SPAN_MAX;
        if fits { held.map(|held| held.end()) } else { Some(self.end) }
    }

    /// So many may be held from now on. Fewer only if none is ([`Responses::holds_any`]).
    pub fn resize(&mut self, slots: u8) {
        let mut held = core::mem::take(&mut self.held).into_vec();
        held.resize(slots.into(), None);
        self.held = held.into();
        self.order.reserve(usize::from(slots).saturating_sub(self.order.len()));
    }

    /// Whether a response is held that is not acknowledged.
    pub fn holds_any(&self) -> bool {
        !self.order.is_empty()
    }

    /// rPSN of the next response.
    pub(super) const fn next_psn(&self) -> Psn {
        self.end
    }

    /// Takes a response, admitted before, whose first PSN is [`Responses::next_psn`]. Returns what
    /// the slow path must know.
    pub(super) fn accept(&mut self, now: Time, rslot: u8, response: Response) -> Option<Record> {
        let acknowledged = self.acknowledged_by(self.held[usize::from(rslot)], response.packets);
        let record = acknowledged.and_then(|next| self.retire(now, next));
        self.held[usize::from(rslot)] = Some(response);
        self.order.push_back(rslot);
        self.end = response.end();
        record
    }

    /// All before `next` has arrived.
    fn retire(&mut self, now: Time, next: Psn) -> Option<Record> {
        let info = AckInfo {
            next,
            sack: None,
            bitmap: 0,
            bitmap_base: next,
            resend_all: false,
            duplicate: false,
            echo: None,
        };
        let effect = self.tx.on_ack(&mut self.tx_recovery, now, &info).ok();
        self.release();
        effect.and_then(|effect| effect.record)
    }

    /// Frees the slots of responses that are acknowledged.
    pub fn release(&mut self) {
        let una = self.tx.una();
        while let Some(&rslot) = self.order.front() {
            let held = &mut self.held[usize::from(rslot)];
            if held.is_some_and(|held| una.is_before(held.end())) {
                break;
            }
            *held = None;
            self.order.pop_front();
        }
    }

    /// The slot and the response that a PSN in use belongs to.
    pub(super) fn find(&self, psn: Psn) -> Option<(u8, &Response)> {
        let at = self.order.partition_point(|&rslot| {
            self.held[usize::from(rslot)].is_some_and(|held| !psn.is_before(held.end()))
        });
        let rslot = *self.order.get(at)?;
        let held = self.held[usize::from(rslot)].as_ref()?;
        (psn.steps_from(held.start) < held.packets).then_some((rslot, held))
    }

    /// META of a packet in use.
    pub(super) fn meta_of(&self, psn: Psn) -> Option<Meta> {
        self.find(psn).map(|(_, response)| Meta::of(response.msn, psn.steps_from(response.start)))
    }

    /// Whether there is a packet that was never sent and may be.
    pub fn has_new_work(&self) -> bool {
        self.cut.is_none() && self.tx.nxt() != self.end
    }

    /// Whether the next new packet is the last for now.
    pub(super) fn empties(&self) -> bool {
        self.tx.nxt().next() == self.end
    }

    /// Whether they are ready, in the scheduling state `sched`.
    pub fn is_ready(&self, sched: SchedFlags) -> bool {
        sched.contains(SchedFlags::PROBE) || self.tx.may_send(|| self.has_new_work())
    }

    /// Nothing of the response that starts at `start`, nor of any behind it, is sent any more.
    pub(super) fn cut_at(&mut self, start: Psn) {
        if self.cut.is_none_or(|cut| start.is_before(cut)) {
            self.cut = Some(start);
        }
    }

    /// Whether `psn` is sent, and sent again.
    pub(super) fn serves(&self, psn: Psn) -> bool {
        self.cut.is_none_or(|cut| psn.is_before(cut))
    }

    /// Everything that will be sent is acknowledged.
    pub fn is_idle(&self) -> bool {
        !self.tx.una().is_before(self.cut.unwrap_or(self.end))
    }

    /// Forgets all responses, whose stream ends: RESET or ERR.
    pub fn clear(&mut self) {
        self.held.fill(None);
        self.order.clear();
        self.end = self.tx.nxt();
        self.missed = false;
        self.cut = None;
    }

    /// Bytes on the heap, its own included.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.held) + self.order.capacity() + self.tx_recovery.bytes()
    }
}
