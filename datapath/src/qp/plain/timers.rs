//! A Plain queue pair's timer fired: the end of an RNR wait, tail probes, timeouts, and the end of
//! all retries.

use super::acknowledged::end_rnr;
use super::requester::{adopt_window, find, go_back, outstanding};
use crate::qp::requester::give_up;
use crate::qp::send_stream::SendStream;
use crate::qp::{Qp, QpFlags, Units};
use crate::sched::SchedFlags;
use crate::stream::Verdict;
use crate::time::Time;

/// Looks at what is due, and arms the timer again if anything is outstanding.
#[cold]
pub(crate) fn on_timer(qp: &mut Qp<'_>, units: &mut Units) {
    qp.hot.sched.remove(SchedFlags::TIMED);
    let waiting = qp.cold.rnr.map(|rnr| rnr.until);
    let next = match waiting {
        Some(until) if units.now < until => Some(until),
        _ => {
            if waiting.is_some() {
                end_rnr(qp);
                qp.cold.watchdog.progress(units.now);
            }
            watch(qp, units)
        }
    };
    if let Some(next) = next {
        SendStream::of_requests(qp).arm_at(units, next);
    }
    qp.wake(qp.cold.requests(), units);
}

/// Asks the watchdog until it is content. Returns when to look again, or `None` if nothing is
/// outstanding any more.
fn watch(qp: &mut Qp<'_>, units: &mut Units) -> Option<Time> {
    qp.cold.watchdog.sync(qp.hot.tx.progress_at());
    loop {
        let outstanding = outstanding(qp.hot, &qp.cold.plain.as_deref()?.req);
        if outstanding == 0 {
            return None;
        }
        match qp.cold.watchdog.check(units.now, qp.cold.heard_at, outstanding) {
            Verdict::Wait(until) => return Some(until),
            Verdict::TailProbe => probe_tail(qp, units),
            Verdict::Rto => {
                SendStream::of_requests(qp).tell_timeout(units);
                if let Some(plain) = qp.cold.plain.as_deref_mut() {
                    plain.req.restart = 1;
                    adopt_window(qp.hot, &plain.req);
                }
                go_back(qp, units);
            }
            Verdict::Exhausted => {
                give_up(qp, units);
                return None;
            }
        }
    }
}

/// One packet goes once more: the last, whose arrival makes the peer say what is missing; or the
/// first, if the peer has said that already, which it does once. Not one that asks for a response:
/// a READ would be answered as a whole.
fn probe_tail(qp: &mut Qp<'_>, units: &mut Units) {
    let Some(req) = qp.cold.plain.as_deref().map(|plain| &plain.req) else { return };
    let una = qp.hot.tx.una();
    let psn = if req.obeyed_at == Some(una) { una } else { req.max.prev() };
    let asks = find(qp, req.begun, psn)
        .is_none_or(|position| qp.cold.send_queue.wqe(position).opcode.has_response());
    if asks || qp.hot.flags.contains(QpFlags::REWOUND) {
        return;
    }
    SendStream::of_requests(qp).probe_tail(units, |_| psn);
}
