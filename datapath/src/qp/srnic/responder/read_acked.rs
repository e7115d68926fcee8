//! READ-ACKs, and the timers and losses of a response stream.

use super::respond::is_kept_back;
use crate::counters::count;
use crate::qp::{Qp, Units, fail, hear_host};
use crate::sched::SchedFlags;
use crate::stream::AckInfo;
use wire::{Ackx, NakCode, Syndrome};

/// Handles an acknowledgement of responses that passed the checks of protocol.md 1.2.
#[inline(never)]
pub(crate) fn on_read_ack(qp: &mut Qp<'_>, units: &mut Units, info: AckInfo, ackx: Ackx, syndrome: Syndrome) {
    if !qp.hot.id.state.receives() {
        units.counters.drop_qp_state += 1;
        return;
    }
    let id = qp.cold.of_responses();
    let known = matches!(syndrome, Syndrome::Ack { .. } | Syndrome::Nak(NakCode::PsnSequence));
    let Some(responses) = qp.cold.responses.as_deref_mut().filter(|_| known) else {
        units.counters.drop_bad_ack += 1;
        return;
    };
    let app_limited = !responses.has_new_work();
    let stream = responses.stream(qp.hot, &mut qp.cold.counters, id);
    let Ok(acked) = stream.acknowledge(units, &info, &ackx, app_limited) else { return };
    let is_nack = !matches!(syndrome, Syndrome::Ack { .. });
    responses.missed = is_nack || (responses.missed && acked == 0);
    if is_nack {
        count!(units, qp.cold, rx_nacks);
    }
    if acked > 0 {
        responses.release();
        // Its timer may be off because of a response that was kept back.
        responses.stream(qp.hot, &mut qp.cold.counters, id).arm(units);
    }
    let is_idle = responses.is_idle();
    if acked > 0 && qp.hot.responses_sched.contains(SchedFlags::PACED) {
        hear_host(qp, units, id, ackx.ack_delay_ns(), app_limited);
    }
    // After an error NAK, responses are served until they are acknowledged; then the queue pair
    // goes to ERR.
    if qp.cold.refusal.is_some() && is_idle {
        fail(qp, units, None);
    } else {
        qp.wake(id, units);
    }
}

/// Looks at what is due, and arms the timer again if anything is outstanding.
pub(crate) fn on_response_timer(qp: &mut Qp<'_>, units: &mut Units) {
    let (id, heard_at) = (qp.cold.of_responses(), qp.cold.heard_at);
    let Some(responses) = qp.cold.responses.as_deref_mut() else { return };
    qp.hot.responses_sched.remove(SchedFlags::TIMED);
    // A queue pair that refuses is to end: its peer, in ERR, may say nothing any more.
    let is_kept_back = qp.cold.refusal.is_none() && is_kept_back(qp.hot, responses, &units.memory);
    if responses.tx.outstanding() == 0 || is_kept_back {
        return;
    }
    let mut stream = responses.stream(qp.hot, &mut qp.cold.counters, id);
    if let Some(next) = stream.watch(units, heard_at, false) {
        stream.arm_at(units, next);
        qp.wake(id, units);
    } else {
        units.counters.retry_exceeded += 1;
        fail(qp, units, None);
    }
}

/// Ends the stream: nothing is resent.
pub(in crate::qp) fn stop_responses(qp: &mut Qp<'_>, units: &mut Units) {
    let id = qp.cold.of_responses();
    let Some(responses) = qp.cold.responses.as_deref_mut() else { return };
    responses.clear();
    responses.stream(qp.hot, &mut qp.cold.counters, id).stop(units);
}
