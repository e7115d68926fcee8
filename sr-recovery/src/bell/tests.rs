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

#[cfg(not(loom))]
#[test]
fn a_worker_without_work_sleeps_until_it_is_rung_for() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    let (bell, work, turns) =
        (Arc::new(super::Bell::default()), Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let worker = {
        let (bell, work, turns) = (Arc::clone(&bell), Arc::clone(&work), Arc::clone(&turns));
        std::thread::spawn(move || {
            while !work.load(Ordering::Acquire) {
                bell.sleep(|| work.load(Ordering::Acquire));
                turns.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let yields_while_it_sleeps = 1000;
    let mut left = yields_while_it_sleeps;
    while left > 0 {
        // It may wake without a reason, but not that often.
        assert!(turns.load(Ordering::Relaxed) < 1000, "it does not sleep");
        left -= u32::from(bell.is_asleep());
        std::thread::yield_now();
    }
    work.store(true, Ordering::Release);
    bell.ring();
    worker.join().unwrap();
    assert!(!bell.is_asleep());
}

/// What is rung for meanwhile takes no system call.
#[cfg(not(loom))]
#[test]
fn a_sleeper_is_woken_once() {
    use crate::sync::Ordering;

    let bell = super::Bell::default();
    bell.asleep.store(true, Ordering::Relaxed);
    bell.ring();
    assert!(!bell.is_asleep());
}
