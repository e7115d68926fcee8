//! Responses: placed straight into the requester's memory, in order or not, and acknowledged
//! (protocol.md 2.4).

use super::reads::{Expected, Reads};
use crate::memory::MemoryTable;
use crate::qp::context::PendingFailure;
use crate::qp::owed::Arrived;
use crate::qp::requester::{complete_answered, fail_in_turn, place};
use crate::qp::response::opcode_at;
use crate::qp::scatter::in_element;
use crate::qp::srnic::ReceiveStream;
use crate::qp::{Qp, QpCold, QpFlags, Units};
use crate::queue::SendOpcode;
use crate::stream::Arrival;
use crate::time::Time;
use icrc::Kernel;
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
    note_arrival(reads, units, &response, ce);
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

/// Places a packet in the middle of a READ's response while its ICRC is checked, if it is the one
/// that must come next (docs/adr/0024). False if it is not, or it is not known where it goes:
/// nothing of it has had an effect.
#[inline(never)]
pub(crate) fn take_middle(
    qp: &mut Qp<'_>,
    units: &mut Units,
    packet: Packet<'_>,
    from_l3: &[u8],
    ce: bool,
) -> bool {
    let Some((response, is_whole)) = place_next(qp, &units.memory, packet, from_l3) else { return false };
    if !is_whole {
        units.counters.drop_icrc += 1;
        return true;
    }
    qp.cold.heard_at = units.now;
    if let Some(reads) = qp.cold.reads.as_deref_mut() {
        note_arrival(reads, units, &response, ce);
    }
    advance_epsn(qp, units);
    true
}

/// Writes the payload of the packet that must come next, and says whether it is whole.
fn place_next<'a>(
    qp: &Qp<'_>,
    memory: &MemoryTable,
    packet: Packet<'a>,
    from_l3: &[u8],
) -> Option<(ResponsePacket<'a>, bool)> {
    let may = qp.hot.id.state.continues_sends() && !qp.hot.flags.contains(QpFlags::STRICT_PLACEMENT);
    let response = ResponsePacket::new(packet).filter(|_| may)?;
    let is_next = qp.cold.reads.as_deref()?.rx.classify(response.psn) == Arrival::InOrder;
    let Expected { position, packets, .. } = answered_by(qp.cold, &response).filter(|_| is_next)?;
    let (pmtu, payload) = (qp.hot.id.pmtu, packet.payload());
    let fits = packet.opcode() == opcode_at(response.index, packets) && payload.len() == usize::from(pmtu);
    let wqe = qp.cold.send_queue.wqe(position);
    let sge = wqe.only_sge().filter(|_| fits && wqe.opcode == SendOpcode::Read)?;
    let start = u64::from(response.index) * u64::from(pmtu);
    let place = in_element(memory, qp.hot.id.pd, &sge, start, pmtu.into()).ok()?;
    Some((response, place.write_verified(Kernel::detected(), from_l3, payload)))
}

fn note_arrival(reads: &mut Reads, units: &mut Units, response: &ResponsePacket<'_>, ce: bool) {
    let ResponsePacket { packet, meta, .. } = *response;
    let arrived = Arrived { packets: 1, meta, ack_req: packet.ack_req(), ce };
    reads.owed.note_arrival(units.drained_at, &mut units.counters, &arrived);
}

/// A packet in order is in its place.
#[inline(never)]
fn advance_epsn(qp: &mut Qp<'_>, units: &mut Units) {
    let Some(stream) = ReceiveStream::of_responses(qp) else { return };
    units.counters.rx_responses += 1;
    stream.rx.advance(1);
    stream.settle(units, 1);
    go_on(qp, units);
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
    if in_order {
        return advance_epsn(qp, units);
    }
    if let Some(mut stream) = ReceiveStream::of_responses(qp) {
        units.counters.rx_responses += 1;
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
