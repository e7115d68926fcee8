//! The slow path in a thread of its own: the same [`SlowPath`] behind two rings, one each way.
//!
//! The engine writes records and reads commands through a [`Remote`]; the [`Worker`] is whatever
//! thread runs it. Neither waits for the other. A ring that is full holds up its writer only: the
//! worker leaves records where they are until there is room for their commands, and the engine,
//! which finds no room for a record, drops the packet that it is about before anything acknowledged
//! it.
//!
//! ```
//! use sr_recovery::{Command, Record, SlowPathConfig, StreamId, thread};
//! use wire::Psn;
//!
//! let config = SlowPathConfig { max_streams: 2, window_max: 512, contexts: 1 };
//! let (mut remote, worker) = thread::pair(config);
//! let handle = std::thread::spawn(|| worker.run());
//! let stream = StreamId { qp: 0, response: false };
//! let [epsn, first] = [10, 11].map(Psn::new);
//! assert!(remote.push(&Record::RxRun { stream, generation: 1, first, last: first, epsn }));
//! assert!(remote.push(&Record::RxRun { stream, generation: 1, first: epsn, last: epsn, epsn }));
//! let command = loop {
//!     if let Some(command) = remote.pop() {
//!         break command;
//!     }
//! };
//! assert_eq!(command, Command::Advance { stream, generation: 1, epsn: Psn::new(12), bitmap: 0 });
//! drop(remote);
//! handle.join().unwrap();
//! ```

use std::sync::{Mutex, PoisonError};

use crate::{
    bell::Bell,
    message::{Command, Record},
    ring::{Reader, Writer, ring},
    slow_path::{SlowPath, SlowPathConfig, SlowPathStats},
    sync::{Arc, AtomicBool, AtomicU32, Ordering, OwnLine},
};

/// Records, and commands, that wait at most.
const MESSAGES_MAX: u32 = 4096;
/// Looks at the ring before the worker sleeps: about 50 us, in which the next record of a recovery
/// usually comes.
const LOOKS_BEFORE_SLEEP: u32 = 1000;

/// What both sides look at.
#[derive(Debug)]
struct Status {
    bell: Bell,
    /// Nobody is at the other end any more.
    ended: AtomicBool,
    /// Position behind the last record whose commands are all on their way; published when the
    /// worker has caught up.
    done: OwnLine<AtomicU32>,
    stats: Mutex<SlowPathStats>,
}

/// The engine's end. Dropping it ends the worker.
pub struct Remote {
    records: Writer<Record>,
    commands: Reader<Command>,
    status: Arc<Status>,
}

/// The slow path and its ends of the rings.
pub struct Worker {
    slow_path: SlowPath,
    records: Reader<Record>,
    commands: Writer<Command>,
    status: Arc<Status>,
}

/// A slow path, and the engine's end of the rings to it.
#[must_use]
pub fn pair(config: SlowPathConfig) -> (Remote, Worker) {
    pair_of(config, MESSAGES_MAX)
}

fn pair_of(config: SlowPathConfig, messages_max: u32) -> (Remote, Worker) {
    let slow_path = SlowPath::new(config);
    let (records_in, records_out) = ring(messages_max, 0);
    let (commands_in, commands_out) = ring(messages_max, 0);
    let status = Arc::new(Status {
        bell: Bell::default(),
        ended: AtomicBool::new(false),
        done: OwnLine(AtomicU32::new(0)),
        stats: Mutex::new(slow_path.stats()),
    });
    let remote = Remote { records: records_in, commands: commands_out, status: Arc::clone(&status) };
    (remote, Worker { slow_path, records: records_out, commands: commands_in, status })
}

impl Remote {
    /// Records that can wait.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.records.capacity() as usize
    }

    /// Returns `true` if `count` records fit.
    pub fn has_room(&mut self, count: usize) -> bool {
        u32::try_from(count).is_ok_and(|count| self.records.has_room(count))
    }

    /// Records that the worker has not taken.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.records.waiting() as usize
    }

    /// Writes a record, and wakes the worker if it sleeps, which takes a system call. False if
    /// there is no room.
    pub fn push(&mut self, record: &Record) -> bool {
        let fits = self.records.push(record);
        if fits {
            self.status.bell.ring();
        }
        fits
    }

    /// The oldest command that came.
    pub fn pop(&mut self) -> Option<Command> {
        let command = self.commands.pop()?;
        // The worker may sleep for want of room for the next one.
        self.status.bell.ring();
        Some(command)
    }

    /// Returns `true` if every record was handled and every command taken.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let done = self.status.done.0.load(Ordering::Acquire);
        done == self.records.position() && self.commands.is_empty()
    }

    /// The counters of the slow path when it last had nothing to do.
    #[must_use]
    pub fn stats(&self) -> SlowPathStats {
        *self.status.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.status.ended.store(true, Ordering::Release);
        self.status.bell.ring();
    }
}

impl Worker {
    /// Works, and sleeps while there is nothing to do, until the [`Remote`] is dropped.
    pub fn run(mut self) {
        let status = Arc::clone(&self.status);
        while !self.has_ended() {
            self.work();
            let wanted = (0..LOOKS_BEFORE_SLEEP).any(|_| {
                core::hint::spin_loop();
                self.is_wanted()
            });
            if !wanted {
                status.bell.sleep(|| self.is_wanted());
            }
        }
    }

    /// Handles the records that wait, as far as there is room for their commands.
    pub fn work(&mut self) {
        loop {
            while self.commands.has_room(1)
                && let Some(command) = self.slow_path.poll()
            {
                self.commands.push(&command);
            }
            if !self.slow_path.is_idle() {
                return;
            }
            let Some(record) = self.records.pop() else { break };
            self.slow_path.handle(&record);
        }
        *self.status.stats.lock().unwrap_or_else(PoisonError::into_inner) = self.slow_path.stats();
        self.status.done.0.store(self.records.position(), Ordering::Release);
    }

    /// Returns `true` if it must not sleep: there is work, or it is to end.
    fn is_wanted(&mut self) -> bool {
        self.can_work() || self.has_ended()
    }

    /// Returns `true` if there is a command to hand over and room for it, or else a record.
    fn can_work(&mut self) -> bool {
        if self.slow_path.is_idle() { !self.records.is_empty() } else { self.commands.has_room(1) }
    }

    fn has_ended(&self) -> bool {
        self.status.ended.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests;
