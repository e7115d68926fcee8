//! A hashed timer wheel over queue-pair slots: one timer each, constant time to arm, nothing to do
//! for idle ones.
//!
//! Timers are lazy: a queue pair that makes progress does not move its timer; when it fires, the
//! engine looks at what is due and arms it again. (With many queue pairs, those that wait for
//! nothing disarm theirs.) Deadlines behind the horizon fire at the horizon and are armed again
//! likewise.

use crate::prefetch;
use crate::time::Time;

const BUCKETS: usize = 4096;
const NONE: u32 = u32::MAX;

/// One timer of a queue pair. No two lines have parts of it.
#[derive(Clone, Copy, Debug)]
#[repr(align(16))]
struct Link {
    next: u32,
    prev: u32,
    due: Due,
}

const UNARMED: Link = Link { next: NONE, prev: NONE, due: Due::NEVER };

/// Two numbers in one word: in what bucket a timer is due, counted from time 0, and in which one it
/// stands, a slot of the wheel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Due(u64);

impl Due {
    /// As late as [`Time::NEVER`] in the default wheel, for which no timer is armed.
    const NEVER: Self = Self(1 << 63);

    const fn new(wanted: u64, bucket: u32) -> Self {
        Self(wanted * BUCKETS as u64 + bucket as u64)
    }

    /// The bucket that was wanted.
    const fn wanted(self) -> u64 {
        self.0 / BUCKETS as u64
    }

    const fn bucket(self) -> u32 {
        bucket_of(self.0)
    }
}

/// The wheel. Its buckets are 2^`BUCKET_NS_LOG2` nanoseconds wide, 8.2 us unless told otherwise.
#[derive(Debug)]
pub struct TimerWheel<const BUCKET_NS_LOG2: u32 = 13> {
    heads: Box<[u32]>,
    /// One bit a bucket that is not empty.
    occupied: Box<[u64]>,
    links: Vec<Link>,
    /// First bucket (counted from time 0) not yet fired.
    cursor: u64,
    /// No bucket before this one has a timer; never below `cursor`. What is disarmed leaves it too
    /// low until the next look.
    first: u64,
    armed: usize,
}

impl<const BUCKET_NS_LOG2: u32> TimerWheel<BUCKET_NS_LOG2> {
    /// A wheel for `slots` queue pairs.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        Self {
            heads: vec![NONE; BUCKETS].into(),
            occupied: vec![0; BUCKETS / 64].into(),
            links: vec![UNARMED; slots],
            cursor: 0,
            first: u64::MAX,
            armed: 0,
        }
    }

    /// Arms the timer of `slot`, or moves it forward; a deadline in the bucket of the armed one, or
    /// later, changes nothing.
    pub fn arm(&mut self, slot: u32, deadline: Time) {
        let wanted = Self::wanted_at(deadline);
        if self.links[slot as usize].due.wanted() <= wanted {
            return;
        }
        self.disarm(slot);
        let last = self.cursor + BUCKETS as u64 - 1;
        let place = wanted.clamp(self.cursor, last);
        self.first = self.first.min(place);
        let bucket = bucket_of(place);
        let head = self.heads[bucket as usize];
        self.links[slot as usize] = Link { next: head, prev: NONE, due: Due::new(wanted, bucket) };
        if head != NONE {
            self.links[head as usize].prev = slot;
        }
        self.heads[bucket as usize] = slot;
        self.occupied[bucket as usize / 64] |= 1 << (bucket % 64);
        self.armed += 1;
    }

    /// Disarms the timer of `slot`.
    pub fn disarm(&mut self, slot: u32) {
        let link = core::mem::replace(&mut self.links[slot as usize], UNARMED);
        if link.due == Due::NEVER {
            return;
        }
        let bucket = link.due.bucket() as usize;
        if link.next != NONE {
            self.links[link.next as usize].prev = link.prev;
        }
        if link.prev == NONE {
            self.heads[bucket] = link.next;
            if link.next == NONE {
                self.occupied[bucket / 64] &= !(1 << (bucket % 64));
            }
        } else {
            self.links[link.prev as usize].next = link.next;
        }
        self.armed -= 1;
    }

    /// Starts to fetch the timer of `slot`.
    #[inline]
    pub(crate) fn prefetch(&self, slot: u32) {
        if let Some(link) = self.links.get(slot as usize) {
            prefetch::write(link);
        }
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.heads) + size_of_val(&*self.occupied) + self.links.capacity() * size_of::<Link>()
    }

    /// Takes one timer that is due at `now`. Call until it returns `None`.
    #[inline]
    pub fn pop(&mut self, now: Time) -> Option<u32> {
        let end = now.0 >> BUCKET_NS_LOG2;
        if end < self.first {
            self.cursor = self.cursor.max(end);
            return None;
        }
        self.pop_due(end)
    }

    #[inline(never)]
    fn pop_due(&mut self, end: u64) -> Option<u32> {
        debug_assert!(self.cursor <= self.first, "no bucket that has passed has a timer");
        // After a gap longer than the wheel every bucket is due: what is armed again meanwhile must
        // not be clamped to before `end`.
        self.cursor = self.cursor.max((end + 1).saturating_sub(BUCKETS as u64));
        let span = end - self.cursor + 1;
        match self.first_occupied(span) {
            Some(ahead) => {
                // A gap longer than the wheel is fired through in one sweep; the order inside it is
                // not kept.
                self.cursor += ahead;
                self.first = self.cursor;
                let slot = self.heads[bucket_of(self.cursor) as usize];
                self.disarm(slot);
                Some(slot)
            }
            None => {
                self.cursor = end;
                self.first = if self.armed == 0 { u64::MAX } else { end + 1 };
                None
            }
        }
    }

    /// The earliest time at which [`TimerWheel::pop`] can return something.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        let ahead = (self.armed > 0).then(|| self.first_occupied(BUCKETS as u64)).flatten()?;
        Some(Time((self.cursor + ahead) << BUCKET_NS_LOG2))
    }

    /// Where a timer belongs. A bucket fires when it has passed as a whole: no timer fires early.
    const fn wanted_at(deadline: Time) -> u64 {
        (deadline.0 >> BUCKET_NS_LOG2) + 1
    }

    /// Buckets from the cursor to the first that is not empty, looking `span` buckets far.
    fn first_occupied(&self, span: u64) -> Option<u64> {
        let mut ahead = 0;
        while ahead < span {
            let bucket = bucket_of(self.cursor + ahead);
            let rest = self.occupied[bucket as usize / 64] >> (bucket % 64);
            if rest != 0 {
                let found = ahead + u64::from(rest.trailing_zeros());
                return (found < span).then_some(found);
            }
            ahead += u64::from(64 - bucket % 64);
        }
        None
    }
}

/// Index of a bucket counted from time 0.
#[expect(clippy::cast_possible_truncation, reason = "the remainder is below BUCKETS")]
const fn bucket_of(count: u64) -> u32 {
    (count % BUCKETS as u64) as u32
}
