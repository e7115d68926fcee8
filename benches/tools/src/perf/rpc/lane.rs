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

/// Where messages are: for each queue pair twice as many places, at least, as requests are
/// outstanding. So there is one for each that may come while those that came wait to be answered.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    size: usize,
    requests: u32,
    /// Of a queue pair, a power of two.
    places: usize,
    lanes: usize,
}

impl Slots {
    pub const fn new(size: usize, requests: u32, lanes: u32) -> Self {
        let places = 2 * (requests as usize).next_power_of_two();
        Self { size, requests, places, lanes: lanes as usize }
    }

    /// Bytes of a message.
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Bytes of them all.
    pub const fn len(&self) -> usize {
        self.stride() * self.places * self.lanes
    }

    /// A cache line at least.
    const fn stride(&self) -> usize {
        self.size.next_multiple_of(64)
    }

    /// The place of a lane's message, counted from 0.
    #[expect(clippy::cast_possible_truncation, reason = "what is cut off names no place")]
    const fn of(&self, lane: usize, message: u64) -> Range<usize> {
        let place = message as usize & (self.places - 1);
        let start = (lane * self.places + place) * self.stride();
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

    /// Places in the send queue: a message is acknowledged later than it is answered, and completes
    /// with others.
    #[expect(clippy::cast_possible_truncation, reason = "a small constant")]
    pub const fn send_queue(requests: u32) -> u32 {
        2 * (requests + SIGNAL_INTERVAL as u32)
    }

    /// Returns `true` if every request was answered.
    pub const fn is_idle(&self) -> bool {
        self.received == self.sent
    }

    /// Posts receives: one for each message that may come.
    pub fn post_receives(&mut self, Ends { target, .. }: Ends<'_>) -> Result<()> {
        let posted = self.received + u64::from(self.slots.requests);
        let wr_id = self.index as u64;
        let mut batch = self.queue_pair.recv_batch();
        for message in self.posted..posted {
            let scatter = [target.slice(self.slots.of(self.index, message))?];
            batch.post_recv(&RecvRequest { wr_id, scatter: &scatter })?;
        }
        self.posted = posted;
        Ok(())
    }

    /// Sends requests, as a list, until enough are outstanding or were sent.
    pub fn request(&mut self, ends: Ends<'_>, goal: Goal, now: Instant) -> Result<()> {
        self.due = false;
        self.post_receives(ends)?;
        let most = self.end_of_room().min(self.received + u64::from(self.slots.requests));
        let mut end = self.sent;
        while end < most && !goal.is_reached(end, now) {
            if ends.verify {
                memory::fill(ends.source, self.slots.of(self.index, end), self.pattern(end))?;
            }
            end += 1;
        }
        self.send_until(end, ends.source, ends.source)
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
        self.post_receives(ends)?;
        let end = self.end_of_room().min(self.received);
        if !self.goes_inline() {
            for message in self.sent..end {
                copy(ends.target, ends.source, self.slots.of(self.index, message))?;
            }
        }
        self.send_until(end, ends.target, ends.source)
    }

    /// The first message that finds no room in the send queue.
    fn end_of_room(&self) -> u64 {
        let room = Self::send_queue(self.slots.requests) - self.queue_pair.outstanding();
        self.sent + u64::from(room)
    }

    /// Returns `true` if messages are short enough to be copied into the send queue.
    const fn goes_inline(&self) -> bool {
        self.slots.size <= QueueCaps::INLINE_LIMIT as usize
    }

    /// Sends the messages below number `end`: from `near` what goes into the send queue, else from
    /// `source`.
    fn send_until(&mut self, end: u64, near: &MemoryRegion, source: &MemoryRegion) -> Result<()> {
        if end == self.sent {
            return Ok(());
        }
        let inlined = self.goes_inline();
        let mut inline = [0; QueueCaps::INLINE_LIMIT as usize];
        let mut batch = self.queue_pair.batch();
        for message in self.sent..end {
            let place = self.slots.of(self.index, message);
            let gather;
            let data = if inlined {
                let bytes = &mut inline[..self.slots.size];
                near.read(place.start, bytes)?;
                SendData::Inline(bytes)
            } else {
                gather = [source.slice(place)?];
                SendData::Gather(&gather)
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

/// Copies the bytes of `range` from one region to the same range of another.
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
            (0..2).flat_map(|lane| (5..11).map(move |message| slots.of(lane, message))).collect();
        places.sort_by_key(|place| place.start);
        assert!(places.iter().all(|place| place.len() == 100 && place.end <= slots.len()));
        assert!(places.is_sorted_by(|one, two| one.end <= two.start), "{places:?}");
        assert_eq!(slots.of(1, 0), slots.of(1, 8));
    }
}
