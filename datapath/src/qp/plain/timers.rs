//! A Plain queue pair's timer fired: the end of an RNR wait, tail probes, timeouts, and the end of all retries.

use super::acknowledged::end_rnr;
use super::requester::{adopt_window, find, go_back, outstanding};
use crate::counters::count;
use crate::engine::Units;
use crate::qp::context::{QpCold, Qpc};
use crate::qp::flags::QpFlags;
use crate::qp::requester::give_up;
use crate::qp::send_stream::{SendStream, wake};
use crate::sched::SchedFlags;
use crate::stream::Verdict;
use crate::time::Time;

/// Looks at what is due, and arms the timer again if anything is outstanding.
#[cold]
pub(crate) fn on_timer(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) {
    qpc.sched.remove(SchedFlags::TIMED);
    let waiting = cold.rnr.map(|rnr| rnr.until);
    let next = match waiting {
        Some(until) if units.now < until => Some(until),
        _ => {
            if waiting.is_some() {
                end_rnr(qpc, cold);
                cold.watchdog.progress(units.now);
            }
            watch(qpc, cold, units)
        }
    };
    if let Some(next) = next {
        SendStream::of_requests(qpc, cold).arm_at(units, next);
    }
    wake(qpc, cold, units, cold.requests());
}

/// Asks the watchdog until it is content. Returns when to look again, or `None` if nothing is outstanding any more.
fn watch(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) -> Option<Time> {
    cold.watchdog.sync(qpc.tx.progress_at());
    loop {
        let outstanding = outstanding(qpc, &cold.plain.as_deref()?.req);
        if outstanding == 0 {
            return None;
        }
        match cold.watchdog.check(units.now, cold.heard_at, outstanding) {
            Verdict::Wait(until) => return Some(until),
            Verdict::TailProbe => probe_tail(qpc, cold, units),
            Verdict::Rto => {
                count!(units, cold, rto_fired);
                cold.tx_recovery.tell_timeout(&mut qpc.controller, units.now);
                if let Some(plain) = cold.plain.as_deref_mut() {
                    plain.req.restart = 1;
                    adopt_window(qpc, &plain.req);
                }
                go_back(qpc, cold, units);
            }
            Verdict::Exhausted => {
                give_up(qpc, cold, units);
                return None;
            }
        }
    }
}

/// One packet goes once more: the last, whose arrival makes the peer say what is missing; or the first, if the peer has
/// said that already, which it does once. Not one that asks for a response: a READ would be answered as a whole.
fn probe_tail(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) {
    let Some(req) = cold.plain.as_deref().map(|plain| &plain.req) else { return };
    let una = qpc.tx.una();
    let psn = if req.obeyed_at == Some(una) { una } else { req.max.prev() };
    let asks = find(qpc, cold, req.begun, psn)
        .is_none_or(|position| cold.send_queue.wqe(position).opcode.has_response());
    if asks || qpc.flags.contains(QpFlags::REWOUND) {
        return;
    }
    units.counters.tail_probes += 1;
    qpc.sched.insert(SchedFlags::PROBE);
    if let Some(plain) = cold.plain.as_deref_mut() {
        plain.req.probe = Some(psn);
    }
}
