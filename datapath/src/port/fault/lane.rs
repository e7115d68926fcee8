//! One direction of a fault injector: frames come in, are lost or changed, wait, and go out.

use super::alter;
use super::config::FaultConfig;
use super::judge::{Judge, Side};
use super::pool::{Buffer, FramePool};
use super::stats::LaneStats;
use crate::port::RX_BURST;
use crate::time::Time;
use std::collections::VecDeque;

/// A frame in a buffer of the lane.
#[derive(Debug)]
pub struct Frame {
    buffer: Buffer,
    len: usize,
}

/// A frame in the delay line.
#[derive(Debug)]
struct Delayed {
    frame: Frame,
    due: Time,
    hold_back: bool,
}

/// A frame held back, behind the delay line.
#[derive(Debug)]
struct Held {
    frame: Frame,
    /// Frames that have yet to overtake it.
    overtakers: u32,
    until: Time,
}

/// One direction of a [`Fault`](super::Fault). Allocates nothing once it is made.
#[derive(Debug)]
pub struct Lane {
    judge: Judge,
    pool: FramePool,
    line: VecDeque<Delayed>,
    held: Vec<Held>,
    queue_max: usize,
    delay_ns: u64,
    reorder_by: u32,
    reorder_max_ns: u64,
    stats: LaneStats,
}

impl Lane {
    /// A lane for frames of at most `max_frame` bytes.
    pub fn new(config: &FaultConfig, side: Side, max_frame: usize) -> Self {
        let queue_max = config.queue.clamp(1, FaultConfig::QUEUE_MAX) as usize;
        Self {
            judge: Judge::new(config, side),
            // Beyond the queue: a burst lent to the engine; or a frame being written, a blocked one
            // and a copy.
            pool: FramePool::new(queue_max + RX_BURST, max_frame),
            line: VecDeque::with_capacity(queue_max),
            held: Vec::with_capacity(queue_max),
            queue_max,
            delay_ns: config.delay_ns,
            reorder_by: config.reorder_by.max(1),
            reorder_max_ns: config.reorder_max_ns,
            stats: LaneStats::default(),
        }
    }

    /// The counters of this direction.
    pub const fn stats(&self) -> &LaneStats {
        &self.stats
    }

    /// A buffer to write a frame into.
    pub fn take(&mut self) -> Option<Buffer> {
        self.pool.take()
    }

    /// Takes a buffer back unused.
    pub fn give(&mut self, buffer: Buffer) {
        self.pool.give(buffer);
    }

    /// All bytes of a buffer.
    pub fn buffer_mut(&mut self, buffer: &Buffer) -> &mut [u8] {
        self.pool.get_mut(buffer)
    }

    /// The bytes of a frame.
    pub fn bytes(&self, frame: &Frame) -> &[u8] {
        &self.pool.get(&frame.buffer)[..frame.len]
    }

    /// Gives the buffer of a frame back.
    pub fn release(&mut self, frame: Frame) {
        self.pool.give(frame.buffer);
    }

    /// Copies a frame in and lets it meet its faults.
    pub fn copy_in(&mut self, now: Time, bytes: &[u8]) {
        if bytes.len() > self.pool.size() {
            self.stats.frames += 1;
            self.stats.oversize += 1;
            return;
        }
        match self.pool.take() {
            Some(buffer) => {
                self.pool.get_mut(&buffer)[..bytes.len()].copy_from_slice(bytes);
                self.enter(now, buffer, bytes.len());
            }
            None => {
                self.stats.frames += 1;
                self.stats.queue_full += 1;
            }
        }
    }

    /// Lets the frame in the first `len` bytes of `buffer` meet its faults, and queues what is left
    /// of it.
    ///
    /// # Panics
    /// If `len` is longer than the buffer.
    pub fn enter(&mut self, now: Time, buffer: Buffer, len: usize) {
        let bytes = &mut self.pool.get_mut(&buffer)[..len];
        self.stats.frames += 1;
        let Some(pass) = self.judge.judge(now, bytes, &mut self.stats) else {
            self.pool.give(buffer);
            return;
        };
        self.stats.marked += u64::from(pass.mark && alter::mark_ce(bytes));
        self.stats.corrupted += u64::from(pass.flip.is_some_and(|draw| alter::flip_bit(bytes, draw)));
        if self.is_full() {
            self.stats.queue_full += 1;
            self.pool.give(buffer);
            return;
        }
        let due = now.after(self.delay_ns);
        // The copy is not held back: of a frame both duplicated and held back, one comes late.
        let copy = if pass.duplicate { self.pool.duplicate(&buffer, len) } else { None };
        self.line.push_back(Delayed { frame: Frame { buffer, len }, due, hold_back: pass.hold_back });
        self.stats.reordered += u64::from(pass.hold_back);
        match copy {
            Some(copy) if self.is_full() => {
                self.stats.queue_full += 1;
                self.pool.give(copy);
            }
            Some(copy) => {
                self.stats.duplicated += 1;
                let frame = Frame { buffer: copy, len };
                self.line.push_back(Delayed { frame, due, hold_back: false });
            }
            None => self.stats.queue_full += u64::from(pass.duplicate),
        }
    }

    fn is_full(&self) -> bool {
        self.waiting() >= self.queue_max
    }

    /// Frames that have entered and not left.
    pub fn waiting(&self) -> usize {
        self.line.len() + self.held.len()
    }

    /// When the next frame can leave, if no other comes.
    pub fn next_due(&self) -> Option<Time> {
        let held = self.held.iter().map(|held| if held.overtakers == 0 { Time::ZERO } else { held.until });
        held.chain(self.line.front().map(|delayed| delayed.due)).min()
    }

    /// The next frame that leaves now. Give it back by [`Lane::release`].
    pub fn poll(&mut self, now: Time) -> Option<Frame> {
        loop {
            let ready = self.held.iter().position(|held| held.overtakers == 0 || held.until <= now);
            if let Some(index) = ready {
                let held = self.held.remove(index);
                return Some(self.count_out(held.frame));
            }
            self.line.front().filter(|delayed| delayed.due <= now)?;
            let delayed = self.line.pop_front()?;
            if delayed.hold_back {
                let until = now.after(self.reorder_max_ns);
                self.held.push(Held { frame: delayed.frame, overtakers: self.reorder_by, until });
                continue;
            }
            for held in &mut self.held {
                held.overtakers -= 1;
            }
            return Some(self.count_out(delayed.frame));
        }
    }

    fn count_out(&mut self, frame: Frame) -> Frame {
        self.stats.passed += 1;
        self.stats.passed_bytes += frame.len as u64;
        frame
    }

    #[cfg(test)]
    pub fn buffers_free(&self) -> usize {
        self.pool.free()
    }
}
