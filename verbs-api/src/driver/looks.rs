//! When the thread of a hybrid device looks whether somebody polls, and whether it waits for frames
//! beside a program that polls now and then.

#[cfg(test)]
mod tests;

use core::time::Duration;

/// Between two looks whether somebody polls, when somebody has begun to; and at a port without
/// interrupts for frames.
pub(super) const LOOK_MIN: Duration = Duration::from_micros(50);
/// While somebody goes on polling, each time is twice as long as the one before, up to this.
const LOOK_MAX: Duration = Duration::from_millis(1);
/// How long the thread sleeps at most while it waits for frames, in nanoseconds: a program that
/// polls and posts beside it does not wake it.
pub(super) const WAIT_MAX_NS: u64 = 1_000_000;
/// So often in a row frames came after a program had stopped polling without a word: it looks for
/// them in its memory.
const MISSED: u32 = 3;
/// So often in a row the thread woke and the program had taken the frames, or none had come.
const IN_VAIN: u32 = 16;
/// So often it waits for frames before it finds out again whether it has to.
const WAITS_MAX: u32 = 1024;

/// What the looks of the thread found.
#[derive(Debug)]
pub(super) struct Looks {
    until_next: Duration,
    missed: u32,
    in_vain: u32,
    waits: u32,
}

impl Looks {
    pub const fn new() -> Self {
        Self { until_next: LOOK_MIN, missed: 0, in_vain: 0, waits: 0 }
    }

    /// How long the thread sleeps before its next look.
    pub const fn until_next(&self) -> Duration {
        self.until_next
    }

    /// Somebody has polled since the last look.
    pub fn found_polls(&mut self) {
        if self.until_next == LOOK_MAX {
            self.missed = 0;
        }
        self.until_next = (self.until_next * 2).min(LOOK_MAX);
    }

    /// Nobody had polled, so the thread stood in until somebody did. `missed`: frames came
    /// meanwhile, and nobody had said that he would stop polling.
    pub const fn stood_in(&mut self, missed: bool) {
        self.until_next = LOOK_MIN;
        self.missed = if missed { self.missed + 1 } else { 0 };
        (self.in_vain, self.waits) = (0, 0);
    }

    /// Whether the thread is to wait for frames itself, whoever polls.
    pub const fn waits_for_frames(&self) -> bool {
        self.missed >= MISSED
    }

    /// The thread waited for frames and woke. `received`: some were there.
    pub const fn woke(&mut self, received: bool) {
        self.in_vain = if received { 0 } else { self.in_vain + 1 };
        self.waits += 1;
        if self.in_vain >= IN_VAIN || self.waits >= WAITS_MAX {
            self.missed = 0;
        }
    }

    /// The program says when it stops polling: then it does not wait by looking into its memory.
    pub const fn was_told(&mut self) {
        self.missed = 0;
    }
}
