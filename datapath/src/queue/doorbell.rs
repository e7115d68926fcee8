//! Doorbells: how a queue pair with new work makes itself known to the engine, once.

use super::sleep::Sleep;
use super::sync::{ArrayQueue, AtomicU8, AtomicU32, Ordering, fence};
use super::word_ring::Positions;
use crate::qp_state::QpState;
use std::sync::Arc;

/// Queue pairs that turned from inactive to active, by slot index, and where the engine's thread
/// sleeps until one does.
#[derive(Clone)]
pub struct Doorbells(Arc<Shared>);

struct Shared {
    rung: ArrayQueue<u32>,
    sleep: Sleep,
}

impl Doorbells {
    /// Room for one doorbell of each of `queue_pairs`: a queue pair has at most one under way, so
    /// it never overflows.
    #[must_use]
    pub fn new(queue_pairs: usize) -> Self {
        Self(Arc::new(Shared { rung: ArrayQueue::new(queue_pairs.max(1)), sleep: Sleep::new() }))
    }

    /// The next queue pair that rang.
    #[inline]
    #[must_use]
    pub fn pop(&self) -> Option<u32> {
        // A look at an empty queue is two loads; taking from one is a fence, in every turn.
        if self.0.rung.is_empty() { None } else { self.0.rung.pop() }
    }

    /// True if nobody rang.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.rung.is_empty()
    }

    /// The place where the thread that drives the engine sleeps. A doorbell wakes it.
    #[must_use]
    pub fn sleep(&self) -> &Sleep {
        &self.0.sleep
    }

    /// Rings for the queue pair in a slot.
    pub(crate) fn push(&self, slot: u32) {
        let queued = self.0.rung.push(slot);
        debug_assert!(queued.is_ok(), "at most one doorbell of each slot is under way");
        self.0.sleep.wake();
    }
}

/// The engine does not look at the queue pair: a post rings.
const IDLE: u8 = 0;
/// Its doorbell is under way, or the engine serves it.
const ACTIVE: u8 = 1;
/// It is destroyed: nothing rings any more.
const CLOSED: u8 = 2;

/// The block that a queue pair's application side and its engine share beside the entries of the
/// rings: two cache lines, one with what a post looks at or writes, and one that the engine writes
/// whenever it gives requests back. In the first it writes when the queue pair becomes idle, or to
/// another state.
#[cfg_attr(not(loom), repr(C, align(64)))]
pub struct QpShared {
    slot: u32,
    /// [`IDLE`], [`ACTIVE`] or [`CLOSED`].
    activity: AtomicU8,
    state: AtomicU8,
    doorbells: Doorbells,
    send_tail: AtomicU32,
    recv_tail: AtomicU32,
    heads: Heads,
}

/// Where the engine is in the rings.
#[derive(Default)]
#[cfg_attr(not(loom), repr(align(64)))]
struct Heads {
    send: AtomicU32,
    recv: AtomicU32,
}

#[cfg(not(loom))]
const _: () =
    assert!(size_of::<QpShared>() == 128 && core::mem::offset_of!(QpShared, heads) == 64, "two lines");

/// The positions of a send queue.
#[derive(Clone)]
pub(super) struct SendPositions(pub Arc<QpShared>);

/// The positions of a receive queue.
#[derive(Clone)]
pub(super) struct RecvPositions(pub Arc<QpShared>);

impl Positions for SendPositions {
    #[inline]
    fn tail(&self) -> &AtomicU32 {
        &self.0.send_tail
    }

    #[inline]
    fn head(&self) -> &AtomicU32 {
        &self.0.heads.send
    }
}

impl Positions for RecvPositions {
    #[inline]
    fn tail(&self) -> &AtomicU32 {
        &self.0.recv_tail
    }

    #[inline]
    fn head(&self) -> &AtomicU32 {
        &self.0.heads.recv
    }
}

impl QpShared {
    /// The block of the queue pair in `slot`, in state RESET.
    #[must_use]
    pub fn new(slot: u32, doorbells: Doorbells) -> Self {
        let state = AtomicU8::new(QpState::Reset as u8);
        Self {
            slot,
            activity: AtomicU8::new(IDLE),
            state,
            doorbells,
            send_tail: AtomicU32::new(0),
            recv_tail: AtomicU32::new(0),
            heads: Heads::default(),
        }
    }

    /// Where the engine has the queue pair.
    pub(crate) const fn slot(&self) -> u32 {
        self.slot
    }

    /// The state that the engine published last.
    #[inline]
    #[must_use]
    pub fn state(&self) -> QpState {
        QpState::ALL[usize::from(self.state.load(Ordering::Acquire)).min(QpState::ALL.len() - 1)]
    }

    /// Engine only: publishes the state. A later look at the rings sees every request that was
    /// posted in ignorance of it (the fence pairs with the one in [`QpShared::ring_if_flushing`]).
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
    /// The fence pairs with the one in [`QpShared::fence_idle`]: either this side sees that it is
    /// idle and rings, or the engine's look at the ring after its fence sees the new tail. Work
    /// cannot be left unseen.
    #[inline]
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.activity.load(Ordering::Relaxed) == IDLE && self.reactivate() {
            self.doorbells.push(self.slot);
        }
    }

    /// Engine only, when the rings look empty: the next post rings. The caller must look at the
    /// rings once more afterwards and take the queue pair back with [`QpShared::reactivate`] if
    /// there is work.
    #[inline]
    pub fn deactivate(&self) {
        self.set_idle_unfenced();
        Self::fence_idle();
    }

    /// Engine only: the fence of [`QpShared::deactivate`], for all that
    /// [`QpShared::set_idle_unfenced`] made idle before.
    #[inline]
    pub fn fence_idle() {
        fence(Ordering::SeqCst);
    }

    /// True if the step to active was the caller's: an application then rings, and the engine owns
    /// the queue pair's activity again. False if the other side took it.
    #[inline]
    #[must_use]
    pub fn reactivate(&self) -> bool {
        self.activity.compare_exchange(IDLE, ACTIVE, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Engine only, while the application waits for it and so cannot post: takes the step to active
    /// for it. False if its doorbell is under way. Neither this nor [`QpShared::set_idle_unfenced`]
    /// needs a fence then: what the application does next is ordered behind both by that which it
    /// waited for.
    #[inline]
    #[must_use]
    pub fn take_quietly(&self) -> bool {
        let is_idle = self.activity.load(Ordering::Relaxed) == IDLE;
        if is_idle {
            self.activity.store(ACTIVE, Ordering::Relaxed);
        }
        is_idle
    }

    /// Engine only, as [`QpShared::deactivate`], without the fence: for one who has it for several,
    /// or while the application waits for it, so that nothing can have been posted since the last
    /// look at the rings.
    #[inline]
    pub fn set_idle_unfenced(&self) {
        self.activity.store(IDLE, Ordering::Relaxed);
    }

    /// Engine only, when the queue pair is destroyed: it never rings again. True if it was active:
    /// unless the engine has taken its doorbell, that is in the queue or about to be, by a thread
    /// that posts this very moment. The slot must not be used again before it was taken.
    #[must_use]
    pub fn close(&self) -> bool {
        self.activity.swap(CLOSED, Ordering::AcqRel) == ACTIVE
    }
}
