//! Doorbells: how a queue pair with new work makes itself known to the engine, once.

use super::sync::{ArrayQueue, AtomicBool, AtomicU8, Ordering, fence};
use crate::qp::state::QpState;
use std::sync::Arc;

/// Queue pairs that turned from inactive to active, by slot index.
#[derive(Clone)]
pub struct Doorbells(Arc<ArrayQueue<u32>>);

impl Doorbells {
    /// Room for one doorbell of each of `queue_pairs`: a queue pair has at most one under way, so it never overflows.
    #[must_use]
    pub fn new(queue_pairs: usize) -> Self {
        Self(Arc::new(ArrayQueue::new(queue_pairs.max(1))))
    }

    /// The next queue pair that rang.
    #[inline]
    #[must_use]
    pub fn pop(&self) -> Option<u32> {
        self.0.pop()
    }

    /// True if nobody rang.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The block that a queue pair's application side and its engine share beside the rings.
pub struct QpShared {
    slot: u32,
    active: AtomicBool,
    state: AtomicU8,
    doorbells: Doorbells,
}

impl QpShared {
    /// The block of the queue pair in `slot`, in state RESET.
    #[must_use]
    pub fn new(slot: u32, doorbells: Doorbells) -> Self {
        Self { slot, active: AtomicBool::new(false), state: AtomicU8::new(QpState::Reset as u8), doorbells }
    }

    /// The state that the engine published last.
    #[inline]
    #[must_use]
    pub fn state(&self) -> QpState {
        QpState::ALL[usize::from(self.state.load(Ordering::Acquire)) % QpState::ALL.len()]
    }

    /// Engine only: publishes the state. A later look at the rings sees every request that was posted in ignorance of
    /// it (the fence pairs with the one in [`QpShared::ring_if_flushing`]).
    pub fn set_state(&self, state: QpState) {
        self.state.store(state as u8, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Application only, after publishing a receive: in ERR the engine must come and flush it.
    #[inline]
    pub fn ring_if_flushing(&self) {
        fence(Ordering::SeqCst);
        if self.state().flushes_recvs() {
            self.ring();
        }
    }

    /// After publishing work: rings unless the queue pair is active already.
    ///
    /// The fence pairs with the one in [`QpShared::deactivate`]: either this side sees `active == false` and rings,
    /// or the engine's look at the ring after its fence sees the new tail. Work cannot be left unseen.
    #[inline]
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        if !self.active.load(Ordering::Relaxed) && self.reactivate() {
            let queued = self.doorbells.0.push(self.slot);
            debug_assert!(queued.is_ok(), "at most one doorbell of each queue pair is under way");
        }
    }

    /// Engine only, when the rings look empty: the next post rings. The caller must look at the rings once more
    /// afterwards and take the queue pair back with [`QpShared::reactivate`] if there is work.
    #[inline]
    pub fn deactivate(&self) {
        self.active.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// True if the step to active was the caller's: an application then rings, and the engine owns the queue pair's
    /// activity again. False if the other side took it.
    #[inline]
    #[must_use]
    pub fn reactivate(&self) -> bool {
        self.active.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}
