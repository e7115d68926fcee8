//! On the way to a sleep that only an interrupt ends.
//!
//! A sender stores its count, and then loads the flag that says whether somebody polls. Neither
//! waits for the other: a sender that does both while we ask for interrupts may see that we poll,
//! and its count may not be visible to us yet. Both are within a moment: a store leaves a
//! processor as soon as it has the cache line, at the latest when the thread loses its processor.
//! So who has asked sleeps for [`SETTLE_NS`] at most, and looks again. What was stored before the
//! end of that time is found; whoever stores later sees that it has to raise an interrupt.
//! `datapath/src/queue/tests/loom_models.rs` has the argument as a model.

use crate::time::Time;

/// Longer than any store takes to become visible to another processor, in nanoseconds.
const SETTLE_NS: u64 = 50_000;

/// How far a port is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Drowsiness {
    /// It is polled.
    Awake,
    /// Somebody asked for interrupts after the last look.
    Asked,
    /// So somebody did before this time.
    Settling(Time),
    /// It was looked at once more, and nothing was there: nothing comes without an interrupt.
    Drowsy,
}

impl Drowsiness {
    /// Somebody has asked for interrupts.
    pub fn ask(&mut self) {
        if *self == Self::Awake {
            *self = Self::Asked;
        }
    }

    /// A look in vain, which began after `now`.
    #[inline]
    pub fn found_nothing(&mut self, now: Time) {
        if *self != Self::Awake {
            self.settle(now);
        }
    }

    #[cold]
    fn settle(&mut self, now: Time) {
        match *self {
            Self::Awake | Self::Drowsy => {}
            Self::Asked => *self = Self::Settling(now),
            Self::Settling(since) if now.since(since) >= SETTLE_NS => *self = Self::Drowsy,
            Self::Settling(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_drowsy_once_it_was_found_empty_long_after_it_was_asked() {
        let mut port = Drowsiness::Awake;
        port.found_nothing(Time(1));
        assert_eq!(port, Drowsiness::Awake);
        port.ask();
        // The time of this look was read after the asking; that of the asking is not known.
        port.found_nothing(Time(1_000_000));
        port.ask();
        port.found_nothing(Time(1_000_000 + SETTLE_NS - 1));
        assert_eq!(port, Drowsiness::Settling(Time(1_000_000)));
        port.found_nothing(Time(1_000_000 + SETTLE_NS));
        port.ask();
        assert_eq!(port, Drowsiness::Drowsy);
    }
}
