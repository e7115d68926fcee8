//! RNR NAKs: how long a requester waits for a receive of its peer's, in either dialect.

use crate::qp::context::RnrWait;
use crate::qp::send_stream::SendStream;
use crate::qp::{Qp, QpCold, QpFlags, Units};
use crate::time::Time;
use wire::rnr_timer_ns;

/// An `rnr_retry` that means for ever.
const RNR_FOR_EVER: u8 = 7;
/// Waits without end grow with the time that the receive has been missing, by this part of it, up
/// to this many nanoseconds (docs/adr/0030).
const RNR_GROWTH: u64 = 8;
const RNR_WAIT_MAX_NS: u64 = 16_000_000;

/// What an RNR NAK brought about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::qp) enum Rnr {
    /// Nothing is sent until the wait is over.
    Waits,
    /// It was so before. The peer has received `una` twice, as it says nothing of what lies behind:
    /// it takes longer to answer than the timers believe, and has told nothing that they could
    /// learn it from.
    WaitedBefore,
    /// `rnr_retry` allows no more waits.
    Exhausted,
}

/// The peer has no receive for the message at `una`, as an RNR NAK with that `timer` says.
pub(in crate::qp) fn begin_rnr(qp: &mut Qp<'_>, units: &mut Units, timer: u8) -> Rnr {
    let sent_until = match qp.cold.rnr {
        Some(rnr) if !rnr.probing => {
            qp.cold.watchdog.received_twice();
            return Rnr::WaitedBefore;
        }
        Some(rnr) => rnr.sent_until,
        None => qp.hot.tx.nxt(),
    };
    let Some(until) = next_wait(qp.cold, units.now, timer) else { return Rnr::Exhausted };
    qp.cold.rnr = Some(RnrWait { until, sent_until, probing: false });
    qp.hot.flags.insert(QpFlags::RNR_WAIT);
    let mut stream = SendStream::of_requests(qp);
    stream.cancel_probes();
    stream.watchdog.progress(units.now);
    stream.arm_at(units, until);
    Rnr::Waits
}

/// Counts a wait that an RNR NAK asks for, and says when it ends; `None` if `rnr_retry` allows no
/// more. One that may last for ever costs the less often the longer it lasts; those that are
/// counted are as long as the peer asks for.
fn next_wait(cold: &mut QpCold, now: Time, timer: u8) -> Option<Time> {
    let allowed = cold.attributes.attr.rnr_retry;
    if cold.rnr_retries >= allowed && allowed != RNR_FOR_EVER {
        return None;
    }
    if cold.rnr_retries == 0 {
        cold.rnr_since = now;
    }
    cold.rnr_retries = cold.rnr_retries.saturating_add(1);
    let grown = (now.since(cold.rnr_since) / RNR_GROWTH).min(RNR_WAIT_MAX_NS);
    let asked = rnr_timer_ns(timer);
    Some(now.after(if allowed == RNR_FOR_EVER { asked.max(grown) } else { asked }))
}
