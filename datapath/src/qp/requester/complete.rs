//! Requests complete, in order: those that are acknowledged, and have their response.

use crate::event::AsyncEvent;
use crate::qp::context::PendingFailure;
use crate::qp::plain::Plain;
use crate::qp::srnic::{Reads, take_answer};
use crate::qp::{Qp, QpFlags, Units, fail};
use crate::qp_state::QpState;
use crate::sched::SchedFlags;
use wire::Ssn;

/// In SQD, with no request begun: the application is told if it asked for it. Called when the last
/// one is done, and on entry.
pub(crate) fn tell_if_drained(qp: &Qp<'_>, units: &mut Units) {
    // A Plain queue pair that has gone back stands where nothing seems to have begun.
    let idle = qp.hot.req.sent == 0
        && qp.hot.req.head == qp.hot.req.next
        && !qp.hot.flags.contains(QpFlags::REWOUND);
    let drained = qp.hot.id.state == QpState::Sqd && idle;
    if drained && qp.cold.attributes.attr.en_sqd_async_notify {
        units.events.push(AsyncEvent::SqDrained { qpn: qp.hot.id.qpn });
    }
}

/// A response came: complete what is done.
pub(in crate::qp) fn complete_answered(qp: &mut Qp<'_>, units: &mut Units) {
    complete_acknowledged(qp, units);
    disarm_if_idle(qp, units);
    tell_if_drained(qp, units);
}

/// Completes the requests whose last packet is acknowledged, and whose response is here.
#[inline(always)]
pub(in crate::qp) fn complete_acknowledged(qp: &mut Qp<'_>, units: &mut Units) {
    let (una, first, next) = (qp.hot.tx.una(), qp.hot.req.head, qp.hot.req.next);
    let mut completions = units.completions(qp.hot.send_cq);
    let (entries, queue) = (&*qp.cold.sq_entries, &qp.cold.send_queue);
    let (mut head, mut fits) = (first, true);
    while fits && head != next {
        let entry = &entries[head as usize & (entries.len() - 1)];
        if una.is_before(entry.first_psn.add(entry.packets)) {
            break;
        }
        let sent = queue.sent(head);
        if sent.opcode.has_response() {
            let rslot = entry.ssn;
            if !is_answered(&mut qp.cold.plain, &mut qp.cold.reads, rslot, &mut qp.hot.flags) {
                break;
            }
        }
        if let Some(completion) = sent.completion(qp.hot.id.qpn) {
            fits = completions.write(&completion);
        }
        head = head.wrapping_add(1);
    }
    qp.hot.req.head = head;
    if head != first {
        units.completions(qp.hot.send_cq).show(qp.cold.send_queue.release(head));
        // What waited for all of them may begin.
        if head == next {
            qp.hot.flags.remove(QpFlags::READ_WAIT);
        }
    }
    if !fits {
        fail(qp, units, None);
    } else if let Some(failure) = qp.cold.failure {
        settle_failure(qp, units, failure);
    }
}

/// Takes the response of an acknowledged READ or atomic, in slot `rslot`; false if it is not here.
#[inline(never)]
fn is_answered(
    plain: &mut Option<Box<Plain>>,
    reads: &mut Option<Box<Reads>>,
    rslot: Ssn,
    flags: &mut QpFlags,
) -> bool {
    let Some(plain) = plain.as_deref_mut() else { return take_answer(reads, rslot, flags) };
    // Plain: `una` passes a READ only with its response.
    plain.take_answer(flags);
    true
}

/// A request that could not be sent, or not again, fails when all before it have completed; one
/// that turns out to have arrived does not.
#[cold]
#[inline(never)]
fn settle_failure(qp: &mut Qp<'_>, units: &mut Units, failure: PendingFailure) {
    if failure.position == qp.hot.req.head {
        fail(qp, units, Some(failure));
    } else if qp.hot.req.head.wrapping_sub(failure.position).cast_signed() > 0 {
        qp.cold.failure = None;
    }
}

/// Disarms the timer of a queue pair for which nothing is awaited, if there are many: one that
/// fires for nothing fetches a queue pair that nobody needs. Among few it stays, as it may be
/// wanted again soon.
#[inline(always)]
pub(in crate::qp) fn disarm_if_idle(qp: &mut Qp<'_>, units: &mut Units) {
    if units.crowded {
        disarm_in_crowd(qp, units);
    }
}

fn disarm_in_crowd(qp: &mut Qp<'_>, units: &mut Units) {
    if qp.hot.sched.contains(SchedFlags::TIMED)
        && qp.hot.tx.outstanding() == 0
        && qp.hot.req.head == qp.hot.req.next
        && qp.cold.rnr.is_none()
    {
        qp.hot.sched.remove(SchedFlags::TIMED);
        units.timers.disarm(qp.cold.slot);
    }
}
