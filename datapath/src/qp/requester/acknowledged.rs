//! Acknowledgements: retire, complete, learn what is missing, react to refusals.

use super::reads::take_answer;
use super::refused::{end_rnr, on_late_nak, on_refusal};
use super::wake;
use crate::engine::{AsyncEvent, Units};
use crate::qp::context::{PendingFailure, QpCold, Qpc};
use crate::qp::feedback::Lesson;
use crate::qp::flush::opcode_of;
use crate::qp::responder::on_read_ack;
use crate::qp::state::QpState;
use crate::qp::{fail, requester::has_new_work};
use crate::queue::{Completion, SendFlags, WcFlags, WcStatus};
use crate::sched::SchedFlags;
use crate::stream::{AckInfo, AckRefused};
use wire::{AckFlags, Ackx, Meta, NakCode, Packet, Syndrome};

/// Handles an acknowledgement that passed the checks of protocol.md 1.2.
#[inline]
pub(crate) fn on_acknowledge(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units, packet: &Packet<'_>) {
    let (Some(aeth), Some(ackx)) = (packet.aeth(), packet.ackx()) else {
        units.counters.drop_bad_ack += 1;
        return;
    };
    if matches!(aeth.syndrome, Syndrome::Reserved(_)) {
        units.counters.drop_bad_ack += 1;
        return;
    }
    if ackx.flags.contains(AckFlags::RESPONSE_STREAM) {
        let info = read_info(aeth.syndrome, &ackx, packet);
        on_read_ack(qpc, cold, units, info, ackx, aeth.syndrome);
        return;
    }
    if !qpc.id.state.continues_sends() {
        units.counters.drop_qp_state += 1;
        return;
    }
    let info = read_info(aeth.syndrome, &ackx, packet);
    if info.is_special() {
        info.teach(&mut cold.watchdog);
    }
    let effect = match qpc.tx.on_ack(&mut cold.tx_recovery, units.now, &info) {
        Ok(effect) => effect,
        Err(AckRefused::Stale) => {
            units.counters.drop_stale_ack += 1;
            if let Syndrome::Nak(code) = aeth.syndrome {
                on_late_nak(qpc, cold, units, code, info.next);
                wake(qpc, cold, units);
            }
            return;
        }
        Err(AckRefused::Beyond) => {
            units.counters.drop_bad_ack += 1;
            return;
        }
    };
    units.counters.rx_acks += 1;
    if let Some(record) = effect.record
        && units.ctrl_q.has_room(1)
    {
        units.tell_slow_path(record);
    }
    let lesson = Lesson {
        now: units.now,
        ackx: &ackx,
        effect: &effect,
        sacked: info.sack.is_some(),
        pmtu: qpc.id.pmtu,
        app_limited: !has_new_work(qpc, cold),
    };
    qpc.req.feedback.learn(&mut qpc.controller, &mut cold.watchdog.rtt, &mut qpc.tx, &lesson);
    if effect.acked > 0 {
        on_progress(qpc, cold, units);
    }
    if !matches!(aeth.syndrome, Syndrome::Ack { .. }) {
        on_refusal(qpc, cold, units, aeth.syndrome, info.next);
    }
    wake(qpc, cold, units);
}

/// What an acknowledgement says about its stream.
#[inline]
fn read_info(syndrome: Syndrome, ackx: &Ackx, packet: &Packet<'_>) -> AckInfo {
    let psn = packet.psn();
    let nack = syndrome == Syndrome::Nak(NakCode::PsnSequence);
    let sack_valid = ackx.flags.contains(AckFlags::SACK_VALID);
    let next = if matches!(syndrome, Syndrome::Ack { .. }) { psn.next() } else { psn };
    let bitmap = packet.sackb().unwrap_or(0);
    let (bitmap, bitmap_base) = if ackx.flags.contains(AckFlags::BACKWARD) {
        (bitmap.reverse_bits(), ackx.sack_psn.sub(u64::BITS))
    } else {
        (bitmap, next.next())
    };
    let duplicate = ackx.flags.contains(AckFlags::DUPLICATE);
    AckInfo {
        next,
        sack: sack_valid.then_some(ackx.sack_psn),
        bitmap,
        bitmap_base,
        resend_all: nack && !sack_valid,
        duplicate,
        echo: if duplicate { echo_of(ackx, packet) } else { None },
    }
}

