//! CtrlQ: the pair of queues between the fast path and the slow path, and the slow path itself, stepped by the engine.
//!
//! Metadata of packets out of order goes down, decisions (a new ePSN, retransmissions) come up, both in order. The
//! engine never waits: where the ring down has no room it drops the packet instead, before anything acknowledged it.

use crate::engine::EngineConfig;
use sr_recovery::{Command, Record, SlowPath, SlowPathConfig, SlowPathStats};
use std::collections::VecDeque;

/// Records that the ring down holds.
const RECORDS_MAX: usize = 4096;
/// An eighth is kept for packets at ePSN and for what ends an episode: they make room, the others take it.
const RESERVED: usize = RECORDS_MAX / 8;

/// The queue pair to the slow path.
pub struct CtrlQ {
    records: VecDeque<Record>,
    slow_path: SlowPath,
}

impl CtrlQ {
    /// Queues and slow path for an engine of this size.
    #[must_use]
    pub fn new(config: &EngineConfig) -> Self {
        let slow_path = SlowPath::new(SlowPathConfig {
            max_streams: config.max_qps * 2,
            window_max: u32::from(config.window_max),
            contexts: config.recovery_contexts * 2,
        });
        Self { records: VecDeque::with_capacity(RECORDS_MAX), slow_path }
    }

    /// Whether `count` records fit, for a packet ahead of ePSN or an acknowledgement.
    #[inline]
    #[must_use]
    pub fn has_room(&self, count: usize) -> bool {
        self.records.len() + count <= RECORDS_MAX - RESERVED
    }

    /// Whether `count` records fit, for a packet at ePSN.
    #[inline]
    #[must_use]
    pub fn has_reserved_room(&self, count: usize) -> bool {
        self.records.len() + count <= RECORDS_MAX
    }

    /// Writes a record for which the caller checked that there is room. False if it was lost all the same.
    #[inline]
    pub fn push(&mut self, record: Record) -> bool {
        let fits = self.records.len() < RECORDS_MAX;
        if fits {
            self.records.push_back(record);
        }
        fits
    }

    /// Runs the slow path until it has a decision or nothing to do.
    #[inline]
    pub fn step(&mut self) -> Option<Command> {
        loop {
            if let Some(command) = self.slow_path.poll() {
                return Some(command);
            }
            self.slow_path.handle(&self.records.pop_front()?);
        }
    }

    /// What the slow path did, and how many streams it keeps state of.
    #[must_use]
    pub fn stats(&self) -> SlowPathStats {
        self.slow_path.stats()
    }

    /// True if nothing waits, neither for the slow path nor for the engine.
    #[inline]
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.records.is_empty() && self.slow_path.is_idle()
    }
}
