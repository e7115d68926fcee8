//! Whether other threads want the processor of a thread that polls.
//!
//! A thread that spins on a crowded processor takes the time of those that it waits for. It cannot
//! see them; but where it yields and others are ready to run, it comes back late.

use super::Backoff;
use datapath::time::Time;

/// While a thread spins, it yields so often, to find out.
const PROBE_NS: u64 = 50_000;
/// A yield that takes longer has let others run, or was interrupted.
const OTHERS_NS: u64 = 20_000;
/// Two such among so many have let others run: interrupts are rarer.
const AMONG: u8 = 64;
/// So long a processor counts as crowded. Each time that it is found so again, the time is twice as
/// long, up to the second of these: a yield on a crowded processor costs the slices of all others.
const MIN_NS: u64 = 10_000_000;
const MAX_NS: u64 = 640_000_000;

/// What the yields of one thread told.
#[derive(Debug)]
pub(super) struct Crowd {
    /// When the thread was told to yield last.
    yields_at: Time,
    /// When it is to find out again.
    probe_at: Time,
    /// Until then the processor counts as crowded.
    until: Time,
    /// For how long it will if it is found crowded next.
    length_ns: u64,
    /// Of so many further yields none must be late.
    suspects: u8,
}

impl Crowd {
    pub const fn new() -> Self {
        let never = Time::ZERO;
        Self { yields_at: never, probe_at: never, until: never, length_ns: MIN_NS, suspects: 0 }
    }

    /// Whether others want the processor.
    pub fn is_there(&self, now: Time) -> bool {
        now < self.until
    }

    /// Whether it is time to find out.
    pub fn is_to_be_looked_for(&self, now: Time) -> bool {
        now >= self.probe_at
    }

    /// The thread is told to yield.
    pub const fn yields(&mut self, now: Time) -> Backoff {
        self.yields_at = now;
        self.probe_at = now.after(PROBE_NS);
        Backoff::Yield
    }

    /// The yield took so long. While the processor counts as crowded, that says nothing new.
    pub fn yielded(&mut self, took_ns: u64) {
        if self.is_there(self.yields_at) {
            return;
        }
        if took_ns <= OTHERS_NS {
            self.suspects = self.suspects.saturating_sub(1);
            if self.suspects == 0 {
                self.length_ns = MIN_NS;
            }
        } else if self.suspects == 0 {
            self.suspects = AMONG;
        } else {
            self.suspects = 0;
            self.until = self.yields_at.after(took_ns.saturating_add(self.length_ns));
            self.length_ns = (self.length_ns * 2).min(MAX_NS);
        }
    }
}
