//! On which processors the parts of a run are.

use rustix::thread::{CpuSet, sched_getaffinity};

/// The processor of a part: of the switch, 0, or of a host, 1 and on; `None` if the system does not
/// tell on which this process may run.
///
/// The parts go round the processors. Which of them share one changes the rate by more than loss
/// does, and the system's choice differs from run to run.
pub fn of(part: u8) -> Option<usize> {
    let allowed = sched_getaffinity(None).ok()?;
    let cpus: Vec<_> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    cpus.get(usize::from(part) % cpus.len().max(1)).copied()
}
