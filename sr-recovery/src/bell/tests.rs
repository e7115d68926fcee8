//! Nobody sleeps beside work, in every interleaving:
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p sr-recovery --lib loom_`

/// Without one of the two `SeqCst` fences the worker sleeps for ever, which loom reports as a deadlock.
#[cfg(loom)]
#[test]
fn loom_work_wakes_the_worker() {
    use super::Bell;
    use crate::sync::{Arc, AtomicU32, Ordering};
    use loom::thread;

    const WORK: u32 = 2;
    loom::model(|| {
        let (bell, work) = (Arc::new(Bell::default()), Arc::new(AtomicU32::new(0)));
        let worker = {
            let (bell, work) = (Arc::clone(&bell), Arc::clone(&work));
            thread::spawn(move || {
                let mut done = 0;
                while done < WORK {
                    let made = work.load(Ordering::Acquire);
                    if made == done {
                        bell.sleep(|| work.load(Ordering::Acquire) != done);
                    }
                    done = made;
                }
            })
        };
        for made in 1..=WORK {
            work.store(made, Ordering::Release);
            bell.ring();
        }
        worker.join().unwrap();
    });
}

#[cfg(not(loom))]
#[test]
fn a_bell_that_nobody_sleeps_by_does_nothing_and_work_keeps_the_worker_awake() {
    let bell = super::Bell::default();
    bell.ring();
    bell.sleep(|| true);
    bell.ring();
}
