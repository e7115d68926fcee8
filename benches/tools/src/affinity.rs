//! On which processor a thread runs.

use crate::error::{Error, Result};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Keeps this thread on processor `cpu`, and what it starts from now on.
///
/// # Errors
/// [`Error::Options`] if it may not run there.
pub fn stay_on(cpu: usize) -> Result<()> {
    let refused = || Error::Options(format!("--cpu {cpu}: this process may not run there"));
    if cpu >= CpuSet::MAX_CPU {
        return Err(refused());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|_| refused())
}
