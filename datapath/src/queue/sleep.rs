//! The sleep of a thread that drives an engine: it misses no doorbell.

use super::sync::{AtomicBool, Condvar, Mutex, Ordering, fence};
use core::time::Duration;

/// The place where the driving thread sleeps, and where other threads wake it.
///
/// Order: the sleeper says that it sleeps, passes a fence and looks for work once more; whoever
/// makes work publishes it, passes a fence and looks whether somebody sleeps. One of the two sees
/// the other. An engine that no thread drives costs its callers one relaxed load.
pub struct Sleep {
    /// Somebody may sleep here at all.
    threaded: AtomicBool,
    asleep: AtomicBool,
    /// Somebody woke the sleeper, which may not sleep yet.
    woken: Mutex<bool>,
    bell: Condvar,
}

impl Sleep {
    pub(super) fn new() -> Self {
        let flag = || AtomicBool::new(false);
        Self { threaded: flag(), asleep: flag(), woken: Mutex::new(false), bell: Condvar::new() }
    }

    /// A thread will sleep here. Call it before anybody can make work for that thread.
    pub fn enable(&self) {
        self.threaded.store(true, Ordering::Release);
    }

    /// Sleeps until somebody wakes us, `limit` at most, unless `idle` says that there is work
    /// already. May wake for no reason. Only one thread may sleep here.
    pub fn sleep(&self, limit: Duration, idle: impl FnOnce() -> bool) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if idle() {
            self.wait(limit);
        }
        self.asleep.store(false, Ordering::Relaxed);
    }

    // Nothing panics while it holds the lock, so it is never poisoned.
    fn wait(&self, limit: Duration) {
        let Ok(mut woken) = self.woken.lock() else { return };
        if !*woken {
            let Ok((again, _)) = self.bell.wait_timeout(woken, limit) else { return };
            woken = again;
        }
        *woken = false;
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
        if self.asleep.compare_exchange(true, false, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            && let Ok(mut woken) = self.woken.lock()
        {
            *woken = true;
            self.bell.notify_one();
        }
    }
}
