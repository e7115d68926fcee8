//! READ-ACKs, and the timers and losses of a response stream.

use super::respond::{arm_timer, is_kept_back};
use super::responses::Responses;
use crate::counters::count;
use crate::engine::Units;
use crate::qp::context::{QpCold, Qpc};
use crate::qp::fail;
use crate::qp::feedback::{Sender, adopt_window};
use crate::sched::SchedFlags;
use crate::stream::{AckInfo, Verdict};
use sr_recovery::{Command, StreamId};
use wire::{Ackx, NakCode, Syndrome};

/// Handles an acknowledgement of responses that passed the checks of protocol.md 1.2.
#[inline(never)]
pub(crate) fn on_read_ack(
    qpc: &mut Qpc,
    cold: &mut QpCold,
    units: &mut Units,
    info: AckInfo,
    ackx: Ackx,
    syndrome: Syndrome,
) {
    if !qpc.id.state.receives() {
        units.counters.drop_qp_state += 1;
        return;
    }
    let known = matches!(syndrome, Syndrome::Ack { .. } | Syndrome::Nak(NakCode::PsnSequence));
    let Some(responses) = cold.responses.as_deref_mut().filter(|_| known) else {
        units.counters.drop_bad_ack += 1;
        return;
    };
    let app_limited = !responses.has_new_work();
    let Responses { tx, tx_recovery: recovery, feedback, controller, watchdog, .. } = &mut *responses;
    let sender = Sender { tx, recovery, watchdog, controller, feedback, pmtu: qpc.id.pmtu, app_limited };
    let Ok(acked) = sender.acknowledge(units, &info, &ackx) else { return };
    let is_nack = !matches!(syndrome, Syndrome::Ack { .. });
    responses.missed = is_nack || (responses.missed && acked == 0);
    if is_nack {
        count!(units, cold, rx_nacks);
    }
    if acked > 0 {
        responses.release();
        // It may rest because of a response that was kept back.
        arm_timer(cold.slot, responses, units);
    }
    settle(qpc, cold, units);
}

/// Applies a decision of the slow path about responses that were sent.
pub(crate) fn on_response_command(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units, command: &Command) {
    let Some(responses) = cold.responses.as_deref_mut() else { return };
    if responses.tx.on_command(&mut responses.tx_recovery, command) {
        responses.tx_recovery.tell_loss(&mut responses.controller, units.now);
        adopt_window(&mut responses.tx, &responses.controller, qpc.id.pmtu);
    }
    wake(qpc, cold, units);
}

/// Looks at what is due, and arms the timer again if anything is outstanding.
pub(crate) fn on_response_timer(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) {
    let (slot, heard_at) = (cold.slot, cold.heard_at);
    let Some(responses) = cold.responses.as_deref_mut() else { return };
    responses.sched.remove(SchedFlags::TIMED);
    // A queue pair that refuses is to end: its peer, in ERR, may say nothing any more.
    let rests = cold.refusal.is_none() && is_kept_back(qpc, responses, &units.memory);
    if responses.tx.outstanding() == 0 || rests {
        return;
    }
    responses.watchdog.sync(responses.tx.progress_at());
    loop {
        match responses.watchdog.check(units.now, heard_at, responses.tx.outstanding()) {
            Verdict::Wait(until) => {
                responses.sched.insert(SchedFlags::TIMED);
                units.timers.arm(units.number_of(StreamId { qp: slot, response: true }), until);
                wake(qpc, cold, units);
                return;
            }
            Verdict::TailProbe => {
                units.counters.tail_probes += 1;
                if responses.probes == [None; 2] {
                    responses.probes = [Some(responses.tx.tail_psn(&responses.tx_recovery)), None];
                }
            }
            Verdict::Rto => {
                count!(units, cold, rto_fired);
                responses.tx_recovery.tell_timeout(&mut responses.controller, units.now);
                adopt_window(&mut responses.tx, &responses.controller, qpc.id.pmtu);
                let (probes, record) = responses.tx.on_rto(&mut responses.tx_recovery);
                responses.probes = probes;
                if let Some(record) = record {
                    units.tell_slow_path(record);
                }
            }
            Verdict::Exhausted => {
                units.counters.retry_exceeded += 1;
                fail(qpc, cold, units, None);
                return;
            }
        }
        responses.sched.insert(SchedFlags::PROBE);
    }
}

/// After an error NAK, responses are served until they are acknowledged; then the queue pair goes to ERR.
fn settle(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) {
    let Some(responses) = cold.responses.as_deref_mut() else { return };
    if cold.refusal.is_some() && responses.is_idle() {
        fail(qpc, cold, units, None);
    } else {
        wake(qpc, cold, units);
    }
}

/// Ends the stream: nothing is resent.
pub(in crate::qp) fn stop_responses(cold: &mut QpCold, units: &mut Units) {
    let timer = units.number_of(cold.of_responses());
    let Some(responses) = cold.responses.as_deref_mut() else { return };
    if let Some(record) = responses.abandon() {
        units.tell_slow_path(record);
    }
    units.timers.disarm(timer);
}

/// Wakes the stream if it became ready.
fn wake(qpc: &mut Qpc, cold: &QpCold, units: &mut Units) {
    let ready = cold.responses.as_deref().is_some_and(Responses::is_ready);
    units.wake(cold.of_responses(), qpc, ready);
}
