//! Whether other threads want the processor of a thread that polls.
//!
//! A thread that spins on a crowded processor takes the time of those that it waits for. It cannot
//! see them; but where it yields and others are ready to run, it comes back late.

use super::Backoff;
use datapath::time::Time;

/// While a thread spins, it yields so often, to find out.
const PROBE_NS: u64 = 50_000;
/// A yield that takes longer has let others run.
const OTHERS_NS: u64 = 5_000;
/// So long a processor counts as crowded. Each time that it is found so again, the time is twice as
/// long, up to the second of these: a yield on a crowded processor costs the slices of all others.
const MIN_NS: u64 = 10_000_000;
const MAX_NS: u64 = 640_000_000;

/// What the yields of one thread told.
#[derive(Debug)]
pub(super) struct Crowd {
    /// The last yield began then, and how long it took is not known.
    yielded_at: Option<Time>,
    probe_at: Time,
    /// Until then the processor counts as crowded.
    until: Time,
    /// For how long it will if it is found crowded next.
    length_ns: u64,
}

impl Crowd {
    pub const fn new() -> Self {
        Self { yielded_at: None, probe_at: Time::ZERO, until: Time::ZERO, length_ns: MIN_NS }
    }

    /// The thread runs at `now`, after a yield or not.
    #[inline]
    pub fn runs(&mut self, now: Time) {
        if let Some(at) = self.yielded_at.take() {
            self.came_back(now.since(at), now);
        }
    }

    #[cold]
    fn came_back(&mut self, after_ns: u64, now: Time) {
        if after_ns > OTHERS_NS {
            self.until = now.after(self.length_ns);
            self.length_ns = (self.length_ns * 2).min(MAX_NS);
        } else {
            self.length_ns = (self.length_ns / 2).max(MIN_NS);
        }
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
        self.yielded_at = Some(now);
        self.probe_at = now.after(PROBE_NS);
        Backoff::Yield
    }
}
