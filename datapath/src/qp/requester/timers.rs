//! A queue pair's timer fired: RNR waits, tail probes, retransmission timeouts, and the end of all retries.

use super::ask::{waits_for_responses, watch_responses};
use crate::engine::Units;
use crate::qp::context::{PendingFailure, QpCold, Qpc};
use crate::qp::send_stream::{SendStream, wake};
use crate::qp::{fail, plain};
use crate::queue::WcStatus;
use crate::sched::SchedFlags;
use crate::time::Time;
use wire::WireMode;

/// Looks at what is due, and arms the timer again if anything is outstanding.
pub(crate) fn on_timer(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) {
    if qpc.id.mode == WireMode::Plain {
        plain::on_timer(qpc, cold, units);
        return;
    }
    qpc.sched.remove(SchedFlags::TIMED);
    let next = match wait_of_rnr(qpc, cold, units.now) {
        Some(until) => Some(until),
        // Behind a message that finds no receive the peer takes nothing, and says nothing of it.
        None if qpc.tx.outstanding() > 0 => {
            let (heard_at, kept_back) = (cold.heard_at, cold.rnr.is_some());
            SendStream::of_requests(qpc, cold).watch(units, heard_at, kept_back)
        }
        None if waits_for_responses(qpc, cold) => watch_responses(qpc, cold, units),
        None => return wake(qpc, cold, units, cold.requests()),
    };
    match next {
        Some(next) => SendStream::of_requests(qpc, cold).arm_at(units, next),
        None => give_up(qpc, cold, units),
    }
    wake(qpc, cold, units, cold.requests());
}

/// Disarms the timer of a queue pair for which nothing is awaited, if there are many: one that fires for nothing fetches a queue
/// pair that nobody needs. Among few it stays, as it may be wanted again soon, and so it does in wire mode Plain.
#[inline]
pub(super) fn calm(qpc: &mut Qpc, cold: &QpCold, units: &mut Units) {
    if units.crowded
        && qpc.sched.contains(SchedFlags::TIMED)
        && qpc.tx.outstanding() == 0
        && qpc.req.head == qpc.req.next
        && cold.rnr.is_none()
    {
        qpc.sched.remove(SchedFlags::TIMED);
        units.timers.disarm(cold.slot);
    }
}

/// While an RNR wait lasts, returns its end; at its end, lets `una` alone go out.
fn wait_of_rnr(qpc: &mut Qpc, cold: &mut QpCold, now: Time) -> Option<Time> {
    let rnr = cold.rnr.as_mut().filter(|rnr| !rnr.probing)?;
    if now < rnr.until {
        return Some(rnr.until);
    }
    rnr.probing = true;
    cold.probes = [Some(qpc.tx.una()), None];
    qpc.sched.insert(SchedFlags::PROBE);
    cold.watchdog.progress(now);
    None
}

/// Retries are exhausted.
pub(in crate::qp) fn give_up(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) {
    units.counters.retry_exceeded += 1;
    let failure = PendingFailure { position: qpc.req.head, status: WcStatus::RetryExcErr };
    fail(qpc, cold, units, Some(failure));
}
