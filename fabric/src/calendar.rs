//! What happens when: a wheel of buckets for the next microseconds, and a heap for what is later.
//!
//! Events are taken by time, and those of one moment by kind, entity and number. That order does
//! not depend on the order in which they were put in.

use crate::clock::Ps;
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Picoseconds of a bucket: 2 to this power.
const BUCKET_BITS: u32 = 12;
/// Buckets of the wheel, a power of two: 16.8 us together.
const BUCKETS: usize = 4096;

/// Where the kind stands in an event's order.
const KIND_SHIFT: u32 = 61;
/// The bits of a number of a link or host.
const ENTITY_MASK: u32 = (1 << (KIND_SHIFT - 32)) - 1;

/// What kind of event. Events of one moment happen in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A packet has arrived at the end of a link.
    Arrival = 0,
    /// A host's engine takes a turn.
    Turn = 1,
    /// A host begins a flow.
    Flow = 2,
    /// A link is told to pause or to go on.
    Pause = 3,
    /// A frame has left a link that can be paused.
    Departure = 4,
}

/// Something that happens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Event {
    /// When.
    pub at: Ps,
    /// Kind, entity and number: what orders the events of one moment.
    order: u64,
    /// The packet of an arrival; of a pause, whether it begins.
    pub packet: u32,
}

impl Event {
    /// An event of `entity`, which gives each of its events of this kind another `number` if
    /// several can be at one moment.
    #[must_use]
    pub const fn new(at: Ps, kind: Kind, entity: u32, number: u32, packet: u32) -> Self {
        let order = (kind as u64) << KIND_SHIFT | ((entity & ENTITY_MASK) as u64) << 32 | number as u64;
        Self { at, order, packet }
    }

    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self.order >> KIND_SHIFT {
            0 => Kind::Arrival,
            1 => Kind::Turn,
            2 => Kind::Flow,
            3 => Kind::Pause,
            _ => Kind::Departure,
        }
    }

    /// What its entity told it from its others by.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
    pub const fn number(&self) -> u32 {
        self.order as u32
    }

    /// The link, or the host.
    #[must_use]
    pub const fn entity(&self) -> u32 {
        (self.order >> 32) as u32 & ENTITY_MASK
    }
}

/// Events to come.
#[derive(Debug)]
pub struct Calendar {
    /// Each with the events of one bucket of the wheel, unordered.
    wheel: Vec<Vec<Event>>,
    /// Empty lists whose memory was used lately.
    spare: Vec<Vec<Event>>,
    /// The present bucket's events, the next one last.
    present: Vec<Event>,
    /// Number of the present bucket since the beginning.
    bucket: u64,
    /// Events in the wheel.
    waiting: usize,
    /// Events behind the wheel's end.
    later: BinaryHeap<Reverse<Event>>,
}

impl Default for Calendar {
    fn default() -> Self {
        Self {
            wheel: (0..BUCKETS).map(|_| Vec::new()).collect(),
            spare: Vec::new(),
            present: Vec::new(),
            bucket: 0,
            waiting: 0,
            later: BinaryHeap::new(),
        }
    }
}

impl Calendar {
    /// Puts an event in; it must not lie before what was taken last.
    pub fn push(&mut self, event: Event) {
        let bucket = event.at.0 >> BUCKET_BITS;
        if bucket <= self.bucket {
            let place = self.present.partition_point(|other| *other > event);
            self.present.insert(place, event);
        } else if bucket - self.bucket < BUCKETS as u64 {
            self.put(bucket, event);
        } else {
            self.later.push(Reverse(event));
        }
    }

    fn put(&mut self, bucket: u64, event: Event) {
        let list = &mut self.wheel[place(bucket)];
        if list.capacity() == 0 {
            *list = self.spare.pop().unwrap_or_default();
        }
        list.push(event);
        self.waiting += 1;
    }

    /// Takes the next event.
    pub fn pop(&mut self) -> Option<Event> {
        self.pop_before(Ps::NEVER)
    }

    /// Takes the next event, if it comes before `until`.
    pub fn pop_before(&mut self, until: Ps) -> Option<Event> {
        while self.present.is_empty() {
            self.advance(until.0 >> BUCKET_BITS)?;
        }
        if self.present.last()?.at < until { self.present.pop() } else { None }
    }

