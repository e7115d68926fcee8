//! Strict priority with a cap on each priority's rate, so that the high ones cannot take
//! everything.

use super::policy::{Policy, Scheduled, Usage};
use super::slot_lists::SlotLists;
use super::{PRIORITIES, PRIORITY_MAX, SchedAttributes};
use crate::time::Time;
use crate::tuning;

/// Bytes that a priority may save: four turns.
const BURST: i64 = 4 * tuning::BYTES_PER_TURN as i64;
/// Bits in a byte, and nanoseconds in a microsecond: a megabit a second is a byte in so many
/// nanoseconds.
const NS_PER_BYTE_AT_1_MBPS: u64 = 8_000;

/// What a priority may send: a bucket of bytes that fills at the cap's rate.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// 0: no cap.
    cap_mbps: u32,
    /// Below 0 after a turn that took more than there was.
    tokens: i64,
    /// Filled up to here.
    filled_at: Time,
}

impl Bucket {
    /// Returns `true` if something may be sent at `now`.
    fn is_open(&mut self, now: Time) -> bool {
        if self.cap_mbps == 0 {
            return true;
        }
        let cap = u64::from(self.cap_mbps);
        let bytes = now.since(self.filled_at).saturating_mul(cap) / NS_PER_BYTE_AT_1_MBPS;
        self.tokens = self.tokens.saturating_add(i64::try_from(bytes).unwrap_or(BURST)).min(BURST);
        // What makes no whole byte yet counts next time.
        self.filled_at = self.filled_at.after(bytes.saturating_mul(NS_PER_BYTE_AT_1_MBPS) / cap);
        self.tokens > 0
    }
}

/// Strict priority: round robin within a priority; the highest that is within its cap goes first.
/// When all that are ready are above their caps, they take turns, so that no bandwidth is lost.
#[derive(Debug)]
pub struct StrictPriority {
    lists: SlotLists<PRIORITIES>,
    priorities: Box<[u8]>,
    buckets: [Bucket; PRIORITIES],
    /// The priority that went above its cap last.
    over_last: usize,
}

impl StrictPriority {
    /// Makes the policy for `queue_pairs` queue pairs. Caps are in megabits a second; 0 means none.
    #[must_use]
    pub fn new(queue_pairs: usize, cap_mbps: &[u32; PRIORITIES]) -> Self {
        Self {
            lists: SlotLists::new(queue_pairs),
            priorities: vec![0; queue_pairs].into(),
            buckets: cap_mbps.map(|cap_mbps| Bucket { cap_mbps, tokens: BURST, filled_at: Time::ZERO }),
            over_last: 0,
        }
    }

    fn priority(&self, slot: u32) -> usize {
        self.priorities[slot as usize].into()
    }

    /// The priority that sends next.
    fn choose(&mut self, now: Time) -> Option<usize> {
        let within = (0..PRIORITIES)
            .rev()
            .find(|&priority| !self.lists.is_empty(priority) && self.buckets[priority].is_open(now));
        if within.is_some() {
            return within;
        }
        let next = (1..=PRIORITIES)
            .map(|step| (self.over_last + step) % PRIORITIES)
            .find(|&priority| !self.lists.is_empty(priority))?;
        self.over_last = next;
        Some(next)
    }
}

impl Policy for StrictPriority {
    fn push(&mut self, slot: u32) {
        self.lists.push_back(self.priority(slot), slot);
    }

    fn pop(&mut self, now: Time) -> Option<Scheduled> {
        let priority = self.choose(now)?;
        let slot = self.lists.pop_front(priority)?;
        Some(Scheduled { slot, bytes: tuning::BYTES_PER_TURN })
    }

    fn charge(&mut self, slot: u32, usage: Usage) {
        let bucket = &mut self.buckets[usize::from(self.priorities[slot as usize])];
        // What went out above the cap because nobody else was ready is not owed for ever.
        bucket.tokens = bucket.tokens.saturating_sub(usage.wire_bytes()).max(-BURST);
    }

    fn resume(&mut self, slot: u32) {
        self.lists.push_front(self.priority(slot), slot);
    }

    fn waiting(&self) -> usize {
        self.lists.len()
    }

    /// One of a higher priority comes first.
    fn behind(&self) -> usize {
        0
    }

    /// Where it stands in a list, it stays until its next turn.
    fn set_attributes(&mut self, slot: u32, attributes: SchedAttributes) {
        self.priorities[slot as usize] = attributes.priority.min(PRIORITY_MAX);
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.lists.bytes() + size_of_val(&*self.priorities)
    }
}
