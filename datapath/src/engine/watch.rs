//! What a device with sampling looks at behind each turn: sampled operations, and what holds queue
//! pairs back. Without sampling it is one test a turn.

mod limits;
mod tracked;

pub use limits::LimitTimes;

use super::Core;
use super::admin::{QpReport, report};
use crate::latency::{LatencyConfig, Operations, Part, Probe, Quantiles, SlowOperations, Table};
use crate::qp::{QpTable, Units};
use crate::time::Time;
use arrayvec::ArrayVec;
use limits::Limits;
use std::sync::Arc;
use tracked::Tracked;

/// Operations that are followed at the same time: each is looked at every turn. At most one of a
/// queue pair.
const TRACKED_MAX: usize = 4;

/// What the latencies of a device are, at one moment.
#[derive(Clone, Debug)]
pub struct LatencyReport {
    /// What is sampled.
    pub config: LatencyConfig,
    /// By queue pair, operation and status.
    pub operations: Vec<Operations>,
    /// Of each part, over all operations of the last minute or two.
    pub parts: Vec<(Part, Quantiles)>,
    /// Operations that were to be sampled, and were not.
    pub skipped: u64,
    /// The last slow ones.
    pub slow: SlowOperations<QpReport>,
}

/// The state of sampling.
pub(super) struct Watch {
    config: LatencyConfig,
    probe: Arc<Probe>,
    tracked: ArrayVec<Tracked, TRACKED_MAX>,
    table: Table,
    slow: SlowOperations<QpReport>,
    limits: Limits,
}

impl Watch {
    pub fn new(config: LatencyConfig, max_qps: u32) -> Self {
        Self {
            config,
            probe: Arc::new(Probe::new(&config)),
            tracked: ArrayVec::new(),
            table: Table::new(),
            slow: SlowOperations::new(config.slow_ns),
            limits: Limits::new(max_qps as usize),
        }
    }

    /// Whether a look would find nothing new.
    #[inline]
    fn is_quiet(&self, now: Time) -> bool {
        self.tracked.is_empty() && !self.limits.is_due(now) && !self.probe.has_news()
    }

    /// Looks behind a turn.
    #[cold]
    #[inline(never)]
    fn look(&mut self, qps: &mut QpTable, units: &Units, port_full: bool) {
        if self.probe.has_news() {
            self.probe.hear();
            self.take_news(qps, units);
        }
        if !self.tracked.is_empty() {
            self.follow(qps, units, port_full);
        }
        if self.limits.is_due(units.now) {
            self.limits.look(qps, units, port_full);
        }
    }

    fn take_news(&mut self, qps: &mut QpTable, units: &Units) {
        while let Some(posted) = self.probe.take_post() {
            let tracked = if self.tracked.is_full() { None } else { Tracked::begin(posted, qps, units) };
            match tracked {
                Some(tracked) => self.tracked.push(tracked),
                None => self.probe.note_skipped(),
            }
        }
        while let Some(polled) = self.probe.take_poll() {
            self.tracked.iter_mut().for_each(|tracked| tracked.note_poll(&polled));
        }
    }

    fn follow(&mut self, qps: &mut QpTable, units: &Units, port_full: bool) {
        let Self { tracked, table, slow, probe, .. } = self;
        let mut awaits_poll = false;
        let keeps_slow = slow.keeps_any();
        tracked.retain(|tracked| match tracked.look(qps, units, port_full, keeps_slow) {
            tracked::Look::Goes => true,
            tracked::Look::AwaitsPoll => {
                awaits_poll = true;
                true
            }
            tracked::Look::Gone => {
                probe.note_skipped();
                false
            }
            tracked::Look::Ended(sample, queue_pair) => {
                table.add(&sample, units.now);
                if let Some(queue_pair) = queue_pair {
                    slow.note(&sample, queue_pair);
                }
                false
            }
        });
        probe.await_poll(awaits_poll);
    }
}

impl Core {
    /// Behind a turn.
    #[inline]
    pub(super) fn watch(&mut self, port_full: bool) {
        if let Some(watch) = &mut self.watch
            && !watch.is_quiet(self.units.now)
        {
            watch.look(&mut self.qps, &self.units, port_full);
        }
    }

    /// What posts and polls of sampled operations are told to; `None` if nothing is sampled.
    #[must_use]
    pub fn probe(&self) -> Option<Arc<Probe>> {
        self.watch.as_ref().map(|watch| Arc::clone(&watch.probe))
    }

    /// Where the time of sampled operations went until `now`; `None` if nothing is sampled.
    /// Allocates.
    #[must_use]
    pub fn latency(&self, now: Time) -> Option<LatencyReport> {
        let watch = self.watch.as_deref()?;
        Some(LatencyReport {
            config: watch.config,
            operations: watch.table.operations(now),
            parts: watch.table.parts(now),
            skipped: watch.probe.skipped(),
            slow: watch.slow.clone(),
        })
    }

    /// How long the queue pair in a slot was held back by what, until `now`.
    pub(super) fn limit_times(&self, slot: u32, qpn: u32, now: Time) -> Option<LimitTimes> {
        self.watch.as_ref()?.limits.of(slot, qpn, now)
    }
}

/// The queue pair as it is now.
fn report_of(qps: &QpTable, slot: u32, units: &Units) -> Option<QpReport> {
    qps.peek(slot).map(|pair| report(pair, &units.mux, units.now))
}
