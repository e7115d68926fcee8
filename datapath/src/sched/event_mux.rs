//! The event mux: turns events of a queue pair into its place in the schedule queue (paper section
//! 4.2).
//!
//! A queue pair is *active* while it has something to send, has *credit* while its gates are open,
//! and is *ready* if it is both, or if a probe is due. Only ready queue pairs stand in the schedule
//! queue.

use super::SchedAttributes;
use super::policy::{Policy, Scheduled, Usage};
use super::scheduler::{Scheduler, SchedulerConfig, each};
use super::tenants::{CostTable, Tenants};
use crate::time::Time;

bitflags::bitflags! {
    /// Scheduling state of one of a queue pair's two streams: its requests, or the responses that
    /// it sends and receives.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct SchedFlags: u8 {
        /// Stands in the schedule queue.
        const QUEUED = 1;
        /// A probe is due; it passes both gates.
        const PROBE = 2;
        /// Stands in the list of acknowledgements to send.
        const ACK_LISTED = 4;
        /// Has a timer in the wheel.
        const TIMED = 8;
        /// The program has paused it.
        const PAUSED = 16;
        /// Its peer's host may have a rate.
        const PACED = 32;
        /// It is ready, and stands in no queue until the program resumes it.
        const HELD = 64;
        /// It is ready, and stands in the list of its peer's host.
        const WAITS_FOR_HOST = 128;
    }
}

impl SchedFlags {
    /// Stands in a list of the engine's, which still names the slot when the queue pair is gone.
    pub const LISTED: Self = Self::QUEUED.union(Self::ACK_LISTED);
    /// What one life of a stream leaves behind: nothing of it is true of the next.
    pub const LIFE: Self = Self::PROBE.union(Self::TIMED);
    /// Something beside its gates may keep it from its turn.
    pub const GOVERNED: Self = Self::PAUSED.union(Self::PACED);
}

/// The event mux of one engine.
#[derive(Debug)]
pub struct EventMux {
    scheduler: Scheduler,
    queue_pairs: usize,
}

impl EventMux {
    /// Makes an event mux for `queue_pairs` queue pairs, served as `config` says.
    #[must_use]
    pub fn new(config: &SchedulerConfig, queue_pairs: usize) -> Self {
        Self { scheduler: Scheduler::new(config, queue_pairs), queue_pairs }
    }

    /// A stream may have become ready: queue it unless it stands there already. `slot` is its
    /// number among all streams.
    #[inline]
    pub fn wake(&mut self, slot: u32, flags: &mut SchedFlags, ready: bool) {
        if ready && !flags.contains(SchedFlags::QUEUED) {
            flags.insert(SchedFlags::QUEUED);
            match &mut self.scheduler {
                Scheduler::RoundRobin(queue) => queue.push_back(slot),
                Scheduler::Tenants(tenants) => tenants.push(slot),
                _ => self.push(slot),
            }
        }
    }

    /// Takes the stream whose turn it is; the caller clears [`SchedFlags::QUEUED`] and says how
    /// the turn went.
    #[inline]
    pub fn next_ready(&mut self, now: Time) -> Option<Scheduled> {
        match &mut self.scheduler {
            Scheduler::RoundRobin(queue) => queue.pop(now),
            Scheduler::Tenants(tenants) => tenants.pop(now),
            _ => self.pop(now),
        }
    }

    /// The queue pair that comes after `turns` others, where the policy knows it.
    #[inline]
    pub fn peek(&self, turns: usize) -> Option<u32> {
        each!(&self.scheduler, policy => policy.peek(turns))
    }

