//! Commands that wait to be polled.

use std::collections::VecDeque;

use wire::Psn;

use crate::message::{Command, Generation, StreamId};

/// A bounded first-in-first-out queue of commands.
///
/// The bound is `per_record` free places before each record. A receiver's record makes one command.
/// A sender's makes one `Scoreboard`, and `Lost` and `Found` commands for disjoint parts of the
/// window, since a PSN that was declared lost waits until it is resent or SACKed: at most one per
/// packet of the window, far fewer as neighbours share one.
#[derive(Debug)]
pub(crate) struct Outbox {
    queue: VecDeque<Command>,
    bound: usize,
    per_record: usize,
    high_water: usize,
}

/// Places beyond those of one record, so that a batch of small records is handled before the first
/// poll.
const BATCH: usize = 256;

impl Outbox {
    pub(crate) fn new(window_max: u32) -> Self {
        let per_record = window_max as usize + 1;
        let bound = per_record + BATCH;
        Self { queue: VecDeque::with_capacity(bound), bound, per_record, high_water: 0 }
    }

    /// Is there room for whatever one record can make?
    pub(crate) fn ready(&self) -> bool {
        self.bound.saturating_sub(self.queue.len()) >= self.per_record
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.queue.capacity() * size_of::<Command>()
    }

    pub(crate) fn pop(&mut self) -> Option<Command> {
        self.queue.pop_front()
    }

    /// Largest number of commands that waited at once.
    pub(crate) const fn high_water(&self) -> usize {
        self.high_water
    }

    pub(crate) fn push(&mut self, command: Command) {
        self.queue.push_back(command);
        self.high_water = self.high_water.max(self.queue.len());
    }

    /// One more lost PSN.
    pub(crate) fn push_lost(&mut self, stream: StreamId, generation: Generation, psn: Psn) {
        if let Some(Command::Lost { stream: s, generation: g, last, .. }) = self.queue.back_mut()
            && *s == stream
            && *g == generation
            && last.next() == psn
        {
            *last = psn;
            return;
        }
        self.push(Command::Lost { stream, generation, first: psn, last: psn });
    }

    /// One more PSN that waited and was SACKed.
    pub(crate) fn push_found(&mut self, stream: StreamId, generation: Generation, psn: Psn) {
        if let Some(Command::Found { stream: s, generation: g, last, .. }) = self.queue.back_mut()
            && *s == stream
            && *g == generation
            && last.next() == psn
        {
            *last = psn;
            return;
        }
        self.push(Command::Found { stream, generation, first: psn, last: psn });
    }

    /// The newest state of a scoreboard; it replaces the one before if nothing came in between.
    pub(crate) fn push_scoreboard(&mut self, scoreboard: Command) {
        if let (
            Some(Command::Scoreboard { stream: old, generation: old_gen, .. }),
            Command::Scoreboard { stream, generation, .. },
        ) = (self.queue.back(), scoreboard)
            && *old == stream
            && *old_gen == generation
        {
            self.queue.pop_back();
        }
        self.push(scoreboard);
    }
}

#[cfg(test)]
mod tests;
