//! Where who posts and who polls say when they did.

use super::config::LatencyConfig;
use crate::queue::{SendOpcode, SendQueue, SendRequest};
use crate::time::Time;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crossbeam_queue::ArrayQueue;

/// Stamps that wait for the engine; further ones are counted, and their operations not sampled.
const STAMPS_MAX: usize = 256;

/// A request that is sampled, when it was posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Posted {
    pub(crate) slot: u32,
    pub(crate) position: u32,
    pub(crate) at: Time,
    pub(crate) wr_id: u64,
    pub(crate) opcode: SendOpcode,
    pub(crate) signaled: bool,
}

/// A completion queue was polled: everything before `head` is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Polled {
    pub cq: u32,
    pub head: u32,
    pub at: Time,
}

/// Shared by the threads that post and poll, and the engine.
#[derive(Debug)]
pub struct Probe {
    /// All its bits are 0 in the positions that are sampled.
    mask: u32,
    posts: ArrayQueue<Posted>,
    polls: ArrayQueue<Polled>,
    /// There is something in one of them.
    news: AtomicBool,
    /// A sampled operation is complete and was not polled.
    awaits_poll: AtomicBool,
    skipped: AtomicU64,
}

impl Probe {
    pub(crate) fn new(config: &LatencyConfig) -> Self {
        Self {
            mask: config.one_in.next_power_of_two().saturating_sub(1),
            posts: ArrayQueue::new(STAMPS_MAX),
            polls: ArrayQueue::new(STAMPS_MAX),
            news: AtomicBool::new(false),
            awaits_poll: AtomicBool::new(false),
            skipped: AtomicU64::new(0),
        }
    }

    /// Call behind [`SendQueue::stage`] and before the request is submitted: if it is one of those
    /// that are sampled, `now` is when it was posted. `now` is the time of the engine's turns.
    #[inline]
    pub fn note_post(&self, queue: &SendQueue, request: &SendRequest<'_>, now: impl FnOnce() -> Time) {
        let position = queue.last_position();
        if position & self.mask == 0 {
            self.note_sampled(queue, position, request, now());
        }
    }

    #[cold]
    fn note_sampled(&self, queue: &SendQueue, position: u32, request: &SendRequest<'_>, at: Time) {
        let posted = Posted {
            slot: queue.slot(),
            position,
            at,
            wr_id: request.wr_id,
            opcode: request.opcode,
            signaled: request.flags.contains(crate::queue::SendFlags::SIGNALED),
        };
        if self.posts.push(posted).is_err() {
            self.note_skipped();
        }
        self.news.store(true, Ordering::Release);
    }

    /// Call when completions were taken from a completion queue, all before `head`; `now` is the
    /// time of the engine's turns.
    #[inline]
    pub fn note_poll(&self, cq: u32, head: u32, now: impl FnOnce() -> Time) {
        if self.awaits_poll.load(Ordering::Relaxed) {
            // Without room the engine finds it in its next turn.
            let _ = self.polls.push(Polled { cq, head, at: now() });
            self.news.store(true, Ordering::Release);
        }
    }

    /// Whether there is something to take.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.news.load(Ordering::Relaxed)
    }

    /// Call before everything is taken. What is told from now on is news again.
    pub(crate) fn hear(&self) {
        // It is ordered before the takes: what they miss is told behind it.
        self.news.swap(false, Ordering::AcqRel);
    }

    pub(crate) fn take_post(&self) -> Option<Posted> {
        self.posts.pop()
    }

    pub(crate) fn take_poll(&self) -> Option<Polled> {
        self.polls.pop()
    }

    pub(crate) fn await_poll(&self, awaits: bool) {
        self.awaits_poll.store(awaits, Ordering::Relaxed);
    }

    pub(crate) fn note_skipped(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// Operations that were to be sampled, and were not: too many at once, or their queue pair
    /// ended.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }
}
