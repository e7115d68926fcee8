//! CtrlQ: the pair of queues between the fast path and the slow path.
//!
//! Metadata of packets out of order goes down, decisions (a new ePSN, retransmissions) come up,
//! both in order. The engine never waits: where the ring down has no room it drops the packet
//! instead, before anything acknowledged it. The slow path is stepped by the engine, or runs in a
//! thread of its own (docs/adr/0013). While nothing is missing anywhere neither is touched:
//! `settled` says so.

use sr_recovery::thread::Remote;
use sr_recovery::{Command, Record, SlowPath, SlowPathConfig, SlowPathStats};
use std::collections::VecDeque;

/// Records that the ring down to a stepped slow path holds.
const RECORDS_MAX: usize = 4096;
/// This part of the ring is kept for packets at ePSN and for what ends an episode: they make room,
/// the others take it.
const RESERVED_PART: usize = 8;

/// The queue pair to the slow path.
pub struct CtrlQ {
    driver: Driver,
    /// Records that fit at most.
    capacity: usize,
    /// Every record was handled, and every command taken.
    settled: bool,
}

/// Who drives the slow path.
enum Driver {
    /// The engine, in its turn.
    Stepped { records: VecDeque<Record>, slow_path: Box<SlowPath> },
    /// Another thread.
    Threaded(Box<Remote>),
}

impl CtrlQ {
    /// A queue to a slow path that the engine steps.
    #[must_use]
    pub fn stepped(config: SlowPathConfig) -> Self {
        let slow_path = Box::new(SlowPath::new(config));
        let records = VecDeque::with_capacity(RECORDS_MAX);
        Self { driver: Driver::Stepped { records, slow_path }, capacity: RECORDS_MAX, settled: true }
    }

    /// The queue to a slow path in a thread of its own.
    #[must_use]
    pub fn threaded(remote: Remote) -> Self {
        let capacity = remote.capacity();
        Self { driver: Driver::Threaded(Box::new(remote)), capacity, settled: true }
    }

    /// Returns `true` if `count` records fit, for a packet ahead of ePSN or an acknowledgement.
    #[inline]
    #[must_use]
    pub fn has_room(&mut self, count: usize) -> bool {
        self.has_reserved_room(count + self.capacity / RESERVED_PART)
    }

    /// Returns `true` if `count` records fit, for a packet at ePSN.
    #[inline]
    #[must_use]
    pub fn has_reserved_room(&mut self, count: usize) -> bool {
        match &mut self.driver {
            Driver::Stepped { records, .. } => records.len() + count <= self.capacity,
            Driver::Threaded(remote) => remote.has_room(count),
        }
    }

    /// Records that it holds at most.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Records that the slow path has not taken.
    #[must_use]
    pub fn waiting(&self) -> usize {
        match &self.driver {
            Driver::Stepped { records, .. } => records.len(),
            Driver::Threaded(remote) => remote.waiting(),
        }
    }

    /// Returns `true` if half of the ring is full: the slow path does not keep up.
    #[must_use]
    pub fn is_behind(&mut self) -> bool {
        !self.has_reserved_room(self.capacity / 2)
    }

    /// Writes a record for which the caller checked that there is room. False if it was lost all
    /// the same.
    #[inline]
    pub fn push(&mut self, record: Record) -> bool {
        self.settled = false;
        match &mut self.driver {
            Driver::Stepped { records, .. } => {
                let fits = records.len() < self.capacity;
                if fits {
                    records.push_back(record);
                }
                fits
            }
            Driver::Threaded(remote) => remote.push(&record),
        }
    }

    /// The next decision, if there is one by now. A stepped slow path runs until it has one or
    /// nothing to do.
    #[inline]
    pub fn step(&mut self) -> Option<Command> {
        if self.settled { None } else { self.next_command() }
    }

    #[cold]
    fn next_command(&mut self) -> Option<Command> {
        match &mut self.driver {
            Driver::Stepped { records, slow_path } => loop {
                if let Some(command) = slow_path.poll() {
                    return Some(command);
                }
                let Some(record) = records.pop_front() else {
                    self.settled = true;
                    return None;
                };
                slow_path.handle(&record);
            },
            Driver::Threaded(remote) => {
                let command = remote.pop();
                self.settled = command.is_none() && remote.is_settled();
                command
            }
        }
    }

    /// The counters of the slow path, and how many streams it keeps state of. A slow path in a
    /// thread of its own publishes them when it has nothing left to do.
    #[must_use]
    pub fn stats(&self) -> SlowPathStats {
        match &self.driver {
            Driver::Stepped { slow_path, .. } => slow_path.stats(),
            Driver::Threaded(remote) => remote.stats(),
        }
    }

    /// True if nothing waits, neither for the slow path nor for the engine.
    #[inline]
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.settled
    }
}
