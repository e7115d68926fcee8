//! The hand-over of an engine between a program that polls it and a thread that stands in.

use super::sync::{AtomicBool, Ordering};

/// Who drives an engine: whoever polls it, or a thread while nobody polls.
///
/// The thread looks now and then whether somebody has polled since its last look. If nobody has, it
/// drives the engine until somebody polls again. While it does, it may sleep. Who uses the engine
/// under its lock meanwhile wakes it afterwards ([`HandOver::is_taken`],
/// [`Sleep::wake`](super::Sleep::wake)): there may be new work, and it may be time to step back.
///
/// The thread may also wait for frames beside somebody who polls, without having taken the engine:
/// then the port wakes it, doorbells do, and the deadline that it knew.
pub struct HandOver {
    /// Somebody has polled since the thread looked last.
    polled: AtomicBool,
    /// Somebody has said that he stops polling.
    stopped: AtomicBool,
    /// The thread drives the engine. Written and read under the engine's lock, which orders it.
    taken: AtomicBool,
}

impl HandOver {
    /// Nobody has polled yet, and the thread does not drive.
    #[must_use]
    pub fn new() -> Self {
        Self {
            polled: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            taken: AtomicBool::new(false),
        }
    }

    /// Somebody polls. Called without the lock, so that a thread that has it hears of this.
    #[inline]
    pub fn note_poll(&self) {
        // The line stays where it is as long as the thread has not looked.
        if !self.polled.load(Ordering::Relaxed) {
            self.polled.store(true, Ordering::Relaxed);
        }
    }

    /// The thread looks: whether somebody has polled since it looked last.
    #[must_use]
    pub fn take_poll(&self) -> bool {
        self.is_polled() && self.polled.swap(false, Ordering::Relaxed)
    }

    /// Who polled says that nobody polls for now.
    pub fn note_stop(&self) {
        self.polled.store(false, Ordering::Relaxed);
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether somebody has said so since the last call.
    #[must_use]
    pub fn take_stop(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) && self.stopped.swap(false, Ordering::Relaxed)
    }

    /// Whether somebody has polled since the thread looked last.
    #[inline]
    #[must_use]
    pub fn is_polled(&self) -> bool {
        self.polled.load(Ordering::Relaxed)
    }

    /// The thread drives from now on, or no longer. Under the engine's lock.
    pub fn set_taken(&self, taken: bool) {
        self.taken.store(taken, Ordering::Relaxed);
    }

    /// Whether the thread drives, and so sleeps or waits for the lock. Under the engine's lock; a
    /// hint without it.
    #[inline]
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }
}

impl Default for HandOver {
    fn default() -> Self {
        Self::new()
    }
}
