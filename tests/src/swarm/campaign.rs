//! Many seeds on several threads.

use super::report::{Failure, Outcome};
use super::world;
use core::ops::AddAssign;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::thread;

/// A range of seeds.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// The first seed.
    pub first: u64,
    /// How many seeds, counting up.
    pub count: u64,
    /// Threads.
    pub jobs: usize,
}

/// What a campaign came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Seeds that were played.
    pub seeds: u64,
    /// Work requests that completed.
    pub operations: u64,
    /// Packets that the engines sent.
    pub packets: u64,
    /// Frames that something was done to.
    pub faults: u64,
    /// Longest time from the end of all faults to the end of all work, in virtual nanoseconds.
    pub healed_ns_max: u64,
    /// All trace hashes in one; the order in which threads finish does not matter.
    pub hash: u64,
}

impl AddAssign<(u64, Outcome)> for Totals {
    fn add_assign(&mut self, (seed, outcome): (u64, Outcome)) {
        self.seeds += 1;
        self.operations += outcome.operations;
        self.packets += outcome.packets;
        self.faults += outcome.faults;
        self.healed_ns_max = self.healed_ns_max.max(outcome.healed_ns);
        self.hash = self.hash.wrapping_add((outcome.hash ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    }
}

impl Campaign {
    /// Plays all seeds; calls `progress` after each.
    ///
    /// # Errors
    /// The failure with the lowest seed among those that were found before all threads had stopped.
    pub fn run(&self, progress: impl Fn(&Totals) + Sync) -> Result<Totals, Box<Failure>> {
        let next = AtomicU64::new(0);
        let stop = AtomicBool::new(false);
        let state: Mutex<(Totals, Option<Box<Failure>>)> = Mutex::default();
        let work = || {
            while !stop.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= self.count {
                    break;
                }
                let seed = self.first.wrapping_add(number);
                let result = world::run(seed);
                let mut state = state.lock().expect("a thread that fails says so, and goes on");
                match result {
                    Ok(outcome) => {
                        state.0 += (seed, outcome);
                        progress(&state.0);
                    }
                    Err(failure) => {
                        stop.store(true, Ordering::Relaxed);
                        if state.1.as_ref().is_none_or(|other| failure.seed < other.seed) {
                            state.1 = Some(failure);
                        }
                    }
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..self.jobs {
                scope.spawn(work);
            }
            work();
        });
        let (totals, failure) = state.into_inner().expect("all threads are done");
        failure.map_or(Ok(totals), Err)
    }
}
