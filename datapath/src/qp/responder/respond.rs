//! One turn of a response stream: probes, then the RetryQ, then responses not yet sent; it is scheduled like the requests.

use super::refuse::{refuse, tell_withdrawn};
use super::responses::{Response, Responses, Source};
use crate::engine::{TxSlots, Units};
use crate::icrc::Kernel;
use crate::memory::{Access, Mapped, MemoryTable};
use crate::qp::context::{QpCold, Qpc};
use crate::qp::plain;
use crate::qp::requester::{Grant, TransmitEnd};
use crate::sched::SchedFlags;
use crate::stream::Resend;
use wire::{Aeth, Bth, Layout, NakCode, Opcode, Psn, Ssn, Ssnw, Syndrome, WireMode, bth, emit};

const ICRC_LEN: usize = 4;

/// A packet was not sent, and the turn is over.
enum Stop {
    PortFull,
    /// The memory of this response, which begins at `start`, may not be read any more.
    Revoked {
        start: Psn,
        request_psn: Psn,
    },
}

/// Lets a queue pair send responses. Reduces `grant` by what it used.
pub(crate) fn transmit_responses<T: TxSlots>(
    qpc: &mut Qpc,
    cold: &mut QpCold,
    units: &mut Units,
    slots: &mut T,
    grant: &mut Grant,
) -> TransmitEnd {
    if qpc.id.mode == WireMode::Plain {
        return plain::transmit_responses(qpc, cold, units, slots, grant);
    }
    let slot = cold.slot;
    let Some(responses) = cold.responses.as_deref_mut().filter(|_| qpc.id.state.receives()) else {
        return TransmitEnd::Done { ready: false };
    };
    let refuses = cold.refusal.is_some();
    let mut turn = Turn { qpc, slot, refuses, responses, units, slots };
    let result =
        turn.send_probes().and_then(|()| turn.send_retries(grant)).and_then(|()| turn.send_new(grant));
    arm_timer(slot, responses, units);
    match result {
        Ok(()) => TransmitEnd::Done { ready: responses.is_ready() },
        Err(Stop::PortFull) => TransmitEnd::PortFull,
        Err(Stop::Revoked { start, request_psn }) => {
            responses.cut_at(start);
            refuse(qpc, cold, units, request_psn, NakCode::RemoteAccess, None);
            let ready = cold.responses.as_deref().is_some_and(Responses::is_ready);
            TransmitEnd::Done { ready }
        }
    }
}

/// One turn of a response stream.
struct Turn<'a, T> {
    qpc: &'a Qpc,
    /// Of the queue pair.
    slot: u32,
    /// It refuses requests already, and is to end.
    refuses: bool,
    responses: &'a mut Responses,
    units: &'a mut Units,
    slots: &'a mut T,
}

