//! The policies behind one type, chosen when the engine is made, or when it has tenants.

use super::PRIORITIES;
use super::deficit::DeficitRoundRobin;
use super::policy::{Policy, Scheduled};
use super::priority::StrictPriority;
use super::schedule_queue::ScheduleQueue;
use super::tenants::{CostTable, Tenants};
use super::weighted::Weighted;
use crate::time::Time;
use crate::tuning;

/// How the engine shares its transmit batches among ready queue pairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SchedulerConfig {
    /// One turn each, as the paper does it (section 4.2).
    #[default]
    RoundRobin,
    /// As many turns in a row as the queue pair's weight says.
    Weighted,
    /// The highest priority first. `cap_mbps` caps each priority, in megabits a second of frames:
    /// what is above its cap waits until nobody below is ready. 0: no cap. Lower priorities starve
    /// unless the caps above them leave something of the link.
    StrictPriority {
        /// By priority, from 0, the lowest.
        cap_mbps: [u32; PRIORITIES],
    },
    /// Equal bytes, whatever the size of the messages; a queue pair of weight n has n times as
    /// many.
    DeficitRoundRobin,
}

/// Round robin is the schedule queue and nothing else.
impl Policy for ScheduleQueue {
    #[inline]
    fn push(&mut self, slot: u32) {
        self.push_back(slot);
    }

    #[inline]
    fn pop(&mut self, _now: Time) -> Option<Scheduled> {
        self.pop_front().map(|slot| Scheduled { slot, bytes: tuning::BYTES_PER_TURN })
    }

    #[inline]
    fn peek(&self, turns: usize) -> Option<u32> {
        self.get(turns)
    }

    fn resume(&mut self, slot: u32) {
        self.push_front(slot);
    }

    #[inline]
    fn waiting(&self) -> usize {
        self.len()
    }

    fn bytes(&self) -> usize {
        Self::bytes(self)
    }
}

/// The scheduler, with one of the policies. A branch on the policy always goes the same way; a
/// generic engine would have to be compiled once for each.
#[derive(Debug)]
pub enum Scheduler {
    /// [`SchedulerConfig::RoundRobin`].
    RoundRobin(ScheduleQueue),
    /// [`SchedulerConfig::Weighted`].
    Weighted(Weighted),
    /// [`SchedulerConfig::StrictPriority`].
    StrictPriority(Box<StrictPriority>),
    /// [`SchedulerConfig::DeficitRoundRobin`].
    DeficitRoundRobin(DeficitRoundRobin),
    /// Round robin, with tenants above it.
    Tenants(Box<Tenants>),
}

impl Scheduler {
    /// Makes a scheduler for `queue_pairs` queue pairs.
    #[must_use]
    pub fn new(config: &SchedulerConfig, queue_pairs: usize) -> Self {
        match config {
            SchedulerConfig::RoundRobin => Self::RoundRobin(ScheduleQueue::new(queue_pairs)),
            SchedulerConfig::Weighted => Self::Weighted(Weighted::new(queue_pairs)),
            SchedulerConfig::StrictPriority { cap_mbps } => {
                Self::StrictPriority(Box::new(StrictPriority::new(queue_pairs, cap_mbps)))
            }
            SchedulerConfig::DeficitRoundRobin => {
                Self::DeficitRoundRobin(DeficitRoundRobin::new(queue_pairs))
            }
        }
    }

    /// Makes round robin over queue pairs one over tenants, of which the default one has all that
    /// is ready. `None`, and nothing changes, with another policy.
    pub fn begin_tenants(&mut self, slots: usize, costs: &CostTable) -> Option<&mut Tenants> {
        if let Self::RoundRobin(queue) = self {
            let queue = core::mem::replace(queue, ScheduleQueue::new(0));
            *self = Self::Tenants(Box::new(Tenants::new(queue, slots, *costs)));
        }
        match self {
            Self::Tenants(tenants) => Some(tenants),
            _ => None,
        }
    }
}

/// Makes a call on the policy that a scheduler has.
macro_rules! each {
    ($self:expr, $policy:ident => $call:expr) => {
        match $self {
            Scheduler::RoundRobin($policy) => $call,
            Scheduler::Weighted($policy) => $call,
            Scheduler::StrictPriority($policy) => $call,
            Scheduler::DeficitRoundRobin($policy) => $call,
            Scheduler::Tenants($policy) => $call,
        }
    };
}

pub(super) use each;
