//! Weighted round robin: a round gives each ready queue pair as many turns as its weight says.

use super::policy::{Policy, Scheduled, Usage};
use super::schedule_queue::ScheduleQueue;
use super::{SchedAttributes, WEIGHT_LIMIT};
use crate::time::Time;
use crate::tuning;

#[derive(Clone, Copy, Debug)]
struct Share {
    weight: u8,
    /// Turns left in this round.
    left: u8,
}

/// Weighted round robin over turns.
#[derive(Debug)]
pub struct Weighted {
    queue: ScheduleQueue,
    shares: Box<[Share]>,
}

impl Weighted {
    /// Makes the policy for `queue_pairs` queue pairs.
    #[must_use]
    pub fn new(queue_pairs: usize) -> Self {
        let share = Share { weight: 1, left: 0 };
        Self { queue: ScheduleQueue::new(queue_pairs), shares: vec![share; queue_pairs].into() }
    }
}

impl Policy for Weighted {
    fn push(&mut self, slot: u32) {
        self.queue.push_back(slot);
    }

    fn pop(&mut self, _now: Time) -> Option<Scheduled> {
        let slot = self.queue.pop_front()?;
        let share = &mut self.shares[slot as usize];
        if share.left == 0 {
            share.left = share.weight;
        }
        share.left -= 1;
        Some(Scheduled { slot, bytes: tuning::BYTES_PER_TURN })
    }

    /// Who did not use its turn has no use for the rest of them.
    fn charge(&mut self, slot: u32, usage: Usage) {
        if usage.packets == 0 {
            self.shares[slot as usize].left = 0;
        }
    }

    fn requeue(&mut self, slot: u32) {
        if self.shares[slot as usize].left > 0 {
            self.queue.push_front(slot);
        } else {
            self.queue.push_back(slot);
        }
    }

    /// The turn that was cut short counts as one.
    fn resume(&mut self, slot: u32) {
        self.queue.push_front(slot);
    }

    fn idle(&mut self, slot: u32) {
        self.shares[slot as usize].left = 0;
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn set_attributes(&mut self, slot: u32, attributes: SchedAttributes) {
        let weight = attributes.weight.clamp(1, WEIGHT_LIMIT);
        self.shares[slot as usize] = Share { weight, left: 0 };
    }

    fn bytes(&self) -> usize {
        self.queue.bytes() + size_of_val(&*self.shares)
    }
}
