//! How long a requester waits for a receive of its peer's, in either dialect.

use crate::qp::context::QpCold;
use crate::time::Time;
use wire::rnr_timer_ns;

/// An `rnr_retry` that means for ever.
const RNR_FOR_EVER: u8 = 7;
/// Waits without end grow with the time that the receive has been missing, by this part of it, up
/// to this many nanoseconds (docs/adr/0030).
const RNR_GROWTH: u64 = 8;
const RNR_WAIT_MAX_NS: u64 = 16_000_000;

/// Counts a wait that an RNR NAK asks for, and says when it ends; `None` if `rnr_retry` allows no
/// more. One that may last for ever costs the less often the longer it lasts; those that are
/// counted are as long as the peer asks for.
pub(in crate::qp) fn next_rnr_wait(cold: &mut QpCold, now: Time, timer: u8) -> Option<Time> {
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

/// An RNR NAK during the wait of another: the peer has received `una` twice, as it says nothing of
/// what lies behind. It takes longer to answer than the timers believe, and has told nothing that
/// they could learn it from.
pub(in crate::qp) fn refused_again(cold: &mut QpCold) {
    cold.watchdog.received_twice();
}
