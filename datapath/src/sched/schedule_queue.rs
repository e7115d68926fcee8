//! The schedule queue: ready queue pairs, each at most once, in round-robin order.

use std::collections::VecDeque;

/// Slots of ready queue pairs.
#[derive(Debug)]
pub struct ScheduleQueue {
    slots: VecDeque<u32>,
}

impl ScheduleQueue {
    /// Room for `queue_pairs`, so that it never grows.
    #[must_use]
    pub fn new(queue_pairs: usize) -> Self {
        Self { slots: VecDeque::with_capacity(queue_pairs) }
    }

    /// Puts a queue pair at the end of the round.
    #[inline]
    pub fn push_back(&mut self, slot: u32) {
        debug_assert!(self.slots.len() < self.slots.capacity(), "each queue pair is queued at most once");
        self.slots.push_back(slot);
    }

    /// Back to the front: its turn was cut short for no fault of its own.
    #[inline]
    pub fn push_front(&mut self, slot: u32) {
        self.slots.push_front(slot);
    }

    /// The next in the round.
    #[inline]
    pub fn pop_front(&mut self) -> Option<u32> {
        self.slots.pop_front()
    }

    /// The one behind so many others.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<u32> {
        self.slots.get(index).copied()
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u32>()
    }

    /// Queue pairs that wait for their turn.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True if nobody waits.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}
