//! Atomics and sleep of the standard library, or loom's where the rings and the bell are
//! model-checked.

#[cfg(loom)]
mod stand_in;

#[cfg(loom)]
pub(crate) use loom::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
};
#[cfg(loom)]
pub(crate) use stand_in::Parker;
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
};

/// A value on cache lines of its own, so that one side's stores do not slow the other side's.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct OwnLine<T>(pub(crate) T);

/// Where one thread sleeps, and others wake it. A wake that comes first makes the next sleep return
/// at once.
#[cfg(not(loom))]
#[derive(Debug, Default)]
pub(crate) struct Parker(std::sync::OnceLock<std::thread::Thread>);

#[cfg(not(loom))]
impl Parker {
    /// The sleeper is this thread. Comes before anybody may think that it sleeps.
    pub(crate) fn settle(&self) {
        self.0.get_or_init(std::thread::current);
    }

    /// The sleeper: may return without a reason.
    pub(crate) fn park(&self) {
        std::thread::park();
    }

    /// Everybody else: never waits.
    pub(crate) fn unpark(&self) {
        if let Some(thread) = self.0.get() {
            thread.unpark();
        }
    }
}
