//! A queue pair's timer fired: RNR waits, tail probes, retransmission timeouts, and the end of all retries.

use super::ask::{waits_for_responses, watch_responses};
use super::wake;
use crate::counters::count;
use crate::engine::Units;
use crate::qp::context::{PendingFailure, QpCold, Qpc};
use crate::qp::{adopt_window, fail, plain};
use crate::queue::WcStatus;
use crate::sched::SchedFlags;
use crate::stream::Verdict;
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
        None if qpc.tx.outstanding() > 0 => watch(qpc, cold, units),
        None if waits_for_responses(qpc, cold) => {
            let next = watch_responses(qpc, cold, units);
            if next.is_none() {
                give_up(qpc, cold, units);
            }
            next
        }
        None => None,
    };
    if let Some(next) = next {
        qpc.sched.insert(SchedFlags::TIMED);
        units.timers.arm(cold.slot, next);
    }
    wake(qpc, cold, units);
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

/// Asks the watchdog until it is content. Returns when to look again, or `None` if the queue pair failed.
fn watch(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) -> Option<Time> {
    cold.watchdog.sync(qpc.tx.progress_at());
    loop {
        match cold.watchdog.check(units.now, cold.heard_at, qpc.tx.outstanding()) {
            Verdict::Wait(until) => return Some(until),
            Verdict::TailProbe => {
                units.counters.tail_probes += 1;
                if cold.probes == [None; 2] {
                    // Behind a message that finds no receive the peer takes nothing, and says nothing of it.
                    let psn = match cold.rnr {
                        Some(_) => qpc.tx.una(),
                        None => qpc.tx.tail_psn(&cold.tx_recovery),
                    };
                    cold.probes = [Some(psn), None];
                }
            }
            Verdict::Rto => {
                count!(units, cold, rto_fired);
                cold.tx_recovery.tell_timeout(&mut qpc.controller, units.now);
                adopt_window(&mut qpc.tx, &qpc.controller, qpc.id.pmtu);
                let (probes, record) = qpc.tx.on_rto(&mut cold.tx_recovery);
                cold.probes = probes;
                if let Some(record) = record {
                    units.tell_slow_path(record);
                }
            }
            Verdict::Exhausted => {
                give_up(qpc, cold, units);
                return None;
            }
        }
        if cold.probes != [None; 2] {
            qpc.sched.insert(SchedFlags::PROBE);
        }
    }
}
