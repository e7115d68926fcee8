//! The shared receive queue (SRQ): written by the application, read by the engine for many queue
//! pairs.
//!
//! Receives are taken in the order in which they were posted, but complete in any: so a ring of
//! entry numbers leads from the application to the engine, and another brings those back that may
//! be written again.

use super::entries::Entries;
use super::recv::{RecvWqe, check, entry_words, store_request};
use super::word_ring::{Freed, WordRing, halves, load, pair, store};
use super::work_request::{PostError, RecvRequest};

/// Sizes of a shared receive queue (`ibv_srq_attr`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SrqCaps {
    /// Receives outstanding at most, from their posting to their completion; 1 to 2^20.
    pub max_wr: u32,
    /// Elements of a receive at most.
    pub max_sge: u32,
}

impl SrqCaps {
    /// Largest `max_wr`.
    pub const WR_LIMIT: u32 = 1 << 20;
}

impl Default for SrqCaps {
    fn default() -> Self {
        Self { max_wr: 1024, max_sge: 3 }
    }
}

/// What both ends have a copy of. Each ring holds at most every entry once, so neither can
/// overflow.
///
/// Order: as argued in [`WordRing`]; the entry that a number names is written before the number is
/// published in `posted`, and read for the last time before it is published in `free`.
#[derive(Clone)]
struct Shared {
    entries: Entries,
    /// Application to engine.
    posted: WordRing,
    /// Engine to application.
    free: WordRing,
}

/// Makes a shared receive queue: the application's end and the engine's.
#[must_use]
pub fn shared_recv_queue(caps: &SrqCaps) -> (SharedRecvQueue, SharedRecvReader) {
    shared_recv_queue_from(0, caps)
}

/// A shared receive queue whose rings begin at the position `start`.
pub(super) fn shared_recv_queue_from(start: u32, caps: &SrqCaps) -> (SharedRecvQueue, SharedRecvReader) {
    let shared = Shared {
        entries: Entries::new(caps.max_wr, entry_words(caps.max_sge)),
        posted: WordRing::new(caps.max_wr, 1, start),
        free: WordRing::new(caps.max_wr, 1, start),
    };
    let mut reader = SharedRecvReader { shared: shared.clone(), next: start, freed: start };
    for number in 0..caps.max_wr {
        reader.give_back(number);
    }
    (SharedRecvQueue { shared, caps: *caps, tail: start, next_free: start }, reader)
}

/// The application's end of a shared receive queue.
pub struct SharedRecvQueue {
    shared: Shared,
    caps: SrqCaps,
    tail: u32,
    next_free: u32,
}

impl SharedRecvQueue {
    /// Posts one receive, for whichever queue pair needs it first.
    ///
    /// # Errors
    /// [`PostError`]; nothing was posted then.
    pub fn post(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        let length = check(request, self.caps.max_sge)?;
        if self.next_free == self.shared.free.tail() {
            return Err(PostError::QueueFull { capacity: self.caps.max_wr });
        }
        let (number, _) = halves(load(&self.shared.free.entry(self.next_free)[0]));
        self.next_free = self.next_free.wrapping_add(1);
        store_request(self.shared.entries.at(number), request, length);
        store(&self.shared.posted.entry(self.tail)[0], pair(number, 0));
        self.tail = self.tail.wrapping_add(1);
        self.shared.posted.publish(self.tail);
        Ok(())
    }

    /// The sizes of this queue.
    #[must_use]
    pub const fn caps(&self) -> SrqCaps {
        self.caps
    }
}

/// The engine's end of a shared receive queue.
pub struct SharedRecvReader {
    shared: Shared,
    next: u32,
    freed: u32,
}

impl SharedRecvReader {
    /// Receives that are posted and not taken.
    #[inline]
    #[must_use]
    pub fn available(&self) -> u32 {
        self.shared.posted.tail().wrapping_sub(self.next)
    }

    /// Takes the oldest receive; returns the number of its entry, which stays as it is until it is
    /// given back.
    #[inline]
    pub fn take(&mut self) -> Option<u32> {
        let number = self.first_number()?;
        self.next = self.next.wrapping_add(1);
        Some(number)
    }

    /// The receive that is taken next.
    #[inline]
    pub(crate) fn first(&self) -> Option<RecvWqe<'_>> {
        Some(self.wqe(self.first_number()?))
    }

    /// The number of its entry.
    #[inline]
    fn first_number(&self) -> Option<u32> {
        if self.available() == 0 {
            return None;
        }
        let (number, _) = halves(load(&self.shared.posted.entry(self.next)[0]));
        Some(number)
    }

    /// The receive in an entry that was taken.
    #[inline]
    #[must_use]
    pub fn wqe(&self, number: u32) -> RecvWqe<'_> {
        RecvWqe::load(self.shared.entries.at(number))
    }

    /// Gives a taken entry back to the application.
    #[inline]
    pub fn give_back(&mut self, number: u32) {
        self.set_free(number);
        self.release();
    }

    /// Gives a taken entry back, but the application sees it after [`SharedRecvReader::release`]
    /// only.
    #[inline]
    pub(crate) fn set_free(&mut self, number: u32) {
        store(&self.shared.free.entry(self.freed)[0], pair(number, 0));
        self.freed = self.freed.wrapping_add(1);
    }

    /// Shows the application what was given back.
    #[inline]
    pub(crate) fn release(&self) -> Freed {
        self.shared.free.publish(self.freed);
        Freed(())
    }
}
