//! Plays the runs of a matrix, several at a time.

use super::reason::scarce;
use super::{Matrix, Task};
use crate::play::play;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// What came of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Played {
    /// 10^9 bits of the victim's payload a second.
    pub gbps: f64,
    /// What was scarce, in words.
    pub scarce: String,
}

impl Matrix {
    /// Plays one run; `None` if it cannot be played, which [`Matrix::check`] would have said.
    #[must_use]
    pub fn play(&self, task: Task) -> Option<Played> {
        let outcome = play(&self.scenario(task)).ok()?;
        let entries = &outcome.entries[..self.victim[task.victim].workload.len()];
        Some(Played { gbps: entries.iter().map(|entry| entry.gbps()).sum(), scarce: scarce(&outcome) })
    }
}

/// Plays runs of a matrix in so many threads. After each, `goes_on` is asked with how many are
/// done; once it says no, those under way end and no other begins. What comes out of a run does not
/// depend on the number of threads.
pub fn run(
    matrix: &Matrix,
    tasks: &[Task],
    threads: usize,
    goes_on: impl FnMut(usize) -> bool + Send,
) -> Vec<(Task, Played)> {
    // Relaxed: a counter and a flag that guard nothing else.
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let state = Mutex::new((vec![None; tasks.len()], 0, goes_on));
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(task) = tasks.get(number) else { break };
            let result = matrix.play(*task);
            // The thread that has played asks: it begins no other run before it has the answer.
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            let (played, done, goes_on) = &mut *state;
            played[number] = result;
            *done += 1;
            if !goes_on(*done) {
                stop.store(true, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let (played, ..) = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    tasks.iter().zip(played).filter_map(|(task, played)| Some((*task, played?))).collect()
}
