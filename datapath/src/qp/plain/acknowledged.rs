//! What the peer answers: ACKs, NAKs and RNR NAKs, and what each makes of the requests before it.

use super::requester::{adopt_window, go_back, outstanding, seek};
use crate::counters::count;
use crate::qp::requester::{Rnr, begin_rnr, complete_answered, fail_head, has_new_work, status_of};
use crate::qp::send_stream::SendStream;
use crate::qp::{Qp, QpFlags, Units};
use crate::qp_state::QpState;
use crate::queue::WcStatus;
use crate::stream::AckEffect;
use wire::{Ackx, NakCode, Packet, Psn, Syndrome};

/// Handles an ACK, NAK or RNR NAK.
pub(super) fn on_acknowledge(qp: &mut Qp<'_>, units: &mut Units, packet: &Packet<'_>) {
    let Some(aeth) = packet.aeth().filter(|aeth| !matches!(aeth.syndrome, Syndrome::Reserved(_))) else {
        units.counters.drop_bad_ack += 1;
        return;
    };
    let positive = matches!(aeth.syndrome, Syndrome::Ack { .. });
    let next = if positive { packet.psn().next() } else { packet.psn() };
    let Some(implied) = advance(qp, units, next) else { return };
    units.counters.rx_acks += 1;
    if qp.hot.id.state == QpState::Err {
        return;
    }
    if implied {
        on_gap(qp, units);
    } else if !positive && next == qp.hot.tx.una() {
        on_refusal(qp, units, aeth.syndrome);
    }
    qp.wake(qp.cold.requests(), units);
}

/// All before `next` has arrived: retires and completes it. Stops at a READ or atomic without
/// response, which only its response acknowledges. Returns whether there was one: what was heard of
/// lies behind it, so it is lost. `None` if it is of the past, or of what was never sent.
pub(super) fn advance(qp: &mut Qp<'_>, units: &mut Units, next: Psn) -> Option<bool> {
    let req = &qp.cold.plain.as_deref()?.req;
    if !qp.hot.id.state.continues_sends() {
        units.counters.drop_qp_state += 1;
        return None;
    }
    let una = qp.hot.tx.una();
    let Ok(steps) = u32::try_from(next.distance_from(una)) else {
        units.counters.drop_stale_ack += 1;
        return None;
    };
    let next = match () {
        () if steps <= outstanding(qp.hot, req) => next,
        // The peer may tell of what was given up because it could not be sent again; all before
        // that has arrived.
        () if qp.cold.failure.is_some() => req.max,
        () => {
            units.counters.drop_bad_ack += 1;
            return None;
        }
    };
    let unanswered = first_unanswered(qp, req.begun, req.reads, next);
    retire(qp, units, unanswered.unwrap_or(next));
    Some(unanswered.is_some())
}

/// The first PSN before `next` that only a response acknowledges: of the oldest READ or atomic
/// under way, what is missing.
fn first_unanswered(qp: &Qp<'_>, begun: u32, reads: u32, next: Psn) -> Option<Psn> {
    if reads == 0 {
        return None;
    }
    let mut position = qp.hot.req.head;
    while position != begun {
        let first_psn = qp.cold.entry(position).first_psn;
        if !first_psn.is_before(next) {
            return None;
        }
        if qp.cold.send_queue.wqe(position).opcode.has_response() {
            let una = qp.hot.tx.una();
            let missing = if first_psn.is_before(una) { una } else { first_psn };
            return missing.is_before(next).then_some(missing);
        }
        position = position.wrapping_add(1);
    }
    None
}

/// Moves `una` to `next`, learns from it, and completes what is done.
pub(super) fn retire(qp: &mut Qp<'_>, units: &mut Units, next: Psn) {
    if next == qp.hot.tx.una() {
        return;
    }
    let jumps = qp.hot.tx.nxt().is_before(next) || qp.hot.flags.contains(QpFlags::REWOUND);
    let effect = qp.hot.tx.acknowledge(next, units.now);
    learn(qp, units, &effect);
    if jumps {
        seek(qp);
    }
    if qp.cold.rnr.is_some() {
        // It was a late copy. The timer stands at the end of the wait, which may be far off.
        end_rnr(qp);
        SendStream::of_requests(qp).arm_anew(units);
    }
    qp.cold.rnr_retries = 0;
    complete_answered(qp, units);
}

/// What the acknowledgement teaches, which says nothing of marks and of time at the peer's host.
fn learn(qp: &mut Qp<'_>, units: &Units, effect: &AckEffect) {
    let app_limited = !has_new_work(qp);
    SendStream::of_requests(qp).learn(units, effect, false, &Ackx::default(), app_limited);
    if let Some(plain) = qp.cold.plain.as_deref_mut() {
        plain.req.restart = plain.req.restart.saturating_add(effect.acked);
        adopt_window(qp.hot, &plain.req);
    }
}

/// Something at `una` did not arrive: it goes again, and all behind it. Once: what else is heard of
/// the same gap is of packets that were under way.
pub(super) fn on_gap(qp: &mut Qp<'_>, units: &mut Units) {
    let una = qp.hot.tx.una();
    let obeyed = qp.cold.plain.as_deref().is_none_or(|plain| plain.req.obeyed_at == Some(una));
    if obeyed || qp.hot.flags.contains(QpFlags::RNR_WAIT) {
        return;
    }
    qp.cold.watchdog.something_is_missing();
    SendStream::of_requests(qp).tell_loss(units.now);
    if let Some(plain) = qp.cold.plain.as_deref() {
        adopt_window(qp.hot, &plain.req);
    }
    go_back(qp, units);
}

/// A NAK of the packet at `una`; all before it is done.
fn on_refusal(qp: &mut Qp<'_>, units: &mut Units, syndrome: Syndrome) {
    let outstanding = qp.cold.plain.as_deref().map_or(0, |plain| outstanding(qp.hot, &plain.req));
    if outstanding == 0 {
        units.counters.drop_stale_ack += 1;
        return;
    }
    units.charge_refusal(qp.cold.slot);
    match syndrome {
        Syndrome::Nak(NakCode::PsnSequence) => {
            count!(units, qp.cold, rx_nacks);
            on_gap(qp, units);
        }
        Syndrome::RnrNak { timer } => {
            count!(units, qp.cold, rx_rnr_naks);
            wait_for_receive(qp, units, timer);
        }
        Syndrome::Nak(code) => {
            units.counters.rx_error_naks += 1;
            fail_head(qp, units, status_of(code));
        }
        // Neither comes here.
        Syndrome::Ack { .. } | Syndrome::Reserved(_) => {}
    }
}

/// The peer has no receive for the message at `una`: when the wait is over, it goes again, and all
/// behind it.
fn wait_for_receive(qp: &mut Qp<'_>, units: &mut Units, timer: u8) {
    match begin_rnr(qp, units, timer) {
        Rnr::Waits => {}
        Rnr::WaitedBefore => return,
        Rnr::Exhausted => return fail_head(qp, units, WcStatus::RnrRetryExcErr),
    }
    if let Some(plain) = qp.cold.plain.as_deref_mut() {
        // One packet asks whether there is a receive now.
        plain.req.restart = 1;
        adopt_window(qp.hot, &plain.req);
    }
    go_back(qp, units);
}

/// The wait is over, or was for nothing: the stream goes on where it went back to.
pub(super) fn end_rnr(qp: &mut Qp<'_>) {
    qp.cold.rnr = None;
    qp.hot.flags.remove(QpFlags::RNR_WAIT);
    if let Some(plain) = qp.cold.plain.as_deref_mut() {
        plain.req.obeyed_at = None;
    }
}
