//! Responses: placed straight into the requester's memory, in order or not, and acknowledged
//! (protocol.md 2.4).

use super::reads::{Expected, Reads};
use crate::qp::attr::RecoveryPolicy;
use crate::qp::context::PendingFailure;
use crate::qp::owed::Arrived;
use crate::qp::requester::{complete_answered, fail_in_turn, place};
use crate::qp::response::opcode_at;
use crate::qp::srnic::answer_old;
use crate::qp::{ControlKind, Qp, QpCold, Units};
use crate::stream::{Advanced, Arrival};
use sr_recovery::{Generation, Record, StreamId};
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
            take(qp, units, &response, arrival)
        }
        arrival => answer_old(qp, units, qp.cold.of_responses(), arrival, (response.psn, response.meta)),
    }
}

/// A response that is new: it must fit an outstanding request.
fn take(qp: &mut Qp<'_>, units: &mut Units, response: &ResponsePacket<'_>, arrival: Arrival) {
    let Some(Expected { position, packets, .. }) = answered_by(qp.cold, response) else {
        units.counters.drop_unexpected_response += 1;
        return;
    };
    let Some(reads) = qp.cold.reads.as_deref_mut() else { return };
    let in_order = arrival == Arrival::InOrder;
    if !in_order && !reserve(reads, qp.cold.attributes.recovery(), units, arrival == Arrival::AtEpsn) {
        reads.rx.note_dropped();
        queue_plain_nack(qp, units);
        return;
    }
    let wqe = qp.cold.send_queue.wqe(position);
    let ResponsePacket { packet, index, .. } = *response;
    let is_at_place = packet.opcode() == opcode_at(index, packets);
    if let Err(status) = place(qp.hot, &units.memory, &wqe, packet, index, is_at_place) {
        units.counters.drop_bad_response += 1;
        // It can never be complete, whatever comes: no need to wait for its turn.
        give_back(qp.cold, units);
        fail_in_turn(qp, units, PendingFailure { position, status });
        return;
    }
    if in_order {
        on_in_order(qp, units);
    } else {
        on_out_of_order(qp, units, response.psn);
    }
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

/// Makes sure that the packet's metadata can be written, before anything is placed.
fn reserve(reads: &mut Reads, policy: RecoveryPolicy, units: &mut Units, at_epsn: bool) -> bool {
    if policy == RecoveryPolicy::GoBackN {
        units.counters.drop_go_back_n += 1;
        return false;
    }
    if !units.has_metadata_room(at_epsn) {
        return false;
    }
    if !reads.holds_context && units.response_contexts == 0 {
        units.counters.drop_no_context += 1;
        return false;
    }
    if !reads.holds_context {
        reads.holds_context = true;
        units.response_contexts -= 1;
    }
    true
}

fn on_in_order(qp: &mut Qp<'_>, units: &mut Units) {
    let Some(reads) = qp.cold.reads.as_deref_mut() else { return };
    reads.rx.advance(1);
    reads.progress_at = units.now;
    reads.owed.note_in_order(units.turn, 1);
    units.counters.rx_responses += 1;
    let dropped = reads.rx.take_dropped();
    units.owe_ack(qp.cold.of_responses(), qp.hot);
    if dropped {
        queue_plain_nack(qp, units);
    }
    complete_answered(qp, units);
    qp.wake(qp.cold.requests(), units);
}

/// The packet is in place: tell the slow path, and the responder.
fn on_out_of_order(qp: &mut Qp<'_>, units: &mut Units, psn: Psn) {
    let stream = StreamId { qp: qp.cold.slot, response: true };
    let Some(reads) = qp.cold.reads.as_deref_mut() else { return };
    let entered = !reads.rx.in_recovery();
    units.counters.recoveries += u64::from(entered);
    units.counters.rx_responses += 1;
    if entered {
        reads.advance = None;
    }
    reads.progress_at = units.now;
    reads.rx.on_placed_out_of_order(stream, psn, |record| units.tell_slow_path(record));
    units.queue_control(qp.cold.of_responses(), qp.hot, ControlKind::sack(psn));
}

/// Applies an Advance of the slow path.
pub(crate) fn apply_response_advance(
    qp: &mut Qp<'_>,
    units: &mut Units,
    generation: Generation,
    epsn: Psn,
    bitmap: u64,
) {
    let Some(reads) = qp.cold.reads.as_deref_mut() else { return };
    let advanced = reads.rx.on_advance(generation, epsn);
    if advanced == Advanced::Ignored {
        return;
    }
    reads.progress_at = units.now;
    let dropped = reads.rx.take_dropped();
    if advanced == Advanced::StillMissing {
        reads.advance = Some((epsn, bitmap));
        let right = reads.rx.right();
        if dropped {
            queue_plain_nack(qp, units);
        } else {
            units.queue_control(qp.cold.of_responses(), qp.hot, ControlKind::sack(right));
        }
    } else {
        reads.owed.insist();
        units.owe_ack(qp.cold.of_responses(), qp.hot);
        close_response_recovery(qp.cold, units, Some(generation));
        if dropped {
            queue_plain_nack(qp, units);
        }
    }
    complete_answered(qp, units);
    qp.wake(qp.cold.requests(), units);
}

/// Lets the slow path forget the episode that ended, if there was one.
pub(crate) fn close_response_recovery(cold: &mut QpCold, units: &mut Units, generation: Option<Generation>) {
    give_back(cold, units);
    if let Some(generation) = generation {
        let stream = StreamId { qp: cold.slot, response: true };
        units.tell_slow_path(Record::RxClose { stream, generation });
    }
}

/// Outside Recovery, a stream is not counted among those in it.
fn give_back(cold: &mut QpCold, units: &mut Units) {
    if let Some(reads) = cold.reads.as_deref_mut()
        && !reads.rx.in_recovery()
        && core::mem::take(&mut reads.holds_context)
    {
        reads.advance = None;
        units.response_contexts += 1;
    }
}

/// NACK without SACK, once for each ePSN.
fn queue_plain_nack(qp: &mut Qp<'_>, units: &mut Units) {
    let Some(reads) = qp.cold.reads.as_deref_mut() else { return };
    if reads.plain_nack_at != Some(reads.rx.epsn()) {
        reads.plain_nack_at = Some(reads.rx.epsn());
        units.queue_control(qp.cold.of_responses(), qp.hot, ControlKind::NackAll);
    }
}

/// Ends the stream of responses: nothing late is accepted.
pub(crate) fn stop_reads(cold: &mut QpCold, units: &mut Units) {
    let Some(reads) = cold.reads.as_deref_mut() else { return };
    let was = reads.rx.in_recovery().then(|| reads.rx.generation());
    reads.rx.abandon();
    reads.owed.settle(units.now);
    reads.ask_again = false;
    close_response_recovery(cold, units, was);
}
