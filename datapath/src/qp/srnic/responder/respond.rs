//! One turn of a response stream: probes, then the RetryQ, then responses not yet sent; it is
//! scheduled like the requests.

use super::middles::send_middles;
use super::refuse::refuse;
use super::responses::{Response, Responses};
use crate::counters::{QpCounters, count};
use crate::memory::MemoryTable;
use crate::qp::requester::{Grant, TransmitEnd};
use crate::qp::responder::tell_withdrawn;
use crate::qp::response::ResponsePacket;
use crate::qp::send_stream::{PacketSource, SendStream, Stop, resend};
use crate::qp::{NotSent, Qp, Qpc, TxSlots, Units};
use sr_recovery::StreamId;
use wire::{Meta, NakCode, Psn, WireMode};

/// A response whose memory may not be read any more: it begins at `start`, and answers the request
/// at `request_psn`.
#[derive(Clone, Copy)]
struct Revoked {
    start: Psn,
    request_psn: Psn,
}

/// Lets a queue pair send responses. Reduces `grant` by what it used.
pub(in crate::qp) fn transmit_responses<T: TxSlots>(
    mut qp: Qp<'_>,
    units: &mut Units,
    slots: &mut T,
    grant: &mut Grant,
) -> TransmitEnd {
    let (requests, id, refuses) = (qp.cold.requests(), qp.cold.of_responses(), qp.cold.refusal.is_some());
    let Some(responses) = qp.cold.responses.as_deref_mut().filter(|_| qp.hot.id.state.receives()) else {
        return TransmitEnd::Done { ready: false };
    };
    let counters = &mut qp.cold.counters;
    let mut turn = ResponseSource {
        qpc: qp.hot,
        counters,
        requests,
        id,
        refuses,
        responses,
        units,
        slots,
        revoked: None,
    };
    let result = turn.run(grant);
    if let (Err(Stop::Failed), Some(Revoked { start, request_psn })) = (result, turn.revoked) {
        responses.cut_at(start);
        refuse(&mut qp, units, request_psn, NakCode::RemoteAccess, None);
    }
    match result {
        Err(Stop::PortFull) => TransmitEnd::PortFull,
        Ok(()) | Err(Stop::Failed) => TransmitEnd::Done { ready: qp.is_ready(id) },
    }
}

/// A packet that was sent.
struct Sent {
    /// Bytes of its payload.
    payload: usize,
    /// Its response goes on with one that is not the last.
    before_middle: bool,
}

/// The responses of a queue pair, in their turn.
struct ResponseSource<'a, T> {
    qpc: &'a mut Qpc,
    counters: &'a mut QpCounters,
    /// The stream of requests of the queue pair.
    requests: StreamId,
    id: StreamId,
    /// It refuses requests already, and is to end.
    refuses: bool,
    responses: &'a mut Responses,
    units: &'a mut Units,
    slots: &'a mut T,
    /// Why the turn failed.
    revoked: Option<Revoked>,
}

impl<T: TxSlots> PacketSource for ResponseSource<'_, T> {
    #[inline(always)]
    fn stream(&mut self) -> (SendStream<'_>, &mut Units) {
        (self.responses.stream(self.qpc, self.counters, self.id), self.units)
    }

    fn waits(&self) -> bool {
        false
    }

    fn meta_of(&self, psn: Psn) -> Option<Meta> {
        self.responses.meta_of(psn)
    }

    /// Not what belongs to what was cut off, or cannot be read any more: the peer may have it, and
    /// its acknowledgement be lost. If the peer seems to miss it, it is told; if the queue pair is
    /// to end, that is its end.
    fn send_again(&mut self, psn: Psn) -> Result<Option<usize>, Stop> {
        if !self.responses.serves(psn) {
            return Ok(None);
        }
        match (self.send(psn, true), self.revoked) {
            (Ok(sent), _) => {
                count!(self.units, self, tx_retransmits);
                Ok(Some(sent.payload))
            }
            (Err(Stop::Failed), _) if !self.responses.missed => Ok(None),
            (Err(Stop::Failed), Some(Revoked { request_psn, .. })) if !self.refuses => {
                self.responses.missed = false;
                tell_withdrawn(self.qpc, self.requests, self.units, request_psn);
                Ok(None)
            }
            (Err(stop), _) => Err(stop),
        }
    }

    fn send_signs(&mut self) -> Result<(), Stop> {
        Ok(())
    }
}

impl<T: TxSlots> ResponseSource<'_, T> {
    fn run(&mut self, grant: &mut Grant) -> Result<(), Stop> {
        let (stream, _) = self.stream();
        let again = if stream.resends() { resend(self, grant) } else { Ok(()) };
        let result = again.and_then(|()| self.send_new(grant));
        let (mut stream, units) = self.stream();
        stream.arm(units);
        result
    }

    /// New packets, as long as both gates are open and the grant lasts.
    fn send_new(&mut self, grant: &mut Grant) -> Result<(), Stop> {
        while self.responses.has_new_work()
            && self.responses.tx.may_send_new()
            && grant.has_room(self.qpc.id.pmtu)
        {
            let tx = &self.responses.tx;
            let ack_req = tx.must_ask(self.responses.empties() || tx.closes_gate());
            let sent = self.send(tx.nxt(), ack_req)?;
            self.responses.tx.send_new_asking(ack_req, self.units.now);
            self.units.counters.tx_responses += 1;
            grant.bytes = grant.bytes.saturating_sub(sent.payload);
            grant.packets -= 1;
            if sent.before_middle {
                send_middles(self.qpc, self.responses, self.units, self.slots, grant)?;
            }
        }
        Ok(())
    }

    /// Builds one packet in a frame of the port's and sends it.
    fn send(&mut self, psn: Psn, ack_req: bool) -> Result<Sent, Stop> {
        let Some((rslot, response)) = self.responses.find(psn) else {
            debug_assert!(false, "a PSN that is sent belongs to a response");
            return Ok(Sent { payload: 0, before_middle: false });
        };
        let packet = packet_of(self.qpc, rslot, response, psn, ack_req);
        let memory = &self.units.memory;
        let loopback = self.qpc.id.loopback;
        match self.slots.emit(loopback, |frame| packet.write(WireMode::Srnic, memory, frame)) {
            Ok(()) => {
                let before_middle = packet.index + 2 < packet.packets;
                Ok(Sent { payload: packet.payload_len(), before_middle })
            }
            Err(NotSent::PortFull) => Err(Stop::PortFull),
            Err(NotSent::Failed(_)) => {
                self.revoked = Some(Revoked { start: response.start, request_psn: response.request_psn });
                Err(Stop::Failed)
            }
        }
    }
}

/// Whether the oldest response cannot be sent again, and is not known to be missing: nothing is due
/// of it until the peer says something.
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
