//! Waking a thread that sleeps, at no cost while it is awake.

use crate::sync::{AtomicBool, Ordering, Parker, fence};

/// Whether the worker sleeps, and who it is.
///
/// The worker says that it will sleep, and then looks once more for work; whoever makes work
/// publishes it, and then looks whether the worker sleeps. A sequentially consistent fence between
/// the two steps on each side means that at least one of them sees what the other did: no work is
/// made that nobody is awake for.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    asleep: AtomicBool,
    worker: Parker,
}

impl Bell {
    /// Worker: sleeps until it is rung for, unless `has_work` finds some now. May return without a
    /// reason.
    pub(crate) fn sleep(&self, has_work: impl FnOnce() -> bool) {
        self.worker.settle();
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !has_work() {
            self.worker.park();
        }
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// The other side: work was published. A system call only if the worker sleeps; never waits.
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        // Who takes the flag down wakes the worker. It is taken down only where it stands, so that
        // what the worker says next is not overwritten by a ring of before.
        if self.asleep.load(Ordering::Relaxed)
            && self.asleep.compare_exchange(true, false, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.worker.unpark();
        }
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
