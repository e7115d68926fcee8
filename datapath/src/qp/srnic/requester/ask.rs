//! Asking once more for responses that do not come (protocol.md 2.4).

use crate::counters::count;
use crate::qp::{Qp, Units};
use crate::sched::SchedFlags;
use crate::stream::Verdict;
use crate::time::Time;

/// Whether only responses are missing: every request that was sent is acknowledged. A READ that has
/// its slot and found no room in the port was not sent.
pub(super) fn waits_for_responses(qp: &Qp<'_>) -> bool {
    let begun = qp.hot.req.head != qp.hot.req.next;
    begun
        && qp.hot.tx.outstanding() == 0
        && qp.cold.reads.as_deref().is_some_and(|reads| reads.under_way() > 0)
}

/// The response timer: when nothing has come for long enough, the oldest request is to be sent
/// again. Returns when to look again, or `None` if the retries are exhausted.
#[cold]
pub(super) fn watch_responses(qp: &mut Qp<'_>, units: &mut Units) -> Option<Time> {
    let (rtt, heard_at) = (qp.cold.watchdog.rtt, qp.cold.heard_at);
    let reads = qp.cold.reads.as_deref_mut()?;
    reads.watchdog.rtt = rtt;
    reads.watchdog.sync(reads.progress_at.max(qp.hot.tx.progress_at()));
    loop {
        // As if many packets were outstanding: the high timeout.
        match reads.watchdog.check(units.now, heard_at, u32::MAX) {
            Verdict::Wait(until) => return Some(until),
            // A lost response is the responder's to find; the request is not what is missing.
            Verdict::TailProbe => {}
            Verdict::Rto => {
                count!(units, qp.cold, response_timeouts);
                reads.ask_again = true;
                qp.hot.sched.insert(SchedFlags::PROBE);
            }
            Verdict::Exhausted => return None,
        }
    }
}
