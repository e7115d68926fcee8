//! The sleep of a thread that drives an engine: it misses no doorbell.

use super::sync::{Alarm, AtomicBool, Ordering, fence};
use crate::port::Interrupt;
use core::time::Duration;
use std::io;

/// The place where the driving thread sleeps, and where other threads wake it.
///
/// Order: the sleeper says that it sleeps, passes a fence and looks for work once more; whoever
/// makes work publishes it, passes a fence and looks whether somebody sleeps. One of the two sees
/// the other. An engine that no thread drives costs its callers one relaxed load.
pub struct Sleep {
    /// Somebody may sleep here at all.
    threaded: AtomicBool,
    asleep: AtomicBool,
    /// Rings also for a sleeper that does not sleep yet.
    alarm: Alarm,
}

impl Sleep {
    pub(super) fn new() -> Self {
        let flag = || AtomicBool::new(false);
        Self { threaded: flag(), asleep: flag(), alarm: Alarm::new() }
    }

    /// A thread will sleep here. Call it before anybody can make work for that thread.
    ///
    /// # Errors
    /// The system has no descriptor to spare.
    pub fn enable(&self) -> io::Result<()> {
        self.alarm.prepare()?;
        self.threaded.store(true, Ordering::Release);
        Ok(())
    }

    /// Returns `true` if a thread sleeps here.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.threaded.load(Ordering::Relaxed)
    }

    /// Sleeps until somebody wakes us or the port raises its interrupt, `limit` at most, unless
    /// `idle` says that there is work already. May wake for no reason. Only one thread may sleep
    /// here.
    pub fn sleep(&self, limit: Duration, port: Option<&Interrupt>, idle: impl FnOnce() -> bool) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if idle() {
            self.alarm.wait(port, limit);
        }
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// After publishing work: wakes the sleeper if it said that it sleeps.
    #[inline]
    pub fn wake(&self) {
        if self.threaded.load(Ordering::Relaxed) {
            fence(Ordering::SeqCst);
            if self.asleep.load(Ordering::Relaxed) {
                self.ring();
            }
        }
    }

    /// One of several callers is enough.
    #[cold]
    fn ring(&self) {
        if self.asleep.compare_exchange(true, false, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.alarm.ring();
        }
    }
}
