//! Messages that were posted and whose memory is not free yet.

use crate::pool::{Chunk, Pool};
use std::collections::VecDeque;
use verbs_api::MemoryWindow;

/// What a message has until it is done with.
pub enum Sent {
    /// It has no memory.
    Control,
    /// Memory, until it is complete.
    Data(Chunk),
    /// Memory that the peer reads, until it has told that it holds the bytes before `end`.
    Offer { chunk: Chunk, window: MemoryWindow, end: u64 },
}

impl Sent {
    /// Gives the memory back. Nobody sees it any more.
    fn release(self, pool: &mut Pool) {
        match self {
            Self::Control => {}
            Self::Data(chunk) => pool.give(chunk),
            Self::Offer { chunk, window, .. } => {
                drop(window);
                pool.give(chunk);
            }
        }
    }
}

/// Messages, oldest first: those that are complete and wait for the peer, and those that are not.
#[derive(Default)]
pub struct Sends {
    queue: VecDeque<Sent>,
    complete: usize,
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

    pub fn push(&mut self, sent: Sent) {
        self.queue.push_back(sent);
    }

    /// The last one was not posted after all.
    pub fn take_back(&mut self, pool: &mut Pool) {
        if let Some(sent) = self.queue.pop_back() {
            sent.release(pool);
        }
    }

    /// The oldest that was not complete is.
    pub fn complete(&mut self, pool: &mut Pool) {
        match self.queue.get(self.complete) {
            Some(Sent::Offer { .. }) => self.complete += 1,
            Some(_) => {
                if let Some(sent) = self.queue.remove(self.complete) {
                    sent.release(pool);
                }
            }
            None => {}
        }
    }

    /// Lets go of what the peer has read: it holds the bytes before `taken`.
    pub fn release(&mut self, taken: u64, pool: &mut Pool) {
        while self.complete > 0
            && matches!(self.queue.front(), Some(Sent::Offer { end, .. }) if *end <= taken)
        {
            self.complete -= 1;
            if let Some(sent) = self.queue.pop_front() {
                sent.release(pool);
            }
        }
    }

    /// Gives all memory back.
    pub fn clear(&mut self, pool: &mut Pool) {
        self.complete = 0;
        self.queue.drain(..).for_each(|sent| sent.release(pool));
    }
}
