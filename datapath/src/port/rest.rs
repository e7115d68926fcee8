//! The rest of a thread that finds nothing at a port.

use crate::time::Time;
pub use ::memif::Interrupt;
use core::time::Duration;

/// What a thread that found nothing may do until it looks at a port again: from
/// [`Port::rest`](super::Port::rest).
#[derive(Clone, Debug, Default)]
pub struct Rest {
    /// It ends the sleep of whoever waits for it when frames come. A thread that does not wait for
    /// it finds them when it looks.
    pub interrupt: Option<Interrupt>,
    /// For how many nanoseconds nobody has to look if the interrupt does not come. `None`: somebody
    /// looks at the usual intervals, a millisecond at most.
    pub unwatched_ns: Option<u64>,
}

impl Rest {
    /// How long a thread sleeps whose usual interval is over after `usual`, and whose work is due
    /// at `deadline` if nothing comes.
    #[must_use]
    pub fn sleep(&self, usual: Duration, now: Time, deadline: Option<Time>) -> Duration {
        let Some(unwatched_ns) = self.unwatched_ns else { return usual };
        let until_deadline = deadline.map_or(u64::MAX, |at| at.since(now));
        Duration::from_nanos(unwatched_ns.min(until_deadline))
    }
}
