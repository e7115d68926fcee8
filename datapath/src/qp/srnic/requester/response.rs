//! Responses: placed straight into the requester's memory, in order or not, and acknowledged
//! (protocol.md 2.4).

use super::reads::Expected;
use crate::qp::context::PendingFailure;
use crate::qp::owed::Arrived;
use crate::qp::requester::{complete_answered, fail_in_turn, place};
use crate::qp::response::opcode_at;
use crate::qp::srnic::ReceiveStream;
use crate::qp::{Qp, QpCold, Units};
use crate::stream::Arrival;
use crate::time::Time;
use wire::{Meta, Packet, Psn};

/// What the requester needs of a response packet.
struct ResponsePacket<'a> {
    packet: Packet<'a>,
    psn: Psn,
    meta: Meta,
    /// Index of the packet in its response, in full width.
    index: u32,
    rslot: u32,
}

impl<'a> ResponsePacket<'a> {
    fn new(packet: Packet<'a>) -> Option<Self> {
        let (meta, ssnw) = (packet.meta()?, packet.ssnw()?);
        Some(Self { packet, psn: packet.psn(), meta, index: meta.index(Some(ssnw)), rslot: ssnw.ssn.get() })
    }
}

/// Handles a response packet that passed the checks of protocol.md 1.2.
#[inline(never)]
pub(crate) fn on_response(qp: &mut Qp<'_>, units: &mut Units, packet: Packet<'_>, ce: bool) {
    if !qp.hot.id.state.continues_sends() {
        units.counters.drop_qp_state += 1;
        return;
    }
    let (Some(reads), Some(response)) = (qp.cold.reads.as_deref_mut(), ResponsePacket::new(packet)) else {
        units.counters.drop_unexpected_response += 1;
        return;
    };
    let arrived = Arrived { packets: 1, meta: response.meta, ack_req: packet.ack_req(), ce };
    reads.owed.note_arrival(units.drained_at, &mut units.counters, &arrived);
    match reads.rx.classify(response.psn) {
        arrival @ (Arrival::InOrder | Arrival::AtEpsn | Arrival::Ahead(_)) => {
            take(qp, units, &response, arrival);
        }
        arrival => {
            if let Some(stream) = ReceiveStream::of_responses(qp) {
                stream.answer_old(units, arrival, response.psn, response.meta);
            }
        }
    }
}

/// A response that is new: it must fit an outstanding request.
fn take(qp: &mut Qp<'_>, units: &mut Units, response: &ResponsePacket<'_>, arrival: Arrival) {
    let Some(Expected { position, packets, .. }) = answered_by(qp.cold, response) else {
        units.counters.drop_unexpected_response += 1;
        return;
    };
    let in_order = arrival == Arrival::InOrder;
    if !in_order && !has_room(qp, units, arrival == Arrival::AtEpsn) {
        return;
    }
    let wqe = qp.cold.send_queue.wqe(position);
    let ResponsePacket { packet, index, .. } = *response;
    let is_at_place = packet.opcode() == opcode_at(index, packets);
    let placed = place(qp.hot, &units.memory, &wqe, packet, index, is_at_place);
    if let Err(status) = placed {
        return fail(qp, units, PendingFailure { position, status });
    }
    let Some(mut stream) = ReceiveStream::of_responses(qp) else { return };
    units.counters.rx_responses += 1;
    if in_order {
        stream.rx.advance(1);
        stream.settle(units, 1);
        go_on(qp, units);
    } else {
        stream.note_placed(units, response.psn);
        note_progress(qp.cold, units.now);
    }
}

#[cold]
fn has_room(qp: &mut Qp<'_>, units: &mut Units, at_epsn: bool) -> bool {
    ReceiveStream::of_responses(qp).is_some_and(|mut stream| stream.reserve(units, at_epsn))
}

/// The response can never be complete, whatever comes: no need to wait for its turn.
#[cold]
fn fail(qp: &mut Qp<'_>, units: &mut Units, failure: PendingFailure) {
    units.counters.drop_bad_response += 1;
    if let Some(mut stream) = ReceiveStream::of_responses(qp) {
        stream.give_back(units);
    }
    fail_in_turn(qp, units, failure);
}

/// What the packet answers: the request's number, its slot, its first PSN and its length must
/// agree.
fn answered_by(cold: &QpCold, response: &ResponsePacket<'_>) -> Option<Expected> {
    let expected = *cold.reads.as_deref()?.expected(response.rslot)?;
    let msn = cold.entry(expected.position).msn;
    let index = response.psn.steps_from(expected.start);
    let fits = msn == response.meta.msn && index == response.index && index < expected.packets;
    fits.then_some(expected)
}

/// ePSN of the responses moved: completes what is done.
pub(in crate::qp::srnic) fn go_on(qp: &mut Qp<'_>, units: &mut Units) {
    note_progress(qp.cold, units.now);
    complete_answered(qp, units);
    qp.wake(qp.cold.requests(), units);
}

fn note_progress(cold: &mut QpCold, now: Time) {
    if let Some(reads) = cold.reads.as_deref_mut() {
        reads.progress_at = now;
    }
}

/// Ends the stream of responses: nothing late is accepted.
pub(crate) fn stop_reads(qp: &mut Qp<'_>, units: &mut Units) {
    if let Some(mut stream) = ReceiveStream::of_responses(qp) {
        stream.stop(units);
        stream.owed.settle(units.now);
    }
    if let Some(reads) = qp.cold.reads.as_deref_mut() {
        reads.ask_again = false;
    }
}
