//! Strict priority with a cap on each priority's rate, so that the high ones cannot take
//! everything.

use super::meter::Meter;
use super::policy::{Policy, Scheduled, Usage};
use super::slot_lists::SlotLists;
use super::{PRIORITIES, PRIORITY_MAX, SchedAttributes};
use crate::time::Time;
use crate::tuning;

/// Bytes that a priority may save: four turns.
const BURST: u64 = 4 * tuning::BYTES_PER_TURN as u64;
/// Bytes a second in a megabit a second.
const BYTES_PER_MBPS: u64 = 125_000;

/// Strict priority: round robin within a priority; the highest that is within its cap goes first.
/// When all that are ready are above their caps, they take turns, so that no bandwidth is lost.
#[derive(Debug)]
pub struct StrictPriority {
    lists: SlotLists<PRIORITIES>,
    priorities: Box<[u8]>,
    caps: [Meter; PRIORITIES],
    /// Time of the last turn.
    now: Time,
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
            caps: cap_mbps.map(|cap| Meter::new(u64::from(cap) * BYTES_PER_MBPS, BURST, 0)),
            now: Time::ZERO,
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
            .find(|&priority| !self.lists.is_empty(priority) && self.caps[priority].is_open(now));
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
        self.now = now;
        let priority = self.choose(now)?;
        let slot = self.lists.pop_front(priority)?;
        Some(Scheduled { slot, bytes: tuning::BYTES_PER_TURN })
    }

    fn charge(&mut self, slot: u32, usage: Usage) {
        let cap = &mut self.caps[usize::from(self.priorities[slot as usize])];
        cap.take(usage.wire_bytes(), self.now);
        // What went out above the cap because nobody else was ready is not owed for ever.
        cap.forgive(self.now);
    }

    fn resume(&mut self, slot: u32) {
        self.lists.push_front(self.priority(slot), slot);
    }

    fn waiting(&self) -> usize {
        self.lists.len()
    }

    /// One of a higher priority comes first.
    fn behind(&self, _slot: Option<u32>) -> usize {
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