    /// The event that comes so many after the next one, if that is known already.
    #[must_use]
    pub fn ahead(&self, events: usize) -> Option<Event> {
        self.present.len().checked_sub(events + 1).map(|place| self.present[place])
    }

    /// When the next event happens.
    #[must_use]
    pub fn next_at(&self) -> Option<Ps> {
        if let Some(next) = self.present.last() {
            return Some(next.at);
        }
        if self.waiting == 0 {
            return self.later.peek().map(|Reverse(event)| event.at);
        }
        // What is later is behind the wheel's end.
        let mut lists = (1..BUCKETS as u64).map(|ahead| &self.wheel[place(self.bucket + ahead)]);
        lists.find(|list| !list.is_empty())?.iter().map(|event| event.at).min()
    }

    /// Goes to the next bucket that may have events, but not beyond `last`; `None` if there are
    /// none.
    fn advance(&mut self, last: u64) -> Option<()> {
        let bucket = if self.waiting == 0 {
            let Reverse(first) = self.later.peek()?;
            first.at.0 >> BUCKET_BITS
        } else {
            self.bucket + 1
        };
        if bucket > last {
            return None;
        }
        self.bucket = bucket;
        let end = self.bucket + BUCKETS as u64;
        while let Some(Reverse(event)) = self.later.peek().filter(|event| event.0.at.0 >> BUCKET_BITS < end) {
            let event = *event;
            self.later.pop();
            self.put(event.at.0 >> BUCKET_BITS, event);
        }
        let list = core::mem::take(&mut self.wheel[place(self.bucket)]);
        self.waiting -= list.len();
        let before = core::mem::replace(&mut self.present, list);
        if before.capacity() > 0 {
            self.spare.push(before);
        }
        self.present.sort_unstable_by(|left, right| right.cmp(left));
        Some(())
    }
}

/// Where a bucket is in the wheel.
#[expect(clippy::cast_possible_truncation, reason = "it is below the number of buckets")]
const fn place(bucket: u64) -> usize {
    (bucket % BUCKETS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::SplitMix64;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    /// Near, far and very far events, put in while others are taken, come out in order.
    #[test]
    fn events_come_in_order() {
        let mut random = SplitMix64::seed_from_u64(7);
        let (mut calendar, mut model) = (Calendar::default(), BinaryHeap::new());
        let mut now = 0;
        for number in 0..20_000 {
            let draw = random.next_u64();
            let reach = [100, 10_000, 3_000_000, 500_000_000][(draw % 4) as usize];
            let at = Ps(now + random.next_u64() % reach);
            let event = Event::new(at, Kind::Turn, random.next_u32() >> 8, number, 0);
            calendar.push(event);
            model.push(Reverse(event));
            if draw >> 40 & 1 == 1 {
                let next = calendar.pop();
                assert_eq!(next, model.pop().map(|event| event.0));
                now = next.expect("there is one").at.0;
            }
        }
        while let Some(Reverse(event)) = model.pop() {
            assert_eq!(calendar.pop(), Some(event));
        }
        assert_eq!(calendar.pop(), None);
    }

    #[test]
    fn events_of_one_moment_are_ordered_by_what_they_are() {
        let at = Ps(5);
        let events = [
            Event::new(at, Kind::Arrival, 1, 0, 9),
            Event::new(at, Kind::Arrival, 1, 1, 3),
            Event::new(at, Kind::Arrival, 2, 0, 1),
            Event::new(at, Kind::Turn, 0, 0, 0),
            Event::new(at, Kind::Flow, 0, 0, 0),
            Event::new(at, Kind::Pause, 0, 0, 1),
            Event::new(at, Kind::Departure, 0, 0, 0),
        ];
        let mut calendar = Calendar::default();
        events.iter().rev().for_each(|event| calendar.push(*event));
        assert!(events.iter().all(|event| calendar.pop() == Some(*event)));
        assert_eq!((events[2].kind(), events[2].entity()), (Kind::Arrival, 2));
    }
}