    /// A turn is over, and the stream is still ready, or not.
    #[inline]
    pub fn settle(&mut self, slot: u32, flags: &mut SchedFlags, usage: Usage, ready: bool) {
        let requeues = ready && !flags.contains(SchedFlags::QUEUED);
        if requeues {
            flags.insert(SchedFlags::QUEUED);
        }
        match &mut self.scheduler {
            Scheduler::RoundRobin(queue) if requeues => queue.push_back(slot),
            Scheduler::RoundRobin(_) => {}
            Scheduler::Tenants(tenants) => tenants.end_turn(slot, &usage, requeues),
            _ => self.end_turn(slot, &usage, ready, requeues),
        }
    }

    /// A stream whose turn came too early is among those that are ready again, as its
    /// [`SchedFlags::QUEUED`] says already.
    #[cold]
    pub fn put_back(&mut self, slot: u32) {
        self.push(slot);
    }

    // Round robin is what most engines have: it is compiled into the engine's turn, and the others
    // lie beside it.

    #[inline(never)]
    fn push(&mut self, slot: u32) {
        each!(&mut self.scheduler, policy => policy.push(slot));
    }

    #[inline(never)]
    fn pop(&mut self, now: Time) -> Option<Scheduled> {
        each!(&mut self.scheduler, policy => policy.pop(now))
    }

    #[inline(never)]
    fn end_turn(&mut self, slot: u32, usage: &Usage, ready: bool, requeues: bool) {
        each!(&mut self.scheduler, policy => policy.charge(slot, *usage));
        if !ready {
            each!(&mut self.scheduler, policy => policy.idle(slot));
        } else if requeues {
            each!(&mut self.scheduler, policy => policy.requeue(slot));
        }
    }

    /// The turn of `slot` was cut short by the port.
    #[inline(never)]
    pub fn resume(&mut self, slot: u32, flags: &mut SchedFlags, usage: Usage) {
        each!(&mut self.scheduler, policy => policy.charge(slot, usage));
        if !flags.contains(SchedFlags::QUEUED) {
            flags.insert(SchedFlags::QUEUED);
            self.take_up(slot, usage);
        }
    }

    /// Who could send nothing is the next. Who could send something has had its turn: where the
    /// port is the bottleneck every turn ends so, and whoever stayed at the front would have them
    /// all.
    fn take_up(&mut self, slot: u32, usage: Usage) {
        if usage.packets > 0 {
            each!(&mut self.scheduler, policy => policy.requeue(slot));
        } else {
            each!(&mut self.scheduler, policy => policy.resume(slot));
        }
    }

    /// Weight and priority of `slot` from its next turn on.
    pub fn set_attributes(&mut self, slot: u32, attributes: SchedAttributes) {
        each!(&mut self.scheduler, policy => policy.set_attributes(slot, attributes));
    }

    /// The tenants, of which there are some from now on; `None` unless queue pairs take turns.
    pub fn begin_tenants(&mut self, costs: &CostTable) -> Option<&mut Tenants> {
        self.scheduler.begin_tenants(self.queue_pairs, costs)
    }

    /// The tenants, if there are some.
    #[must_use]
    pub const fn tenants(&self) -> Option<&Tenants> {
        match &self.scheduler {
            Scheduler::Tenants(tenants) => Some(tenants),
            _ => None,
        }
    }

    /// The tenants, if there are some, to change them.
    pub const fn tenants_mut(&mut self) -> Option<&mut Tenants> {
        match &mut self.scheduler {
            Scheduler::Tenants(tenants) => Some(tenants),
            _ => None,
        }
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn bytes(&self) -> usize {
        each!(&self.scheduler, policy => policy.bytes())
    }

    /// Queue pairs whose turn comes before that of `slot`, if it becomes ready now, at least.
    #[inline]
    #[must_use]
    pub fn behind(&self, slot: Option<u32>) -> usize {
        each!(&self.scheduler, policy => policy.behind(slot))
    }

    /// When a tenant that is above its cap may send again, and has something to send.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.tenants()?.next_deadline()
    }

    /// Queue pairs that wait for their turn.
    #[inline]
    #[must_use]
    pub fn waiting(&self) -> usize {
        each!(&self.scheduler, policy => policy.waiting())
    }
}
