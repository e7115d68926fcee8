use super::{BiasedLock, Held, NOBODY, SEATS, STREAK};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

fn biased<T>(lock: &BiasedLock<T>) {
    for _ in 0..STREAK {
        drop(lock.try_lock().expect("nobody else has it"));
    }
    assert_ne!(lock.owner.load(Ordering::Relaxed), NOBODY, "this kernel has membarrier");
}

fn is_owner<T>(held: &Held<'_, T>) -> bool {
    !held.has_lock()
}

#[test]
fn a_thread_that_comes_often_owns_the_bias_until_another_comes() {
    let lock = BiasedLock::new(0);
    biased(&lock);
    assert!(is_owner(&lock.try_lock().expect("open")), "without the lock");
    thread::scope(|scope| {
        scope.spawn(|| *lock.try_lock().expect("the owner is out") += 1);
    });
    assert_eq!(lock.owner.load(Ordering::Relaxed), NOBODY);
    assert!(!is_owner(&lock.try_lock().expect("nobody has it")));
    assert_eq!(*lock.lock(), 1);
}

#[test]
fn whoever_comes_often_owns_the_bias_again() {
    let lock = BiasedLock::new(());
    for _ in 0..3 {
        biased(&lock);
        assert!(is_owner(&lock.try_lock().expect("open")));
        thread::scope(|scope| {
            scope.spawn(|| {
                biased(&lock);
                assert!(is_owner(&lock.try_lock().expect("open")));
            });
        });
    }
}

/// It has seen that it is the owner, and is stopped before it raises its flag.
#[test]
fn a_former_owner_that_is_on_its_way_in_turns_round() {
    let lock = BiasedLock::new(());
    biased(&lock);
    let seen = lock.owner.load(Ordering::Relaxed);
    let (owns, comes) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            biased(&lock);
            let held = lock.try_lock().expect("open");
            owns.wait();
            comes.wait();
            assert!(is_owner(&held) && lock.inside.iter().any(|inside| inside.load(Ordering::Relaxed)));
        });
        owns.wait();
        let turned_round = lock.try_as_owner(seen).is_none();
        comes.wait();
        assert!(turned_round, "another thread is inside");
    });
    assert!(lock.try_as_owner(seen).is_none(), "another thread owns the bias");
    assert!(lock.try_lock().is_some());
}

#[test]
fn more_threads_than_there_are_seats_take_the_lock() {
    let lock = BiasedLock::new(());
    for number in 0..SEATS + 2 {
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..STREAK {
                    drop(lock.try_lock().expect("nobody else has it"));
                }
                assert_eq!(is_owner(&lock.try_lock().expect("open")), number < SEATS, "thread {number}");
            });
        });
    }
}

#[test]
fn a_call_of_another_thread_does_not_end_the_bias() {
    let lock = BiasedLock::new(0);
    biased(&lock);
    thread::scope(|scope| {
        scope.spawn(|| *lock.lock() += 1);
    });
    let held = lock.try_lock().expect("open");
    assert!(is_owner(&held));
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

/// Threads that own the bias one after the other, and some that only try.
#[test]
fn owners_that_follow_each_other_exclude_each_other() {
    const OWNERS: u64 = 4;
    const TURNS: u64 = 20 * STREAK as u64;
    let lock = BiasedLock::new([0; 2]);
    let owned = AtomicU64::new(0);
    let turns = |mut left: u64| {
        while left > 0 {
            let Some(mut held) = lock.try_lock() else {
                thread::yield_now();
                continue;
            };
            owned.fetch_add(is_owner(&held).into(), Ordering::Relaxed);
            changes(&mut held);
            left -= 1;
        }
    };
    thread::scope(|scope| (0..OWNERS).for_each(|_| drop(scope.spawn(|| turns(TURNS)))));
    assert_eq!(*lock.lock(), [OWNERS * TURNS; 2]);
    assert!(owned.into_inner() > 0, "nobody ever owned the bias");
}
