//! A queue pair's timer fired: RNR waits, tail probes, retransmission timeouts, and the end of all
//! retries.

use super::ask::{waits_for_responses, watch_responses};
use crate::qp::requester::give_up;
use crate::qp::send_stream::SendStream;
use crate::qp::{Qp, Units};
use crate::sched::SchedFlags;
use crate::time::Time;

/// Looks at what is due, and arms the timer again if anything is outstanding.
pub(in crate::qp) fn on_timer(qp: &mut Qp<'_>, units: &mut Units) {
    qp.hot.sched.remove(SchedFlags::TIMED);
    let next = match wait_of_rnr(qp, units.now) {
        Some(until) => Some(until),
        // Behind a message that finds no receive the peer takes nothing, and says nothing of it.
        None if qp.hot.tx.outstanding() > 0 => {
            let (heard_at, kept_back) = (qp.cold.heard_at, qp.cold.rnr.is_some());
            SendStream::of_requests(qp).watch(units, heard_at, kept_back)
        }
        None if waits_for_responses(qp) => watch_responses(qp, units),
        None => return qp.wake(qp.cold.requests(), units),
    };
    match next {
        Some(next) => SendStream::of_requests(qp).arm_at(units, next),
        None => give_up(qp, units),
    }
    qp.wake(qp.cold.requests(), units);
}

/// While an RNR wait lasts, returns its end; at its end, lets `una` alone go out.
fn wait_of_rnr(qp: &mut Qp<'_>, now: Time) -> Option<Time> {
    let rnr = qp.cold.rnr.as_mut().filter(|rnr| !rnr.probing)?;
    if now < rnr.until {
        return Some(rnr.until);
    }
    rnr.probing = true;
    qp.cold.probes = [Some(qp.hot.tx.una()), None];
    qp.hot.sched.insert(SchedFlags::PROBE);
    qp.cold.watchdog.progress(now);
    None
}
