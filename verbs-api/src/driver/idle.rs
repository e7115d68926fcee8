//! The backoff of a polling thread that finds nothing to do: it spins, then yields its processor,
//! then sleeps.

mod crowd;
#[cfg(test)]
mod tests;

use crate::shared::Shared;
use core::time::Duration;
use crowd::Crowd;
use datapath::time::Time;
use std::thread;
use std::time::Instant;

/// A round trip that is under way is waited for, not slept through.
const SPIN_NS: u64 = 50_000;
/// Then others may have the processor, if any wants it.
const YIELD_NS: u64 = 200_000;
/// The first sleep; each further one is twice as long.
const SLEEP_MIN: Duration = Duration::from_micros(50);
/// The longest: so long a frame may wait at a port without interrupts for an engine that was idle.
const SLEEP_MAX: Duration = Duration::from_millis(1);
/// On a crowded processor a thread spins no longer than this: what comes later pays for a sleep.
const CROWDED_SPIN_NS: u64 = 2_000;
/// What a polling thread that found nothing to do does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backoff {
    /// Look again at once.
    Spin,
    /// Look again when no other thread wants the processor.
    Yield,
    /// Look again after this time, or when woken.
    Sleep(Duration),
}

/// How long a polling loop has found nothing to do. It says to spin for 50 us, then to yield until
/// 200 us, and then to sleep, from 50 us up to 1 ms at a time.
///
/// Now and then it says to yield while it spins. A loop that does so by [`Idle::yield_now`] learns
/// whether other threads want its processor: then the yield takes long, and for 10 ms, or longer if
/// that repeats, the loop hears to sleep when it has found nothing for 2 us. One that yields by
/// other means goes on as before.
///
/// ```
/// use verbs_api::{Idle, Backoff, Time};
///
/// let mut idle = Idle::new(Time(0));
/// assert_eq!(idle.backoff(Time(1_000), None), Backoff::Spin);
/// assert_eq!(idle.backoff(Time(60_000), None), Backoff::Yield);
/// assert!(matches!(idle.backoff(Time(300_000), None), Backoff::Sleep(_)));
/// ```
#[derive(Debug)]
pub struct Idle {
    busy_at: Time,
    sleep: Duration,
    crowd: Crowd,
}

impl Idle {
    /// Something happened at `now`.
    #[must_use]
    pub const fn new(now: Time) -> Self {
        Self { busy_at: now, sleep: SLEEP_MIN, crowd: Crowd::new() }
    }

    /// Nothing has happened for long.
    pub(crate) const fn long(now: Time) -> Self {
        Self::new(Time(now.0.saturating_sub(YIELD_NS)))
    }

    /// Something happened.
    pub const fn busy(&mut self, now: Time) {
        self.busy_at = now;
        self.sleep = SLEEP_MIN;
    }

    /// Yields, as [`Backoff::Yield`] says, and finds out whether others want the processor.
    pub fn yield_now(&mut self) {
        let begun = Instant::now();
        thread::yield_now();
        self.crowd.yielded(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }

    /// Nothing happened: says how to wait. `deadline` is when the next thing happens if no packet
    /// comes.
    pub fn backoff(&mut self, now: Time, deadline: Option<Time>) -> Backoff {
        let idle = now.since(self.busy_at);
        if idle < CROWDED_SPIN_NS {
            return Backoff::Spin;
        }
        let until = deadline.map_or(SLEEP_MAX, |at| Duration::from_nanos(at.since(now)));
        if until.is_zero() || idle < YIELD_NS && !self.crowd.is_there(now) {
            let spins = !until.is_zero() && idle < SPIN_NS && !self.crowd.is_to_be_looked_for(now);
            return if spins { Backoff::Spin } else { self.crowd.yields(now) };
        }
        let sleep = self.sleep.min(until);
        self.sleep = (self.sleep * 2).min(SLEEP_MAX);
        Backoff::Sleep(sleep)
    }
}

/// The waits of a caller that looks for something until it is there. It never spins: what it waits
/// for may need this processor.
#[derive(Debug)]
pub(crate) struct PollBackoff {
    since: Instant,
    idle: Idle,
}

impl PollBackoff {
    pub fn new() -> Self {
        Self { since: Instant::now(), idle: Idle::new(Time::ZERO) }
    }

    /// After a look in vain: waits before the next, `left` at most, or until frames come.
    pub fn wait_after_poll(&mut self, shared: &Shared, something_happened: bool, left: Duration) {
        let now = Time(u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX));
        if something_happened {
            self.idle.busy(now);
        }
        match self.idle.backoff(now, None) {
            Backoff::Spin | Backoff::Yield => thread::yield_now(),
            Backoff::Sleep(limit) => shared.rest(limit.min(left)),
        }
    }
}
