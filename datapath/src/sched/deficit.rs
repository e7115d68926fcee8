//! Deficit round robin: equal bytes, whatever the size of the messages (Shreedhar and Varghese,
//! SIGCOMM '95).

use super::policy::{Policy, Scheduled, Usage};
use super::schedule_queue::ScheduleQueue;
use super::{SchedAttributes, WEIGHT_LIMIT};
use crate::time::Time;
use crate::tuning;

/// Bytes that each round gives a queue pair of weight 1: the largest packet, so that no round is in
/// vain.
const QUANTUM: i32 = 4096 + 128;

#[derive(Clone, Copy, Debug)]
struct Account {
    /// Bytes that it may send, headers included. A turn of small messages may overdraw it by its
    /// headers.
    deficit: i32,
    weight: u8,
}

/// Deficit round robin over bytes on the wire.
#[derive(Debug)]
pub struct DeficitRoundRobin {
    queue: ScheduleQueue,
    accounts: Box<[Account]>,
}

impl DeficitRoundRobin {
    /// Makes the policy for `queue_pairs` queue pairs.
    #[must_use]
    pub fn new(queue_pairs: usize) -> Self {
        let account = Account { deficit: 0, weight: 1 };
        Self { queue: ScheduleQueue::new(queue_pairs), accounts: vec![account; queue_pairs].into() }
    }
}

impl Policy for DeficitRoundRobin {
    fn push(&mut self, slot: u32) {
        self.queue.push_back(slot);
    }

    fn pop(&mut self, _now: Time) -> Option<Scheduled> {
        let slot = self.queue.pop_front()?;
        let account = &mut self.accounts[slot as usize];
        // Whoever has a quantum left was put back to the front: its round is not over.
        if account.deficit < QUANTUM {
            account.deficit += QUANTUM * i32::from(account.weight);
        }
        let bytes = usize::try_from(account.deficit).unwrap_or(0).min(tuning::BYTES_PER_TURN);
        Some(Scheduled { slot, bytes })
    }

    fn charge(&mut self, slot: u32, usage: Usage) {
        let account = &mut self.accounts[slot as usize];
        account.deficit =
            account.deficit.saturating_sub(i32::try_from(usage.wire_bytes()).unwrap_or(i32::MAX));
        if usage.packets == 0 {
            // It could not use its turn, and may not save it.
            account.deficit = account.deficit.min(QUANTUM - 1);
        }
    }

    fn requeue(&mut self, slot: u32) {
        if self.accounts[slot as usize].deficit >= QUANTUM {
            self.queue.push_front(slot);
        } else {
            self.queue.push_back(slot);
        }
    }

    fn resume(&mut self, slot: u32) {
        self.queue.push_front(slot);
    }

    /// Nothing is saved while nothing is to be sent; debts stay.
    fn idle(&mut self, slot: u32) {
        let account = &mut self.accounts[slot as usize];
        account.deficit = account.deficit.min(0);
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn set_attributes(&mut self, slot: u32, attributes: SchedAttributes) {
        let weight = attributes.weight.clamp(1, WEIGHT_LIMIT);
        self.accounts[slot as usize] = Account { deficit: 0, weight };
    }

    fn bytes(&self) -> usize {
        self.queue.bytes() + size_of_val(&*self.accounts)
    }
}