impl<T: TxSlots> Turn<'_, T> {
    /// Probes pass both gates.
    fn send_probes(&mut self) -> Result<(), Stop> {
        if !self.responses.sched.contains(SchedFlags::PROBE) {
            return Ok(());
        }
        for index in 0..self.responses.probes.len() {
            let Some(psn) = self.responses.probes[index] else { continue };
            let tx = &self.responses.tx;
            if !psn.is_before(tx.una()) && psn.is_before(tx.nxt()) {
                self.send_again(psn)?;
                self.units.counters.tx_probes += 1;
                let Responses { tx, tx_recovery, .. } = &mut *self.responses;
                let probe = tx.probe(tx_recovery, psn);
                if let Some(meta) = self.responses.meta_of(psn) {
                    self.responses.tx_recovery.note_probe(meta);
                }
                note_resent(self.units, &probe);
            }
            self.responses.probes[index] = None;
        }
        self.responses.sched.remove(SchedFlags::PROBE);
        Ok(())
    }

    /// The RetryQ comes before new responses.
    fn send_retries(&mut self, grant: &mut Grant) -> Result<(), Stop> {
        while self.responses.tx.retry_pending() > 0
            && self.responses.tx.may_resend()
            && grant.has_room(self.qpc.id.pmtu)
            && self.units.ctrl_q.has_room(1)
        {
            let Some(psn) = self.responses.tx.next_retry(&self.responses.tx_recovery) else { break };
            let payload = self.send_again(psn)?;
            let Responses { tx, tx_recovery, .. } = &mut *self.responses;
            note_resent(self.units, &tx.take_retry(tx_recovery, psn));
            grant.bytes = grant.bytes.saturating_sub(payload);
            grant.packets -= 1;
        }
        Ok(())
    }

    /// New packets, as long as both gates are open and the grant lasts.
    fn send_new(&mut self, grant: &mut Grant) -> Result<(), Stop> {
        while self.responses.has_new_work()
            && self.responses.tx.may_send_new()
            && grant.has_room(self.qpc.id.pmtu)
        {
            let tx = &self.responses.tx;
            let ack_req = tx.must_ask(self.responses.empties() || tx.closes_gate());
            let payload = self.send(tx.nxt(), ack_req)?;
            self.responses.tx.send_new_asking(ack_req, self.units.now);
            self.units.counters.tx_responses += 1;
            grant.bytes = grant.bytes.saturating_sub(payload);
            grant.packets -= 1;
        }
        Ok(())
    }

    /// Sends a packet once more, unless it belongs to what was cut off, or cannot be read any more: the peer may have it, and
    /// its acknowledgement be lost. If the peer seems to miss it, it is told; if the queue pair is to end, that is its end.
    fn send_again(&mut self, psn: Psn) -> Result<usize, Stop> {
        if !self.responses.serves(psn) {
            return Ok(0);
        }
        match self.send(psn, true) {
            Ok(payload) => {
                self.units.counters.tx_retransmits += 1;
                self.responses.resent += 1;
                Ok(payload)
            }
            Err(Stop::Revoked { .. }) if !self.responses.missed => Ok(0),
            Err(Stop::Revoked { request_psn, .. }) if !self.refuses => {
                self.responses.missed = false;
                tell_withdrawn(self.qpc, self.slot, self.units, request_psn);
                Ok(0)
            }
            Err(stop) => Err(stop),
        }
    }

    /// Builds one packet in a frame of the port's and sends it. Returns the bytes of its payload.
    fn send(&mut self, psn: Psn, ack_req: bool) -> Result<usize, Stop> {
        let Some((rslot, response)) = self.responses.find(psn) else {
            debug_assert!(false, "a PSN that is sent belongs to a response");
            return Ok(0);
        };
        let Some(plan) = ResponsePlan::new(self.qpc, rslot, response, psn, ack_req) else { return Ok(0) };
        let loopback = self.qpc.id.loopback;
        let frame = self.slots.slot(loopback).ok_or(Stop::PortFull)?;
        match plan.build(&self.units.memory, frame) {
            Some(len) => {
                self.slots.commit(loopback, len);
                Ok(plan.payload_len)
            }
            None => {
                self.slots.cancel(loopback);
                Err(Stop::Revoked { start: response.start, request_psn: response.request_psn })
            }
        }
    }
}

/// Whether the oldest response cannot be sent again, and is not known to be missing: nothing is due of it until the peer says
/// something.
pub(super) fn is_kept_back(qpc: &Qpc, responses: &Responses, memory: &MemoryTable) -> bool {
    let una = responses.tx.una();
    let Some((rslot, response)) = responses.find(una).filter(|_| !responses.missed) else { return false };
    ResponsePlan::new(qpc, rslot, response, una, true).is_some_and(|plan| plan.source(memory).is_none())
}

/// A response packet with all its lengths known, before its frame is.
struct ResponsePlan<'a> {
    qpc: &'a Qpc,
    response: &'a Response,
    layout: &'static Layout,
    psn: Psn,
    /// Index of the packet in its response.
    index: u32,
    rslot: u8,
    ack_req: bool,
    payload_len: usize,
}

