//! The event mux: turns events of a queue pair into its place in the schedule queue (paper section 4.2).
//!
//! A queue pair is *active* while it has something to send, has *credit* while its gates are open, and is *ready* if it
//! is both, or if a probe is due. Only ready queue pairs stand in the schedule queue.

use super::schedule_queue::ScheduleQueue;

bitflags::bitflags! {
    /// Scheduling state of a queue pair.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct SchedFlags: u8 {
        /// Stands in the schedule queue.
        const QUEUED = 1;
        /// Has rung its doorbell and not been put to rest.
        const ACTIVE = 2;
        /// A probe is due; it passes both gates.
        const PROBE = 4;
        /// Stands in the list of acknowledgements to send.
        const ACK_LISTED = 8;
        /// Has a timer in the wheel.
        const TIMED = 16;
        /// Waits for the end of an RNR delay: nothing is sent.
        const RNR_WAIT = 32;
    }
}

/// The event mux of one engine.
#[derive(Debug)]
pub struct EventMux {
    queue: ScheduleQueue,
}

impl EventMux {
    /// For `queue_pairs` queue pairs.
    #[must_use]
    pub fn new(queue_pairs: usize) -> Self {
        Self { queue: ScheduleQueue::new(queue_pairs) }
    }

    /// A queue pair may have become ready: queue it unless it stands there already.
    #[inline]
    pub fn wake(&mut self, slot: u32, flags: &mut SchedFlags, ready: bool) {
        if ready && !flags.contains(SchedFlags::QUEUED) {
            flags.insert(SchedFlags::QUEUED);
            self.queue.push(slot);
        }
    }

    /// Takes the next queue pair of the round; the caller clears [`SchedFlags::QUEUED`].
    #[inline]
    pub fn next_ready(&mut self) -> Option<u32> {
        self.queue.pop()
    }

    /// The turn of `slot` was cut short by the port: it goes first next time.
    pub fn resume(&mut self, slot: u32, flags: &mut SchedFlags) {
        if !flags.contains(SchedFlags::QUEUED) {
            flags.insert(SchedFlags::QUEUED);
            self.queue.push_front(slot);
        }
    }

    /// Queue pairs that wait for their turn.
    #[inline]
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }
}
