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
/// Receives posted at a time.
const BATCH: usize = 32;

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

/// What all lanes have in common.
#[derive(Clone, Copy)]
pub struct Ends<'a> {
    /// What is sent.
    pub source: &'a MemoryRegion,
    /// Where the peer's messages go.
    pub target: &'a MemoryRegion,
    /// Every byte is checked.
    pub verify: bool,
}

/// A queue pair, and what went over it.
pub struct Lane<'a> {
    index: usize,
    slots: Slots,
    queue_pair: &'a mut QueuePair,
    sent: u64,
    received: u64,
    posted: u64,
    /// Has taken a message, and sent nothing since.
    due: bool,
}

impl<'a> Lane<'a> {
    pub const fn new(index: usize, slots: Slots, queue_pair: &'a mut QueuePair) -> Self {
        Self { index, slots, queue_pair, sent: 0, received: 0, posted: 0, due: false }
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

    /// Posts receives: one for each message that is taken or outstanding once `taken` are.
    pub fn post_receives(&mut self, taken: u64, Ends { target, .. }: Ends<'_>) -> Result<()> {
        let posted = taken + u64::from(self.slots.requests);
        while self.posted < posted {
            let mut places = [[target.slice(0..0)?]; BATCH];
            let mut count = 0;
            for ([place], message) in places.iter_mut().zip(self.posted..posted) {
                *place = target.slice(self.slots.of(self.index, message))?;
                count += 1;
            }
            let wr_id = self.index as u64;
            let receives = places.each_ref().map(|scatter| RecvRequest { wr_id, scatter });
            self.queue_pair.post_recv_batch(&receives[..count])?;
            self.posted += count as u64;
        }
        Ok(())
    }

    /// Sends requests, as a list, until enough are outstanding or were sent.
    pub fn request(&mut self, ends: Ends<'_>, goal: Goal, now: Instant) -> Result<()> {
        self.due = false;
        self.post_receives(self.received, ends)?;
        let mut end = self.sent;
        while end - self.received < u64::from(self.slots.requests)
            && self.has_room_for(end)
            && !goal.is_reached(end, now)
        {
            if ends.verify {
                memory::fill(ends.source, self.slots.of(self.index, end), self.pattern(end))?;
            }
            end += 1;
        }
        self.send_until(end, ends.source)
    }

    /// Takes the oldest response.
    pub fn take_response(&mut self, len: u32, ends: Ends<'_>) -> Result<()> {
        if ends.verify {
            let slot = self.slots.of(self.index, self.received);
            memory::check(ends.target, slot, Some(self.pattern(self.received)), "response")?;
        }
        self.take_request(len, ends)
    }

    /// A request is here.
    pub fn take_request(&mut self, len: u32, _: Ends<'_>) -> Result<()> {
        self.check(len)?;
        self.received += 1;
        Ok(())
    }

    /// A message is here; whether it is the first since the lane sent.
    pub const fn becomes_due(&mut self) -> bool {
        !std::mem::replace(&mut self.due, true)
    }

    /// Answers requests with their own bytes, in a list.
    pub fn answer(&mut self, ends: Ends<'_>) -> Result<()> {
        self.due = false;
        let mut end = self.sent;
        while end < self.received && self.has_room_for(end) {
            copy(ends.target, ends.source, self.slots.of(self.index, end))?;
            end += 1;
        }
        // The places whose messages were copied may take others.
        self.post_receives(end, ends)?;
        self.send_until(end, ends.source)
    }

    /// Whether the send queue takes the messages up to number `end`, and one more.
    fn has_room_for(&self, end: u64) -> bool {
        u64::from(self.queue_pair.outstanding()) + (end - self.sent)
            < u64::from(Self::send_queue(self.slots.requests))
    }

    /// Sends the messages below number `end`.
    fn send_until(&mut self, end: u64, source: &MemoryRegion) -> Result<()> {
        if end == self.sent {
            return Ok(());
        }
        let mut inline = [0; QueueCaps::INLINE_LIMIT as usize];
        let mut batch = self.queue_pair.batch();
        for message in self.sent..end {
            let slot = self.slots.of(self.index, message);
            let gather = [source.slice(slot.clone())?];
            let data = match inline.get_mut(..slot.len()) {
                Some(bytes) => {
                    source.read(slot.start, bytes)?;
                    SendData::Inline(bytes)
                }
                None => SendData::Gather(&gather),
            };
            let request = SendRequest::send(data);
            let signaled = (message + 1).is_multiple_of(SIGNAL_INTERVAL);
            batch.post_send(&if signaled { request.signaled() } else { request })?;
        }
        self.sent = end;
        Ok(())
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
