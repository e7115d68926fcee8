//! One turn of a response stream: probes, then the RetryQ, then responses not yet sent; it is scheduled like the requests.

use super::refuse::{refuse, tell_withdrawn};
use super::responses::{Response, Responses};
use crate::engine::{NotSent, TxSlots, Units};
use crate::memory::MemoryTable;
use crate::qp::context::{QpCold, Qpc};
use crate::qp::plain;
use crate::qp::requester::{Grant, TransmitEnd};
use crate::qp::response::ResponsePacket;
use crate::sched::SchedFlags;
use crate::stream::Resend;
use sr_recovery::StreamId;
use wire::{NakCode, Psn, WireMode};

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
                tell_withdrawn(
                    self.qpc,
                    StreamId { qp: self.slot, response: false },
                    self.units,
                    request_psn,
                );
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
        let packet = packet_of(self.qpc, rslot, response, psn, ack_req);
        let memory = &self.units.memory;
        let loopback = self.qpc.id.loopback;
        match self.slots.emit(loopback, |frame| packet.write(WireMode::Srnic, memory, frame)) {
            Ok(()) => Ok(packet.payload_len()),
            Err(NotSent::PortFull) => Err(Stop::PortFull),
            Err(NotSent::Failed(_)) => {
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
    packet_of(qpc, rslot, response, una, true).payload(memory).is_none()
}

/// The packet of a response that has `psn`.
const fn packet_of<'a>(
    qpc: &'a Qpc,
    rslot: u8,
    response: &Response,
    psn: Psn,
    ack_req: bool,
) -> ResponsePacket<'a> {
    let Response { msn, start, packets, source, .. } = *response;
    ResponsePacket { qpc, source, index: psn.steps_from(start), packets, psn, ack_req, msn, rslot }
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
        let timer = units.number_of(StreamId { qp: slot, response: true });
        units.timers.arm(timer, units.now.after(responses.watchdog.first_look_ns()));
    }
}
