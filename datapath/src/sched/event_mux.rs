//! The event mux: turns events of a queue pair into its place in the schedule queue (paper section 4.2).
//!
//! A queue pair is *active* while it has something to send, has *credit* while its gates are open, and is *ready* if it
//! is both, or if a probe is due. Only ready queue pairs stand in the schedule queue.

use super::SchedAttributes;
use super::policy::{Policy, Turn, Usage};
use super::scheduler::{Scheduler, SchedulerConfig};
use crate::time::Time;

bitflags::bitflags! {
    /// Scheduling state of a queue pair.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct SchedFlags: u16 {
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
        /// The next request waits until a READ or atomic completes, or until WRITEs that it overlaps are acknowledged.
        const READ_WAIT = 64;
        /// Its response stream stands in the schedule queue.
        const RESPONSES_QUEUED = 128;
        /// Its stream of responses received stands in the list of acknowledgements to send.
        const READ_ACK_LISTED = 256;
        /// Plain: has gone back, and sends again what it has sent before.
        const REWOUND = 512;
        /// WRITEs wait for those before them that they overlap: an attribute, asked for with each request.
        const ORDERED_OVERLAP = 1024;
        /// Nothing of the peer's is placed out of order, or before it was verified: an attribute, asked for with each packet.
        const STRICT_PLACEMENT = 2048;
        /// Its receives are taken from a shared queue: for who looks ahead, so that the other part need not be there.
        const SHARES_RECEIVES = 4096;
    }
}

impl SchedFlags {
    /// Stands in a list of the engine's, which still names the slot when the queue pair is gone.
    pub const LISTED: Self =
        Self::QUEUED.union(Self::ACK_LISTED).union(Self::RESPONSES_QUEUED).union(Self::READ_ACK_LISTED);
    /// What the streams of one life leave behind: nothing of it is true of the next.
    pub const LIFE: Self =
        Self::PROBE.union(Self::RNR_WAIT).union(Self::READ_WAIT).union(Self::TIMED).union(Self::REWOUND);
}

/// The event mux of one engine.
#[derive(Debug)]
pub struct EventMux {
    scheduler: Scheduler,
}

impl EventMux {
    /// For `queue_pairs` queue pairs, served as `config` says.
    #[must_use]
    pub fn new(config: &SchedulerConfig, queue_pairs: usize) -> Self {
        Self { scheduler: Scheduler::new(config, queue_pairs) }
    }

    /// A queue pair may have become ready: queue it unless it stands there already.
    #[inline]
    pub fn wake(&mut self, slot: u32, flags: &mut SchedFlags, ready: bool) {
        if ready && !flags.contains(SchedFlags::QUEUED) {
            flags.insert(SchedFlags::QUEUED);
            self.scheduler.push(slot);
        }
    }

    /// The same for a queue pair's stream of responses, under a number of its own.
    pub fn wake_responses(&mut self, stream: u32, flags: &mut SchedFlags, ready: bool) {
        if ready && !flags.contains(SchedFlags::RESPONSES_QUEUED) {
            flags.insert(SchedFlags::RESPONSES_QUEUED);
            self.scheduler.push(stream);
        }
    }

    /// Takes the stream whose turn it is; the caller clears [`SchedFlags::QUEUED`], or
    /// [`SchedFlags::RESPONSES_QUEUED`], and says how the turn went.
    #[inline]
    pub fn next_ready(&mut self, now: Time) -> Option<Turn> {
        self.scheduler.pop(now)
    }

    /// Who comes after so many others, where the policy knows it.
    #[inline]
    pub fn ahead(&self, turns: usize) -> Option<u32> {
        self.scheduler.ahead(turns)
    }

    /// A turn is over, and the queue pair is still ready, or not.
    #[inline]
    pub fn settle(&mut self, slot: u32, flags: &mut SchedFlags, usage: Usage, ready: bool) {
        self.scheduler.charge(slot, usage);
        if !ready {
            self.scheduler.rest(slot);
        } else if !flags.contains(SchedFlags::QUEUED) {
            flags.insert(SchedFlags::QUEUED);
            self.scheduler.requeue(slot);
        }
    }

    /// The turn of `slot` was cut short by the port.
    pub fn resume(&mut self, slot: u32, flags: &mut SchedFlags, usage: Usage) {
        self.scheduler.charge(slot, usage);
        if !flags.contains(SchedFlags::QUEUED) {
            flags.insert(SchedFlags::QUEUED);
            self.take_up(slot, usage);
        }
    }

    /// Who could send nothing is the next. Who could send something has had its turn: where the port is the bottleneck every turn
    /// ends so, and whoever stayed at the front would have them all.
    fn take_up(&mut self, slot: u32, usage: Usage) {
        if usage.packets > 0 {
            self.scheduler.requeue(slot);
        } else {
            self.scheduler.resume(slot);
        }
    }

    /// The turn of a stream of responses is over, and it is still ready, or not.
    pub fn settle_responses(&mut self, stream: u32, flags: &mut SchedFlags, usage: Usage, ready: bool) {
        self.scheduler.charge(stream, usage);
        if !ready {
            self.scheduler.rest(stream);
        } else if !flags.contains(SchedFlags::RESPONSES_QUEUED) {
            flags.insert(SchedFlags::RESPONSES_QUEUED);
            self.scheduler.requeue(stream);
        }
    }

    /// The turn of a stream of responses was cut short by the port.
    pub fn resume_responses(&mut self, stream: u32, flags: &mut SchedFlags, usage: Usage) {
        self.scheduler.charge(stream, usage);
        if !flags.contains(SchedFlags::RESPONSES_QUEUED) {
            flags.insert(SchedFlags::RESPONSES_QUEUED);
            self.take_up(stream, usage);
        }
    }

    /// Weight and priority of `slot` from its next turn on.
    pub fn set_attributes(&mut self, slot: u32, attributes: SchedAttributes) {
        self.scheduler.set_attributes(slot, attributes);
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.scheduler.bytes()
    }

    /// Queue pairs whose turn comes before that of any that becomes ready now, at least.
    #[inline]
    #[must_use]
    pub fn behind(&self) -> usize {
        self.scheduler.behind()
    }

    /// Queue pairs that wait for their turn.
    #[inline]
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.scheduler.waiting()
    }
}
