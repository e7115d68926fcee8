use super::{BiasedLock, NOBODY, STREAK};
use std::sync::atomic::Ordering;
use std::thread;

fn biased<T>(lock: &BiasedLock<T>) {
    for _ in 0..STREAK {
        drop(lock.try_lock().expect("nobody else has it"));
    }
    assert_ne!(lock.owner.load(Ordering::Relaxed), NOBODY, "this kernel has membarrier");
}

#[test]
fn a_thread_that_comes_often_owns_the_bias_until_another_comes() {
    let lock = BiasedLock::new(0);
    biased(&lock);
    assert!(lock.try_lock().expect("open").streak.is_none(), "without the lock");
    thread::scope(|scope| {
        scope.spawn(|| *lock.try_lock().expect("the owner is out") += 1);
    });
    assert_eq!(lock.owner.load(Ordering::Relaxed), NOBODY);
    for _ in 0..2 * STREAK {
        assert!(lock.try_lock().expect("nobody has it").streak.is_some(), "nobody is favoured again");
    }
    assert_eq!(*lock.lock(), 1);
}

#[test]
fn a_call_of_another_thread_does_not_end_the_bias() {
    let lock = BiasedLock::new(0);
    biased(&lock);
    thread::scope(|scope| {
        scope.spawn(|| *lock.lock() += 1);
    });
    let held = lock.try_lock().expect("open");
    assert!(held.streak.is_none());
    assert_eq!(*held, 1);
}

#[test]
fn nobody_comes_in_twice() {
    let lock = BiasedLock::new(());
    let first = lock.try_lock();
    assert!(first.is_some() && lock.try_lock().is_none());
    drop(first);
    biased(&lock);
    let held = lock.try_lock();
    assert!(held.is_some() && lock.try_lock().is_none());
    drop(held);
    let called = lock.lock();
    assert!(lock.try_lock().is_none());
    thread::scope(|scope| {
        scope.spawn(|| assert!(lock.try_lock().is_none()));
    });
    drop(called);
    assert!(lock.try_lock().is_some());
}

/// Two words that tear when two threads change them at once.
fn changes(pair: &mut [u64; 2]) {
    let [a, b] = *pair;
    assert_eq!(a, b);
    *std::hint::black_box(&mut pair[0]) += 1;
    *std::hint::black_box(&mut pair[1]) += 1;
}

#[test]
fn callers_and_the_owner_exclude_each_other() {
    const CALLS: u64 = 2_000;
    let lock = BiasedLock::new([0; 2]);
    let turns = thread::scope(|scope| {
        let caller = scope.spawn(|| (0..CALLS).for_each(|_| changes(&mut lock.lock())));
        let mut turns = 0;
        while !caller.is_finished() || turns < u64::from(STREAK) {
            if let Some(mut held) = lock.try_lock() {
                changes(&mut held);
                turns += 1;
            }
        }
        turns
    });
    assert_eq!(*lock.lock(), [CALLS + turns; 2]);
}

#[test]
fn two_that_try_exclude_each_other() {
    const TURNS: u64 = 20_000;
    let lock = BiasedLock::new([0; 2]);
    biased(&lock);
    let tries = || {
        let mut turns = 0;
        while turns < TURNS {
            let Some(mut held) = lock.try_lock() else {
                thread::yield_now();
                continue;
            };
            changes(&mut held);
            turns += 1;
        }
    };
    thread::scope(|scope| {
        scope.spawn(tries);
        tries();
    });
    assert_eq!(*lock.lock(), [2 * TURNS; 2]);
}
