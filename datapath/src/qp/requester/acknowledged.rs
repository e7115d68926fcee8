//! Acknowledgements: retire, complete, learn what is missing, react to refusals.

use super::{adopt_window, wake};
use crate::engine::{AsyncEvent, Units};
use crate::qp::context::{PendingFailure, QpCold, Qpc, RnrWait};
use crate::qp::flush::opcode_of;
use crate::qp::state::QpState;
use crate::qp::{fail, requester::has_new_work};
use crate::queue::{Completion, SendFlags, WcFlags, WcStatus};
use crate::sched::SchedFlags;
use crate::stream::{AckEffect, AckInfo, AckRefused};
use cc_dctcp::{AckEvent, Controller};
use wire::{AckFlags, Ackx, NakCode, Packet, Psn, Syndrome, rnr_timer_ns};

/// An `rnr_retry` that means for ever.
const RNR_FOR_EVER: u8 = 7;
/// ACK_DELAY counts in units of this many nanoseconds.
const ACK_DELAY_UNIT_NS: u32 = 64;

/// Handles an acknowledgement that passed the checks of protocol.md 1.2.
#[inline]
pub(crate) fn on_acknowledge(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units, packet: &Packet<'_>) {
    if !qpc.id.state.continues_sends() {
        units.counters.drop_qp_state += 1;
        return;
    }
    let (Some(aeth), Some(ackx)) = (packet.aeth(), packet.ackx()) else {
        units.counters.drop_bad_ack += 1;
        return;
    };
    if matches!(aeth.syndrome, Syndrome::Reserved(_)) {
        units.counters.drop_bad_ack += 1;
        return;
    }
    if ackx.flags.contains(AckFlags::RESPONSE_STREAM) {
        units.counters.drop_unsupported += 1;
        return;
    }
    let info = read_info(aeth.syndrome, &ackx, packet);
    let effect = match qpc.tx.on_ack(&mut cold.tx_recovery, units.now, &info) {
        Ok(effect) => effect,
        Err(AckRefused::Stale) => {
            units.counters.drop_stale_ack += 1;
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
    steer(qpc, cold, units, &ackx, &effect, info.sack.is_some());
    if effect.acked > 0 {
        on_progress(qpc, cold, units);
    }
    if !matches!(aeth.syndrome, Syndrome::Ack { .. }) {
        on_refusal(qpc, cold, units, aeth.syndrome, info.next);
    }
    wake(qpc, cold, units);
}

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
    AckInfo {
        next,
        sack: sack_valid.then_some(ackx.sack_psn),
        bitmap,
        bitmap_base,
        resend_all: nack && !sack_valid,
        duplicate: ackx.flags.contains(AckFlags::DUPLICATE),
    }
}

/// Round-trip time, congestion marks, and the controller's window.
#[inline]
fn steer(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units, ackx: &Ackx, effect: &AckEffect, sacked: bool) {
    let host_delay_ns = u32::from(ackx.ack_delay) * ACK_DELAY_UNIT_NS;
    let rtt_ns = effect.rtt_sent.map(|sent| units.now.since(sent).saturating_sub(host_delay_ns.into()));
    if let Some(rtt_ns) = rtt_ns {
        cold.watchdog.rtt.sample(rtt_ns);
    }
    if matches!(qpc.controller, Controller::Fixed(_)) {
        return;
    }
    let packets = newly_arrived(&mut qpc.req.credited, effect.acked, sacked);
    qpc.controller.on_ack(&AckEvent {
        now_ns: units.now.0,
        acked_bytes: packets.saturating_mul(qpc.id.pmtu.into()),
        acked_packets: packets,
        ce_delta: ce_delta(&mut qpc.req.ce_seen, ackx.ce_cnt),
        rtt_ns: rtt_ns.map(|rtt| u32::try_from(rtt).unwrap_or(u32::MAX)),
        host_delay_ns,
        app_limited: !has_new_work(qpc, cold),
    });
    if effect.loss {
        qpc.controller.on_loss_episode(units.now.0);
    }
    adopt_window(qpc);
}

/// Packets that are news to the controller: each counts once, when it is SACKed or when `una` passes it.
fn newly_arrived(credited: &mut u16, acked: u32, sacked: bool) -> u32 {
    let known = u32::from(*credited).min(acked);
    let left = (*credited).saturating_sub(u16::try_from(known).unwrap_or(u16::MAX));
    *credited = left.saturating_add(u16::from(sacked));
    acked - known + u32::from(sacked)
}

/// Marks since the largest count seen; an older count brings none.
fn ce_delta(seen: &mut u16, now: u16) -> u32 {
    let delta = now.wrapping_sub(*seen);
    if delta >= 1 << 15 {
        return 0;
    }
    *seen = now;
    u32::from(delta)
}

/// `una` moved: complete what is done, and go on after an RNR wait.
#[inline]
fn on_progress(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) {
    complete_acknowledged(qpc, cold, units);
    if qpc.id.state == QpState::Err {
        return;
    }
    // An RNR NAK counts at `una` only: progress during the wait says that it was a late copy.
    if let Some(rnr) = cold.rnr.take() {
        end_rnr(qpc, cold, units, rnr.sent_until);
    }
    tell_if_drained(qpc, units);
}

/// In SQD, with no request begun: the application is told. Called when the last one is done, and on entry.
pub(crate) fn tell_if_drained(qpc: &Qpc, units: &mut Units) {
    if qpc.id.state == QpState::Sqd && qpc.req.sent == 0 && qpc.req.head == qpc.req.next {
        units.events.push(AsyncEvent::SqDrained { qpn: qpc.id.qpn });
    }
}

/// Completes the requests whose last packet is acknowledged.
#[inline]
fn complete_acknowledged(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) {
    let una = qpc.tx.una();
    let before = qpc.req.head;
    while qpc.req.head != qpc.req.next {
        let entry = cold.entry(qpc.req.head);
        if una.is_before(entry.first_psn.add(entry.packets)) {
            break;
        }
        let wqe = cold.send_queue.wqe(qpc.req.head);
        if wqe.flags.contains(SendFlags::SIGNALED) {
            let completion = Completion {
                wr_id: wqe.wr_id,
                status: WcStatus::Success,
                opcode: opcode_of(wqe.opcode),
                flags: WcFlags::empty(),
                byte_len: wqe.length,
                imm: 0,
                qpn: qpc.id.qpn,
            };
            // Before the completion shows: who polls it may post into the place at once.
            cold.send_queue.release(qpc.req.head.wrapping_add(1));
            if !units.complete(cold.send_cq, &completion) {
                qpc.req.head = qpc.req.head.wrapping_add(1);
                fail(qpc, cold, units, None);
                return;
            }
        }
        qpc.req.head = qpc.req.head.wrapping_add(1);
    }
    if qpc.req.head != before {
        cold.send_queue.release(qpc.req.head);
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

/// NACKs, RNR NAKs and error NAKs, after what they acknowledge was retired.
#[cold]
fn on_refusal(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units, syndrome: Syndrome, refused: Psn) {
    if qpc.id.state == QpState::Err {
        return;
    }
    match syndrome {
        Syndrome::Nak(NakCode::PsnSequence) => units.counters.rx_nacks += 1,
        Syndrome::RnrNak { timer } => {
            units.counters.rx_rnr_naks += 1;
            if refused == qpc.tx.una() && qpc.tx.outstanding() > 0 {
                begin_rnr(qpc, cold, units, timer);
            }
        }
        Syndrome::Nak(code) => {
            units.counters.rx_error_naks += 1;
            if refused == qpc.tx.una() && qpc.tx.outstanding() > 0 {
                let status = match code {
                    NakCode::RemoteAccess => WcStatus::RemAccessErr,
                    NakCode::RemoteOperational => WcStatus::RemOpErr,
                    _ => WcStatus::RemInvReqErr,
                };
                let failure = PendingFailure { position: qpc.req.head, status };
                fail(qpc, cold, units, Some(failure));
            }
        }
        // The caller has seen to both.
        Syndrome::Ack { .. } | Syndrome::Reserved(_) => {}
    }
}

/// The peer has no receive for the message at `una`: nothing is sent until the wait is over.
fn begin_rnr(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units, timer: u8) {
    let sent_until = match cold.rnr {
        Some(rnr) if !rnr.probing => return,
        Some(rnr) => rnr.sent_until,
        None => qpc.tx.nxt(),
    };
    if cold.rnr_retries >= cold.attributes.attr.rnr_retry && cold.attributes.attr.rnr_retry != RNR_FOR_EVER {
        let failure = PendingFailure { position: qpc.req.head, status: WcStatus::RnrRetryExcErr };
        fail(qpc, cold, units, Some(failure));
        return;
    }
    cold.rnr_retries = cold.rnr_retries.saturating_add(1);
    let until = units.now.after(rnr_timer_ns(timer));
    cold.rnr = Some(RnrWait { until, sent_until, probing: false });
    cold.probes = [None; 2];
    cold.watchdog.progress(units.now);
    qpc.sched.remove(SchedFlags::PROBE);
    qpc.sched.insert(SchedFlags::RNR_WAIT | SchedFlags::TIMED);
    units.timers.arm(cold.slot, until);
}

/// A receive was there: everything un-SACKed that was sent before the RNR NAK is lost and goes again.
fn end_rnr(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units, sent_until: Psn) {
    cold.rnr_retries = 0;
    qpc.sched.remove(SchedFlags::RNR_WAIT);
    // The timer stands at the end of the wait, which may be far off.
    qpc.sched.insert(SchedFlags::TIMED);
    units.timers.arm(cold.slot, units.now.after(cold.watchdog.first_look_ns()));
    if let Some(record) = qpc.tx.resend_until(&mut cold.tx_recovery, sent_until) {
        units.tell_slow_path(record);
    }
}
