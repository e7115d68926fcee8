//! The responder of the SRNIC dialect: takes request packets, places them in order or out of order,
//! completes messages, acknowledges.

mod acknowledge;
mod early;
mod emission;
mod middles;
mod read;
mod read_acked;
mod recovery;
mod refuse;
mod request;
mod respond;
mod responses;
mod run;
mod settle;

pub(in crate::qp) use acknowledge::{write_ack, write_in_order};
pub(crate) use read_acked::on_response_timer;
pub(in crate::qp) use read_acked::{on_read_ack, stop_responses};
pub(crate) use recovery::RxRecovery;
pub(super) use recovery::go_on;
pub(in crate::qp) use respond::transmit_responses;
pub(in crate::qp) use responses::RESPONSE_SPAN_MAX;
pub(crate) use responses::Responses;
pub(in crate::qp) use run::NextWrite;

use crate::qp::first_packet::takes_packets;
use crate::qp::last_word::{Late, say_again};
use crate::qp::owed::Arrived;
use crate::qp::responder::{InOrder, Refused, RequestPacket, pass, place, report};
use crate::qp::srnic::ReceiveStream;
use crate::qp::{Qp, Qpc, Units};
use crate::qp_state::QpState;
use crate::sched::SchedFlags;
use crate::stream::{Arrival, offset_is};
use wire::{CommonFrame, NakCode, Position, RxFrame};

/// Takes a frame for this queue pair with a `request`, a packet of a WRITE or SEND that has nothing
/// but data, and those of `frames` behind it, by number from 0, that only go on with it. Its ICRC
/// was not checked. Returns how many were taken, dropped ones included.
#[inline(always)]
pub(crate) fn admit<'a>(
    qp: &mut Qp<'_>,
    units: &mut Units,
    frame: &CommonFrame<'a>,
    request: &RequestPacket<'a>,
    frames: impl Fn(usize) -> Option<RxFrame<'a>>,
) -> usize {
    let is_next = qp.hot.rx.epsn() == frame.psn()
        && qp.hot.id.state.is_established()
        && !qp.hot.rx.in_recovery()
        && qp.cold.refusal.is_none();
    if is_next && frame.position() == Position::Middle {
        let taken = run::take_middles(qp, units, frame, &frames);
        if taken > 0 {
            return taken;
        }
    }
    if !units.is_whole(frame.from_l3()) {
        return 1;
    }
    qp.cold.heard_at = units.now;
    if is_next && frame.position() == Position::Only && qp.hot.rsp.in_progress.is_none() {
        let taken = run::take_messages(qp, units, frame, request.kind, frames);
        if taken > 0 {
            return taken;
        }
    }
    on_request(qp, units, request);
    1
}

/// Handles a request packet that passed the checks of protocol.md 1.2.
#[inline(always)]
pub(super) fn on_request(qp: &mut Qp<'_>, units: &mut Units, packet: &RequestPacket<'_>) {
    if !takes_packets(qp, units) || qp.cold.refusal.is_some() {
        answer_refused(qp, units, Late::of_request(packet), packet.request.is_some());
        return;
    }
    let arrived = Arrived { packets: 1, meta: packet.meta, ack_req: packet.ack_req, ce: packet.ce };
    qp.hot.rsp.owed.note_arrival(units.drained_at, &mut units.counters, &arrived);
    match qp.hot.rx.classify(packet.psn) {
        Arrival::InOrder => in_order(qp, units, packet),
        Arrival::AtEpsn => recovery::out_of_order(qp, units, *packet, 0),
        Arrival::Ahead(distance) => recovery::out_of_order(qp, units, *packet, distance),
        arrival => {
            ReceiveStream::of_requests(qp).answer_old(units, arrival, packet.psn, packet.meta);
            if arrival == Arrival::Duplicate && packet.request.is_some() {
                read::remind(qp, units);
            }
        }
    }
}

/// Nothing is missing and this is the next packet: a run of one.
#[inline(always)]
fn in_order(qp: &mut Qp<'_>, units: &mut Units, packet: &RequestPacket<'_>) {
    if packet.meta.msn != qp.hot.rsp.msn() {
        units.counters.drop_msn += 1;
        return;
    }
    if packet.ssn.is_some_and(|ssn| ssn.is_before(qp.hot.rsp.ssn)) {
        units.counters.drop_ssn += 1;
        return;
    }
    let placed = check_sequence(qp.hot, packet).and_then(|()| match packet.request {
        Some(_) => read::execute_in_order(qp, units, *packet),
        None => place(qp, units, packet),
    });
    if let Err(refused) = placed {
        refuse::raise(qp, units, packet.psn, packet.consumes_receive(), refused);
        return;
    }
    let taken = InOrder::one(packet.slot_kind(), packet.is_end());
    if !packet.is_end() {
        qp.cold.next_write = packet.reth.map(|reth| NextWrite::after(packet.psn, reth, qp.hot.id.pmtu));
    } else if !report(qp, units, &packet.end_of_message(qp.hot.id.pmtu)) {
        pass(qp.hot, &mut units.counters, taken, 1);
        refuse::refuse(qp, units, packet.psn, NakCode::RemoteOperational, None);
        return;
    }
    settle::settle(qp, units, taken);
}

/// The opcode sequence of packets in order: a message starts where none is in progress, and goes on
/// where it stopped.
#[inline(always)]
fn check_sequence(qpc: &Qpc, packet: &RequestPacket<'_>) -> Result<(), Refused> {
    let rsp = &qpc.rsp;
    let fits = if packet.is_start() {
        rsp.in_progress.is_none() && packet.offset == 0
    } else {
        let index = packet.psn.steps_from(rsp.message_psn);
        rsp.in_progress == Some(packet.slot_kind()) && offset_is(index, packet.offset, packet.ssn)
    };
    let in_turn = packet.ssn.is_none_or(|ssn| ssn == rsp.ssn);
    if fits && in_turn { Ok(()) } else { Err(Refused::INVALID) }
}

/// After an error NAK, in ERR too, every burst of requests is answered by the same NAK. In ERR
/// without one, what arrived before is acknowledged; in other states nothing is.
#[cold]
#[inline(never)]
fn answer_refused(qp: &mut Qp<'_>, units: &mut Units, late: Late, wants_response: bool) {
    if qp.hot.id.state == QpState::Err && say_again(units, qp.hot.id.qpn, late) {
        return;
    }
    units.counters.drop_qp_state += 1;
    if wants_response {
        read::remind(qp, units);
    }
    if qp.cold.refusal.is_some() && !qp.hot.sched.contains(SchedFlags::ACK_LISTED) {
        ReceiveStream::of_requests(qp).insist(units);
    }
}