/// META of the packet that triggered an acknowledgement, if it says so.
#[cold]
fn echo_of(ackx: &Ackx, packet: &Packet<'_>) -> Option<Meta> {
    packet.meta().filter(|_| ackx.flags.contains(AckFlags::META_VALID))
}

/// `una` moved: complete what is done, and go on after an RNR wait.
#[inline]
fn on_progress(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) {
    if qpc.sched.contains(SchedFlags::ORDERED_OVERLAP) {
        // It may have been waiting for what is acknowledged now; if not, it goes on waiting.
        qpc.sched.remove(SchedFlags::READ_WAIT);
    }
    complete_acknowledged(qpc, cold, units);
    if qpc.id.state == QpState::Err {
        return;
    }
    // An RNR NAK counts at `una` only: progress during the wait says that it was a late copy.
    if let Some(rnr) = cold.rnr.take() {
        end_rnr(qpc, cold, units, rnr.sent_until);
    }
    tell_if_drained(qpc, cold, units);
}

/// In SQD, with no request begun: the application is told if it asked for it. Called when the last one is done, and on
/// entry.
pub(crate) fn tell_if_drained(qpc: &Qpc, cold: &QpCold, units: &mut Units) {
    let drained = qpc.id.state == QpState::Sqd && qpc.req.sent == 0 && qpc.req.head == qpc.req.next;
    if drained && cold.attributes.attr.en_sqd_async_notify {
        units.events.push(AsyncEvent::SqDrained { qpn: qpc.id.qpn });
    }
}

/// A response came: complete what is done.
pub(in crate::qp) fn complete_answered(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) {
    complete_acknowledged(qpc, cold, units);
    tell_if_drained(qpc, cold, units);
}

/// Completes the requests whose last packet is acknowledged, and whose response is here.
#[inline]
fn complete_acknowledged(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) {
    let una = qpc.tx.una();
    let before = qpc.req.head;
    let mut overflowed = false;
    while qpc.req.head != qpc.req.next {
        let entry = cold.entry(qpc.req.head);
        if una.is_before(entry.first_psn.add(entry.packets)) {
            break;
        }
        let rslot = entry.ssn;
        let wqe = cold.send_queue.wqe(qpc.req.head);
        if wqe.opcode.has_response() {
            // Plain: `una` passes a READ only with its response.
            if let Some(plain) = cold.plain.as_deref_mut() {
                plain.take_answer(&mut qpc.sched);
            } else if !take_answer(&mut cold.reads, rslot, &mut qpc.sched) {
                break;
            }
        }
        if wqe.flags.contains(SendFlags::SIGNALED) {
            let completion = Completion {
                wr_id: wqe.wr_id,
                status: WcStatus::Success,
                opcode: opcode_of(wqe.opcode),
                flags: WcFlags::empty(),
                byte_len: wqe.length,
                imm: 0,
                qpn: qpc.id.qpn,
                src_qp: 0,
            };
            if !units.complete_later(cold.send_cq, &completion) {
                qpc.req.head = qpc.req.head.wrapping_add(1);
                overflowed = true;
                break;
            }
        }
        qpc.req.head = qpc.req.head.wrapping_add(1);
    }
    if qpc.req.head != before {
        units.show_completions(cold.send_cq, cold.send_queue.release(qpc.req.head));
        // What waited for all of them may begin.
        if qpc.req.head == qpc.req.next {
            qpc.sched.remove(SchedFlags::READ_WAIT);
        }
    }
    if overflowed {
        fail(qpc, cold, units, None);
        return;
    }
    if let Some(failure) = cold.failure {
        settle_failure(qpc, cold, units, failure);
    }
}

/// A request that could not be sent, or not again, fails when all before it have completed; one that turns out to have
/// arrived does not.
#[cold]
fn settle_failure(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units, failure: PendingFailure) {
    if failure.position == qpc.req.head {
        fail(qpc, cold, units, Some(failure));
    } else if qpc.req.head.wrapping_sub(failure.position).cast_signed() > 0 {
        cold.failure = None;
    }
}
