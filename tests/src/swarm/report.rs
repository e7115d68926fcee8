//! What a history came to.

use super::plan::Plan;
use core::cell::{Cell, RefCell};
use core::fmt;
use simnet::LinkStats;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

/// A history in which everything held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Work requests that completed, sends and receives.
    pub operations: u64,
    /// Packets that the engines sent.
    pub packets: u64,
    /// Frames that something was done to.
    pub faults: u64,
    /// Virtual nanoseconds from the end of all faults to the end of all work.
    pub healed_ns: u64,
    /// Hash over every frame and every completion with its time.
    pub hash: u64,
}

/// A history in which something did not hold.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure {
    /// The seed that replays it.
    pub seed: u64,
    /// What was wrong, and where it was noticed.
    pub what: String,
    plan: String,
    report: String,
}

impl Failure {
    /// A failure of `plan`, with the rig's report at its end.
    pub(super) fn new(plan: &Plan, what: String, report: String) -> Self {
        Self { seed: plan.seed, what, plan: plan.to_string(), report }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, what, plan, report } = self;
        writeln!(f, "{plan}{report}\nseed {seed} failed: {what}")?;
        write!(f, "play it again: cargo xtask sim --seed {seed}")
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs a history, whose oracles panic; returns what they said in place of printing it.
pub(super) fn guarded<T>(history: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if GUARDED.get() {
                PANIC.set(info.to_string());
            } else {
                before(info);
            }
        }));
    });
    GUARDED.set(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(history));
    GUARDED.set(false);
    outcome.map_err(|_| PANIC.take())
}

/// Frames of a link that something was done to.
pub(super) const fn faults_of(stats: &LinkStats) -> u64 {
    stats.filtered
        + stats.lost
        + stats.burst_lost
        + stats.swallowed
        + stats.overflowed
        + stats.duplicated
        + stats.reordered
        + stats.corrupted
        + stats.truncated
        + stats.marked
}
