//! The receive queue: written by the application, read by the engine in SSN order or ahead of it.

use super::doorbell::{QpShared, RecvPositions};
use super::entries::{Entries, stride_of};
use super::sges::{SGE_WORDS, load_sges, store_sges};
use super::sync::AtomicU64;
use super::word_ring::{Freed, WordRing, halves, load, pair, store};
use super::work_request::{PostError, QueueCaps, RecvRequest, WORK_REQUEST_BYTES_MAX, total_length};
use crate::memory::Sge;
use crate::qp_state::PostVerdict;
use std::sync::Arc;

/// Words of the head of an entry: wr_id, (length, sges).
const HEAD_WORDS: usize = 2;

/// Makes a receive queue: the application's end and the engine's. Its positions stand in `shared`,
/// which has no other one.
#[must_use]
pub fn recv_queue(caps: &QueueCaps, shared: &Arc<QpShared>) -> (RecvQueue, RecvQueueReader) {
    recv_queue_from(0, caps, shared)
}

/// A receive queue whose first request has the position `start`.
pub(super) fn recv_queue_from(
    start: u32,
    caps: &QueueCaps,
    shared: &Arc<QpShared>,
) -> (RecvQueue, RecvQueueReader) {
    let positions = RecvPositions(Arc::clone(shared));
    let entries = Entries::new(caps.max_recv_wr, entry_words(caps.max_recv_sge));
    let ring = WordRing::of(entries, positions, start);
    let writer = RecvQueue {
        ring: ring.clone(),
        tail: start,
        published: start,
        head_seen: start,
        max_wr: caps.max_recv_wr.try_into().unwrap_or(u16::MAX),
        max_sge: caps.max_recv_sge.try_into().unwrap_or(u8::MAX),
    };
    (writer, RecvQueueReader { ring })
}

/// Words of an entry with room for `max_sge` elements.
pub(super) fn entry_words(max_sge: u32) -> usize {
    stride_of(HEAD_WORDS + max_sge as usize * SGE_WORDS)
}

/// Checks a request against the sizes of its queue; returns the bytes that its elements hold.
#[inline]
pub(super) fn check(request: &RecvRequest<'_>, max_sge: u32) -> Result<u32, PostError> {
    let given = request.scatter.len();
    if given > max_sge as usize {
        return Err(PostError::TooManySges { given, max: max_sge });
    }
    let length = total_length(request.scatter);
    u32::try_from(length)
        .ok()
        .filter(|_| length <= WORK_REQUEST_BYTES_MAX)
        .ok_or(PostError::TooLong { given: length })
}

/// Writes a request that was checked into its entry.
#[inline]
pub(super) fn store_request(entry: &[AtomicU64], request: &RecvRequest<'_>, length: u32) {
    store(&entry[0], request.wr_id);
    let sges = u32::try_from(request.scatter.len()).unwrap_or(0);
    store(&entry[1], pair(length, sges));
    store_sges(&entry[HEAD_WORDS..], request.scatter);
}

/// The application's end of a receive queue.
pub struct RecvQueue {
    ring: WordRing<RecvPositions>,
    tail: u32,
    /// What the engine sees of it.
    published: u32,
    head_seen: u32,
    max_wr: u16,
    max_sge: u8,
}

impl RecvQueue {
    /// Posts one receive request.
    ///
    /// # Errors
    /// [`PostError`]; nothing was posted then.
    pub fn post(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        self.stage(request)?;
        self.submit();
        Ok(())
    }

    /// Posts requests until one is refused; one publish for all. Returns how many were posted, and
    /// the reason if it was not all of them.
    pub fn post_batch(&mut self, requests: &[RecvRequest<'_>]) -> (usize, Result<(), PostError>) {
        let mut result = Ok(());
        let mut posted = 0;
        for request in requests {
            result = self.stage(request);
            if result.is_err() {
                break;
            }
            posted += 1;
        }
        self.submit();
        (posted, result)
    }

    #[inline]
    fn shared(&self) -> &QpShared {
        &self.ring.positions().0
    }

    /// Posts what was staged: one publish for all.
    #[inline]
    pub fn submit(&mut self) {
        if self.tail != self.published {
            self.published = self.tail;
            self.ring.publish(self.tail);
            self.shared().ring_if_flushing();
        }
    }

    /// Writes one request, which the engine sees after [`RecvQueue::submit`] only.
    ///
    /// # Errors
    /// [`PostError`]; nothing was written then.
    pub fn stage(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        let state = self.shared().state();
        if state.post_recv() == PostVerdict::Refused {
            return Err(PostError::WrongState { state, what: "receive" });
        }
        if self.max_wr == 0 {
            return Err(PostError::NoReceiveQueue);
        }
        let length = check(request, self.max_sge.into())?;
        let capacity = self.max_wr.into();
        if !self.ring.has_room(self.tail, &mut self.head_seen, capacity) {
            return Err(PostError::QueueFull { capacity });
        }
        store_request(self.ring.entry(self.tail), request, length);
        self.tail = self.tail.wrapping_add(1);
        Ok(())
    }
}

/// The engine's end of a receive queue.
pub struct RecvQueueReader {
    ring: WordRing<RecvPositions>,
}

impl RecvQueueReader {
    /// Starts to fetch the queue's state, and `count` requests from `position` on.
    #[inline]
    pub(crate) fn prefetch(&self, position: u32, count: u32) {
        self.ring.prefetch();
        self.ring.prefetch_entries(position, count);
    }

    /// Position behind the last posted request.
    #[inline]
    #[must_use]
    pub fn tail(&self) -> u32 {
        self.ring.tail()
    }

    /// Position of the next request to complete.
    #[inline]
    #[must_use]
    pub fn head(&self) -> u32 {
        self.ring.head()
    }

    /// The request at `position`, which must lie between the head and the tail.
    #[inline]
    #[must_use]
    pub fn wqe(&self, position: u32) -> RecvWqe<'_> {
        RecvWqe::load(self.ring.entry(position))
    }

    /// Gives all requests below `head` back to the application.
    #[inline]
    pub fn release(&self, head: u32) -> Freed {
        self.ring.release(head)
    }

    /// Bytes of the ring.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.ring.bytes()
    }
}

/// A receive request, read in place.
#[derive(Clone, Copy)]
pub struct RecvWqe<'a> {
    /// The application's own number.
    pub wr_id: u64,
    /// Bytes that the elements hold together.
    pub length: u32,
    sge_count: u32,
    body: &'a [AtomicU64],
}

impl<'a> RecvWqe<'a> {
    /// Reads the head of an entry.
    #[inline]
    pub(super) fn load(entry: &'a [AtomicU64]) -> Self {
        let (length, sge_count) = halves(load(&entry[1]));
        Self { wr_id: load(&entry[0]), length, sge_count, body: &entry[HEAD_WORDS..] }
    }

    /// The element, if it is the only one.
    #[inline]
    #[must_use]
    pub fn only_sge(&self) -> Option<Sge> {
        if self.sge_count == 1 { self.sges().next() } else { None }
    }

    /// The elements, in order.
    #[inline]
    pub fn sges(&self) -> impl Iterator<Item = Sge> {
        load_sges(self.body, self.sge_count as usize)
    }
}
