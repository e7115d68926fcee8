//! One queue pair's requests and responses.

use crate::error::{Error, Result};
use crate::perf::cli::Goal;
use crate::perf::memory;
use crate::perf::pattern::Pattern;
use std::ops::Range;
use std::time::Instant;
use verbs_api::{MemoryRegion, QueueCaps, QueuePair, RecvRequest, SendData, SendRequest};

/// Requests or responses for which there is one completion.
const SIGNAL_INTERVAL: u64 = 16;

/// Where messages are: as many places for each queue pair as requests are outstanding.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    size: usize,
    requests: u32,
    lanes: usize,
}

impl Slots {
    pub const fn new(size: usize, requests: u32, lanes: u32) -> Self {
        Self { size, requests, lanes: lanes as usize }
    }

    /// Bytes of a message.
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Bytes of them all.
    pub const fn len(&self) -> usize {
        self.stride() * self.requests as usize * self.lanes
    }

    /// A cache line at least.
    const fn stride(&self) -> usize {
        self.size.next_multiple_of(64)
    }

    /// The place of a lane's message, counted from 0.
    fn of(&self, lane: usize, message: u64) -> Range<usize> {
        let slot = usize::try_from(message % u64::from(self.requests)).unwrap_or_default();
        let start = (lane * self.requests as usize + slot) * self.stride();
        start..start + self.size
    }
}

/// A queue pair's state.
pub struct Lane {
    index: usize,
    slots: Slots,
    sent: u64,
    received: u64,
    posted: u64,
}

impl Lane {
    pub const fn new(index: u32, slots: Slots) -> Self {
        Self { index: index as usize, slots, sent: 0, received: 0, posted: 0 }
    }

    /// The lane and the queue pair that a receive's `wr_id` names.
    pub fn of<'a>(
        lanes: &'a mut [Self],
        queue_pairs: &'a mut [QueuePair],
        wr_id: u64,
    ) -> Result<(&'a mut Self, &'a mut QueuePair)> {
        let index = usize::try_from(wr_id).unwrap_or(usize::MAX);
        lanes.get_mut(index).zip(queue_pairs.get_mut(index)).ok_or_else(|| Error::Unexpected {
            said: format!("a completion with wr_id {wr_id}"),
            expected: "one of ours",
        })
    }

    /// Places in the send queue: a message is acknowledged later than it is answered, and completes with others.
    #[expect(clippy::cast_possible_truncation, reason = "a small constant")]
    pub const fn send_queue(requests: u32) -> u32 {
        2 * (requests + SIGNAL_INTERVAL as u32)
    }

    /// Whether every request was answered.
    pub const fn is_idle(&self) -> bool {
        self.received == self.sent
    }

    /// One for each request that is outstanding.
    pub fn post_receives(&mut self, queue_pair: &mut QueuePair, target: &MemoryRegion) -> Result<()> {
        for _ in 0..self.slots.requests {
            self.post_receive(queue_pair, target)?;
        }
        Ok(())
    }

    fn post_receive(&mut self, queue_pair: &mut QueuePair, target: &MemoryRegion) -> Result<()> {
        let scatter = [target.slice(self.slots.of(self.index, self.posted))?];
        queue_pair.post_recv(&RecvRequest { wr_id: self.index as u64, scatter: &scatter })?;
        self.posted += 1;
        Ok(())
    }

    /// Sends requests until enough are outstanding, or were sent.
    pub fn request(
        &mut self,
        queue_pair: &mut QueuePair,
        source: &MemoryRegion,
        goal: Goal,
        now: Instant,
        verify: bool,
    ) -> Result<()> {
        while self.sent - self.received < u64::from(self.slots.requests)
            && self.has_room(queue_pair)
            && !goal.is_reached(self.sent, now)
        {
            let slot = self.slots.of(self.index, self.sent);
            if verify {
                memory::fill(source, slot.clone(), self.pattern(self.sent))?;
            }
            self.send(queue_pair, source, slot)?;
        }
        Ok(())
    }

    /// Takes the oldest response, and makes room for another one.
    pub fn take_response(
        &mut self,
        len: u32,
        queue_pair: &mut QueuePair,
        target: &MemoryRegion,
        verify: bool,
    ) -> Result<()> {
        self.check(len)?;
        if verify {
            let slot = self.slots.of(self.index, self.received);
            memory::check(target, slot, Some(self.pattern(self.received)), "response")?;
        }
        self.received += 1;
        self.post_receive(queue_pair, target)
    }

    /// A request is here.
    pub fn take_request(&mut self, len: u32) -> Result<()> {
        self.check(len)?;
        self.received += 1;
        Ok(())
    }

    /// Answers requests with their own bytes.
    pub fn answer(
        &mut self,
        queue_pair: &mut QueuePair,
        source: &MemoryRegion,
        target: &MemoryRegion,
    ) -> Result<()> {
        while self.sent < self.received && self.has_room(queue_pair) {
            let slot = self.slots.of(self.index, self.sent);
            copy(target, source, slot.clone())?;
            // From here on the place may take the next request.
            self.post_receive(queue_pair, target)?;
            self.send(queue_pair, source, slot)?;
        }
        Ok(())
    }

    fn has_room(&self, queue_pair: &QueuePair) -> bool {
        queue_pair.outstanding() < Self::send_queue(self.slots.requests)
    }

    fn send(&mut self, queue_pair: &mut QueuePair, source: &MemoryRegion, slot: Range<usize>) -> Result<()> {
        let mut bytes = [0; QueueCaps::INLINE_LIMIT as usize];
        if let Some(bytes) = bytes.get_mut(..slot.len()) {
            source.read(slot.start, bytes)?;
            return self.post(queue_pair, SendData::Inline(bytes));
        }
        let gather = [source.slice(slot)?];
        self.post(queue_pair, SendData::Gather(&gather))
    }

    fn post(&mut self, queue_pair: &mut QueuePair, data: SendData<'_>) -> Result<()> {
        let request = SendRequest::send(data);
        self.sent += 1;
        let signaled = self.sent.is_multiple_of(SIGNAL_INTERVAL);
        Ok(queue_pair.post_send(&if signaled { request.signaled() } else { request })?)
    }

    fn check(&self, len: u32) -> Result<()> {
        if len as usize == self.slots.size {
            return Ok(());
        }
        Err(Error::Unexpected {
            said: format!("a message of {len} bytes"),
            expected: "one of the size that was agreed upon",
        })
    }

    fn pattern(&self, message: u64) -> Pattern {
        Pattern::new((self.index as u64) << 48 | message)
    }
}

/// The same bytes at the same place.
fn copy(from: &MemoryRegion, to: &MemoryRegion, range: Range<usize>) -> Result<()> {
    let mut chunk = [0; 256];
    for start in range.clone().step_by(chunk.len()) {
        let chunk = &mut chunk[..(range.end - start).min(256)];
        from.read(start, chunk)?;
        to.write(start, chunk)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_outstanding_messages_do_not_overlap() {
        let slots = Slots::new(100, 3, 2);
        let mut places: Vec<Range<usize>> =
            (0..2).flat_map(|lane| (5..8).map(move |message| slots.of(lane, message))).collect();
        places.sort_by_key(|place| place.start);
        assert!(places.iter().all(|place| place.len() == 100 && place.end <= slots.len()));
        assert!(places.is_sorted_by(|one, two| one.end <= two.start), "{places:?}");
        assert_eq!(slots.of(1, 0), slots.of(1, 3));
    }
}