impl<'a> ResponsePlan<'a> {
    fn new(qpc: &'a Qpc, rslot: u8, response: &'a Response, psn: Psn, ack_req: bool) -> Option<Self> {
        let index = psn.steps_from(response.start);
        let pmtu = u32::from(qpc.id.pmtu);
        let (opcode, payload) = match response.source {
            Source::Memory { len, .. } => {
                let start = index * pmtu;
                (opcode_at(index, response.packets), len.saturating_sub(start).min(pmtu))
            }
            Source::Saved(_) => (Opcode::RcAtomicAck, 0),
        };
        let layout = Layout::of(WireMode::Srnic, opcode)?;
        let payload_len = usize::try_from(payload).ok()?;
        Some(Self { qpc, response, layout, psn, index, rslot, ack_req, payload_len })
    }

    /// Writes the packet to the start of `frame` and returns its length; `None` if its memory may not be read.
    fn build(&self, memory: &MemoryTable, frame: &mut [u8]) -> Option<usize> {
        let pad = usize::from(bth::pad_of(self.payload_len));
        let header_len = usize::from(self.layout.len);
        let transport_len = header_len + self.payload_len + pad + ICRC_LEN;
        let template = &self.qpc.template;
        let end = template.len() + transport_len;
        let frame = frame.get_mut(..end)?;
        template.emit(frame, transport_len);
        let payload_at = template.len() + header_len;
        self.write_headers(&mut frame[template.len()..payload_at]);
        let l3 = template.l3_offset();
        let source = self.source(memory)?;
        source.read_sealed(Kernel::detected(), &mut frame[l3..], payload_at - l3, self.payload_len);
        Some(end)
    }

    fn write_headers(&self, headers: &mut [u8]) {
        let Self { qpc, response, layout, .. } = *self;
        let header = Bth {
            pad: bth::pad_of(self.payload_len),
            pkey: qpc.id.pkey,
            dest_qp: qpc.id.dest_qpn,
            ack_req: self.ack_req,
            psn: self.psn,
            ..Bth::new(WireMode::Srnic, layout.opcode)
        };
        bth::emit(headers, &header);
        if layout.aeth != 0 {
            let aeth = Aeth { syndrome: Syndrome::ACK, msn: qpc.rsp.completed };
            aeth.emit(&mut headers[usize::from(layout.aeth)..]);
        }
        if let (Source::Saved(value), true) = (response.source, layout.atomic_ack != 0) {
            emit::atomic_ack(&mut headers[usize::from(layout.atomic_ack)..], value);
        }
        let [_, _, offset_hi, _] = self.index.to_le_bytes();
        response.meta_of(self.psn).emit(&mut headers[usize::from(layout.meta)..]);
        let ssnw = Ssnw { offset_hi, ssn: Ssn::new(self.rslot.into()) };
        ssnw.emit(&mut headers[usize::from(layout.ssnw)..]);
    }

    /// The packet's part of the response, if it may be read: keys are checked for each packet.
    fn source<'m>(&self, memory: &'m MemoryTable) -> Option<Mapped<'m>> {
        let Source::Memory { va, rkey, .. } = self.response.source else { return Some(Mapped::empty()) };
        let id = &self.qpc.id;
        let start = u64::from(self.index) * u64::from(id.pmtu);
        let len = self.payload_len as u64;
        memory.check_remote(rkey, id.peer(), va.wrapping_add(start), len, Access::REMOTE_READ).ok()
    }
}

/// The opcode of packet `index` of `packets`.
pub(in crate::qp) const fn opcode_at(index: u32, packets: u32) -> Opcode {
    match (index == 0, index + 1 == packets) {
        (true, true) => Opcode::RcReadResponseOnly,
        (true, false) => Opcode::RcReadResponseFirst,
        (false, false) => Opcode::RcReadResponseMiddle,
        (false, true) => Opcode::RcReadResponseLast,
    }
}

fn note_resent(units: &mut Units, resend: &Resend) {
    if let Some(record) = resend.record {
        units.tell_slow_path(record);
    }
}

/// Something is outstanding: its timer must stand in the wheel.
pub(super) fn arm_timer(slot: u32, responses: &mut Responses, units: &mut Units) {
    if responses.tx.outstanding() > 0 && !responses.sched.contains(SchedFlags::TIMED) {
        responses.sched.insert(SchedFlags::TIMED);
        let timer = units.responses_of(slot);
        units.timers.arm(timer, units.now.after(responses.watchdog.first_look_ns()));
    }
}
