//! Messages that were posted and whose memory is not free yet.

use crate::pool::{Chunk, Pool};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;
use verbs_api::MemoryWindow;

/// Times of messages that tell how long the path takes.
const ENOUGH: u32 = 16;

/// What a message has until it is done with.
pub enum Sent {
    /// No bytes of the stream and no memory.
    Control,
    /// A message in memory, until it is complete: so many bytes of the stream from `offset` on, and
    /// its header in a chunk of its own, or before them.
    Data { chunk: Chunk, header: Option<Chunk>, offset: usize, len: usize },
    /// Bytes that the peer reads, until it has told that it holds those before `end`.
    Offer { chunk: Chunk, window: MemoryWindow, offset: usize, len: usize, end: u64 },
    /// A message over TCP, whose bytes begin at `offset`, until the peer has told so.
    Told { message: Arc<[u8]>, offset: usize, end: u64 },
}

impl Sent {
    /// Gives the memory back. Nobody sees it any more.
    fn release(self, pool: &mut Pool) {
        match self {
            Self::Control | Self::Told { .. } => {}
            Self::Data { chunk, header, .. } => {
                pool.give(chunk);
                header.into_iter().for_each(|header| pool.give(header));
            }
            Self::Offer { chunk, window, .. } => {
                drop(window);
                pool.give(chunk);
            }
        }
    }

    /// Bytes of the stream that a work request carries.
    const fn len(&self) -> usize {
        match self {
            Self::Data { len, .. } | Self::Offer { len, .. } => *len,
            Self::Control | Self::Told { .. } => 0,
        }
    }

    /// Appends its bytes of the stream.
    fn append(&self, pool: &Pool, bytes: &mut Vec<u8>) -> Result<(), verbs_api::Error> {
        let (chunk, offset, len) = match self {
            Self::Control => return Ok(()),
            Self::Told { message, offset, .. } => {
                bytes.extend_from_slice(&message[*offset..]);
                return Ok(());
            }
            Self::Data { chunk, offset, len, .. } | Self::Offer { chunk, offset, len, .. } => {
                (*chunk, *offset, *len)
            }
        };
        let at = bytes.len();
        bytes.resize(at + len, 0);
        pool.read(chunk, offset, &mut bytes[at..])
    }
}

/// Messages, oldest first: those that are complete and wait for the peer, or for one before them
/// that does, and those that are not.
#[derive(Default)]
pub struct Sends {
    queue: VecDeque<Sent>,
    complete: usize,
    /// Bytes of the stream in those that are not complete.
    bytes_under_way: usize,
    timed: Option<Timed>,
    /// Times that were taken, and the least of them.
    times: u32,
    least: Duration,
}

/// A message whose time is taken.
struct Timed {
    since: Instant,
    /// Messages that are not complete up to this one.
    left: usize,
}

impl Sends {
    /// All of them.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Those that are not complete.
    pub fn under_way(&self) -> usize {
        self.queue.len() - self.complete
    }

    /// Bytes of the stream in them.
    pub const fn bytes_under_way(&self) -> usize {
        self.bytes_under_way
    }

    pub fn push(&mut self, sent: Sent) {
        self.bytes_under_way += sent.len();
        self.queue.push_back(sent);
    }

    /// Takes the time of the last message, unless that of another one is being taken.
    pub fn time(&mut self) {
        if self.timed.is_none() {
            self.timed = Some(Timed { since: Instant::now(), left: self.under_way() });
        }
    }

    /// The least time that a message has taken from its post to its completion, as far as that was
    /// [taken](Self::time): about a round trip of an idle path. `None` before enough were: the
    /// first ones find memory and processes that are not warm.
    pub fn least_time(&self) -> Option<Duration> {
        (self.times >= ENOUGH).then_some(self.least)
    }

    /// The last one was not posted after all.
    pub fn take_back(&mut self, pool: &mut Pool) {
        self.timed = None;
        if let Some(sent) = self.queue.pop_back() {
            self.bytes_under_way -= sent.len();
            sent.release(pool);
        }
    }

    /// The oldest that was not complete is.
    pub fn complete(&mut self) {
        if let Some(timed) = &mut self.timed {
            timed.left -= 1;
            if timed.left == 0 {
                let took = timed.since.elapsed();
                self.least = if self.times == 0 { took } else { self.least.min(took) };
                self.times = self.times.saturating_add(1);
                self.timed = None;
            }
        }
        match self.queue.get(self.complete) {
            Some(Sent::Control) => drop(self.queue.remove(self.complete)),
            Some(sent) => {
                self.bytes_under_way -= sent.len();
                self.complete += 1;
            }
            None => {}
        }
    }

    /// Lets go of what the peer has: it holds the bytes before `taken`. What lies behind others
    /// that wait is kept, because a later carrier goes on with the first of them.
    pub fn release(&mut self, taken: u64, pool: &mut Pool) {
        while let Some(sent) = self.queue.front() {
            let is_done = match sent {
                Sent::Control => false,
                Sent::Data { .. } => self.complete > 0,
                Sent::Offer { end, .. } => self.complete > 0 && *end <= taken,
                Sent::Told { end, .. } => *end <= taken,
            };
            if !is_done {
                return;
            }
            self.complete = self.complete.saturating_sub(1);
            if let Some(sent) = self.queue.pop_front() {
                sent.release(pool);
            }
        }
    }

    /// The bytes of the stream that the peer may not have.
    pub fn bytes(&self, pool: &Pool) -> Result<Vec<u8>, verbs_api::Error> {
        let mut bytes = Vec::new();
        self.queue.iter().try_for_each(|sent| sent.append(pool, &mut bytes))?;
        Ok(bytes)
    }

    /// Gives all memory back.
    pub fn clear(&mut self, pool: &mut Pool) {
        (self.complete, self.bytes_under_way) = (0, 0);
        (self.timed, self.times) = (None, 0);
        self.queue.drain(..).for_each(|sent| sent.release(pool));
    }
}
