//! The flight recorder: the last operations that took too long.

use super::track::Sample;
use std::collections::VecDeque;

/// Slow operations that are kept.
const KEPT_MAX: usize = 16;

/// A slow operation, and its queue pair when it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slow<R> {
    /// The operation.
    pub sample: Sample,
    /// The state of its queue pair when it completed.
    pub queue_pair: R,
}

/// The last slow operations.
#[derive(Clone, Debug)]
pub struct SlowOperations<R> {
    bound_ns: u64,
    count: u64,
    last: VecDeque<Slow<R>>,
}

impl<R: Copy> SlowOperations<R> {
    pub(crate) fn new(bound_ns: u64) -> Self {
        Self { bound_ns, count: 0, last: VecDeque::with_capacity(KEPT_MAX) }
    }

    /// Keeps the operation if it was slow.
    pub(crate) fn note(&mut self, sample: &Sample, queue_pair: R) {
        if sample.parts.total() < self.bound_ns {
            return;
        }
        self.count += 1;
        if self.last.len() == KEPT_MAX {
            self.last.pop_front();
        }
        self.last.push_back(Slow { sample: *sample, queue_pair });
    }

    /// Whether any operation can be slow.
    pub(crate) const fn keeps_any(&self) -> bool {
        self.bound_ns < u64::MAX
    }

    /// The bound, in nanoseconds.
    #[must_use]
    pub const fn bound_ns(&self) -> u64 {
        self.bound_ns
    }

    /// How many there were since the device was opened.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The last ones, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Slow<R>> {
        self.last.iter()
    }
}
