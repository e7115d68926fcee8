//! Nobody sleeps beside work, in every interleaving:
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p sr-recovery --lib loom_`

/// So many pieces of work are made, one after the other, and the worker waits for them all.
/// `woken`: a wake of before is still on its way. Without one of the two `SeqCst` fences the worker
/// sleeps for ever, a deadlock.
#[cfg(loom)]
fn work_wakes_the_worker(pieces: u32, woken: bool) {
    use super::Bell;
    use crate::sync::{Arc, AtomicU32, Ordering};
    use loom::thread;

    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(move || {
        let (bell, work) = (Arc::new(Bell::default()), Arc::new(AtomicU32::new(0)));
        if woken {
            bell.worker.unpark();
        }
        let worker = {
            let (bell, work) = (Arc::clone(&bell), Arc::clone(&work));
            thread::spawn(move || {
                let mut done = 0;
                while done < pieces {
                    bell.sleep(|| work.load(Ordering::Acquire) > done);
                    done = work.load(Ordering::Acquire);
                }
            })
        };
        for made in 1..=pieces {
            work.store(made, Ordering::Release);
            bell.ring();
        }
        worker.join().unwrap();
    });
}

#[cfg(loom)]
#[test]
fn loom_work_wakes_the_worker() {
    work_wakes_the_worker(1, false);
}

#[cfg(loom)]
#[test]
fn loom_work_wakes_the_worker_that_was_woken_for_nothing() {
    work_wakes_the_worker(1, true);
}

#[cfg(loom)]
#[test]
fn loom_a_worker_that_was_woken_sleeps_and_is_woken_again() {
    work_wakes_the_worker(2, false);
}

#[cfg(not(loom))]
#[test]
fn a_bell_that_nobody_sleeps_by_does_nothing_and_work_keeps_the_worker_awake() {
    let bell = super::Bell::default();
    bell.ring();
    bell.sleep(|| true);
    bell.ring();
}
