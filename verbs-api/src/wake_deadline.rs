//! The time at which the driver of an engine must call whoever has work beside the engine's turns.

use datapath::time::Time;
use std::sync::atomic::{AtomicU64, Ordering};

/// The time of the engine's clock at which a waiter, such as the connection manager, must be
/// called. A check costs one relaxed load.
///
/// A waiter publishes its work before it sets the deadline, and looks for work after the deadline
/// was cleared. So work is either seen or sets the deadline again.
pub(crate) struct WakeDeadline(AtomicU64);

impl WakeDeadline {
    /// No deadline.
    pub const fn never() -> Self {
        Self(AtomicU64::new(Time::NEVER.0))
    }

    /// The waiter must be called at once.
    pub fn wake_now(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// The waiter must be called at `time`, or earlier if an earlier deadline is set.
    pub fn wake_by(&self, time: Time) {
        self.0.fetch_min(time.0, Ordering::Relaxed);
    }

    /// Clears the deadline. The caller does so before it looks for work, so that later work sets
    /// the deadline again.
    pub fn clear(&self) {
        self.0.swap(Time::NEVER.0, Ordering::AcqRel);
    }

    /// True if the deadline is reached.
    #[inline]
    pub fn is_due(&self, now: Time) -> bool {
        now.0 >= self.0.load(Ordering::Relaxed)
    }

    /// The deadline, if one is set.
    pub fn get(&self) -> Option<Time> {
        let time = Time(self.0.load(Ordering::Relaxed));
        (time != Time::NEVER).then_some(time)
    }
}
