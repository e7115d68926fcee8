//! Responder resources: the READs and atomics that were executed last, kept for duplicates
//! (protocol.md 1.6).

#[cfg(test)]
mod tests;

use crate::qp::response::Source;
use wire::Psn;

/// One answer to a request: all of it, or of a READ what was asked for again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    /// Its first PSN.
    pub from: Psn,
    /// The PSN that is sent next.
    pub next: Psn,
    /// Behind its last PSN.
    pub end: Psn,
    pub source: Source,
}

impl Reply {
    /// Whether packets of it are still to be sent.
    pub fn is_pending(&self) -> bool {
        self.next != self.end
    }
}

/// A request that was executed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resource {
    /// First PSN of the request.
    pub first: Psn,
    /// Behind its last.
    pub end: Psn,
    /// What it asked for.
    pub source: Source,
    pub reply: Reply,
    /// The whole response was sent at least once: who asks for another then has it, whatever is
    /// sent again.
    pub answered: bool,
}

impl Resource {
    /// A request just executed, its whole response to be sent.
    pub const fn new(first: Psn, packets: u32, source: Source) -> Self {
        let end = first.add(packets);
        Self { first, end, source, reply: Reply { from: first, next: first, end, source }, answered: false }
    }
}

/// The resources of a queue pair, as many as `max_dest_rd_atomic`, in PSN order from the oldest on.
#[derive(Debug)]
pub(super) struct Resources {
    ring: Box<[Option<Resource>]>,
    /// Index of the oldest; the next request takes its place.
    oldest: usize,
    /// Replies with packets to send.
    pending: usize,
}

impl Resources {
    pub fn new(count: u8) -> Self {
        Self { ring: vec![None; usize::from(count)].into(), oldest: 0, pending: 0 }
    }

    /// Keeps as many from now on: the newest of those that it has. Fewer only if no reply is to be
    /// sent.
    pub fn resize(&mut self, count: u8) {
        let count = usize::from(count);
        let (newer, older) = self.ring.split_at(self.oldest);
        let in_order: Vec<Resource> = older.iter().chain(newer).flatten().copied().collect();
        let kept = &in_order[in_order.len().saturating_sub(count)..];
        let mut ring: Vec<Option<Resource>> = kept.iter().copied().map(Some).collect();
        self.oldest = if kept.len() == count { 0 } else { kept.len() };
        ring.resize(count, None);
        self.ring = ring.into();
    }

    /// Whether a new request finds a place: there is one, and what it held has been answered, if it
    /// is not being answered once more.
    pub fn admit(&self) -> bool {
        self.ring.get(self.oldest).is_some_and(|entry| entry.is_none_or(|entry| entry.answered))
    }

    /// Keeps a request, which must have been admitted.
    pub fn push(&mut self, resource: Resource) {
        if let Some(entry) = self.ring.get_mut(self.oldest) {
            // The peer has the old one: it asks for no more than it may.
            let replayed = entry.is_some_and(|old| old.reply.is_pending());
            *entry = Some(resource);
            self.pending -= usize::from(replayed);
            self.oldest = (self.oldest + 1) % self.ring.len();
            self.pending += 1;
        }
    }

    /// Whether a response is to be sent.
    pub const fn is_pending(&self) -> bool {
        self.pending > 0
    }

    /// The request whose reply's turn it is: the oldest with something to send.
    pub fn next_pending(&mut self) -> Option<&mut Resource> {
        if self.pending == 0 {
            return None;
        }
        let (newer, older) = self.ring.split_at_mut(self.oldest);
        let mut in_order = older.iter_mut().chain(newer).flatten();
        in_order.find(|resource| resource.reply.is_pending())
    }

    /// The reply of [`Resources::next_pending`] is complete, or given up.
    pub const fn finish_one(&mut self) {
        self.pending = self.pending.saturating_sub(1);
    }

    /// The request that has `psn`, if it is still kept.
    pub fn find(&self, psn: Psn) -> Option<&Resource> {
        self.index_of(psn).and_then(|index| self.ring[index].as_ref())
    }

    /// The newest first: PSNs come round, and what is kept may be old.
    fn index_of(&self, psn: Psn) -> Option<usize> {
        let mut newest_first = (0..self.oldest).rev().chain((self.oldest..self.ring.len()).rev());
        newest_first.find(|index| {
            self.ring[*index].is_some_and(|resource| psn.steps_from(resource.first) < packets_of(&resource))
        })
    }

    /// Sends the response to the request that has `psn` again, as this reply. False if it is not
    /// kept.
    pub fn replay(&mut self, reply: Reply) -> bool {
        let index = self.index_of(reply.from);
        let Some(resource) = index.and_then(|index| self.ring[index].as_mut()) else { return false };
        self.pending += usize::from(!resource.reply.is_pending());
        resource.reply = reply;
        true
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.ring.fill(None);
        self.pending = 0;
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.ring)
    }
}

const fn packets_of(resource: &Resource) -> u32 {
    resource.end.steps_from(resource.first)
}
