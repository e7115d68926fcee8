//! Waking a thread that sleeps, at no cost while it is awake.

use crate::sync::{AtomicBool, Ordering, Parker, fence};

/// Whether the worker sleeps, and who it is.
///
/// The worker says that it will sleep, and then looks once more for work; whoever makes work publishes it, and then
/// looks whether the worker sleeps. A sequentially consistent fence between the two steps on each side means that at
/// least one of them sees what the other did: no work is made that nobody is awake for.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    asleep: AtomicBool,
    worker: Parker,
}

impl Bell {
    /// Worker: sleeps until it is rung for, unless `has_work` finds some now. May return without a reason.
    pub(crate) fn sleep(&self, has_work: impl FnOnce() -> bool) {
        self.worker.settle();
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !has_work() {
            self.worker.park();
        }
        // Reads what `ring` wrote, so that whatever this thread says next comes after it.
        self.asleep.swap(false, Ordering::Acquire);
    }

    /// The other side: work was published. A system call only if the worker sleeps; never waits.
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Release) {
            self.worker.unpark();
        }
    }
}

#[cfg(test)]
mod tests;
