//! Nobody sleeps beside work, in every interleaving:
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p sr-recovery --lib loom_`

/// Work is made once: after a ring and the sleep that it ended, flag and worker are as they were. `woken`: a wake of
/// before is still on its way. Without one of the two `SeqCst` fences the worker sleeps for ever, a deadlock.
#[cfg(loom)]
fn work_wakes_the_worker(woken: bool) {
    use super::Bell;
    use crate::sync::{Arc, AtomicBool, Ordering};
    use loom::thread;

    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(move || {
        let (bell, work) = (Arc::new(Bell::default()), Arc::new(AtomicBool::new(false)));
        if woken {
            bell.worker.unpark();
        }
        let worker = {
            let (bell, work) = (Arc::clone(&bell), Arc::clone(&work));
            thread::spawn(move || {
                while !work.load(Ordering::Acquire) {
                    bell.sleep(|| work.load(Ordering::Acquire));
                }
            })
        };
        work.store(true, Ordering::Release);
        bell.ring();
        worker.join().unwrap();
    });
}

#[cfg(loom)]
#[test]
fn loom_work_wakes_the_worker() {
    work_wakes_the_worker(false);
}

#[cfg(loom)]
#[test]
fn loom_work_wakes_the_worker_that_was_woken_for_nothing() {
    work_wakes_the_worker(true);
}

#[cfg(not(loom))]
#[test]
fn a_bell_that_nobody_sleeps_by_does_nothing_and_work_keeps_the_worker_awake() {
    let bell = super::Bell::default();
    bell.ring();
    bell.sleep(|| true);
    bell.ring();
}
