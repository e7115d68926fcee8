//! What devices and connections take they give back: descriptors, places, numbers.

#[macro_use]
#[path = "support/drivers.rs"]
mod drivers;
#[path = "support/talk.rs"]
mod talk;

use std::sync::{Mutex, MutexGuard, PoisonError};
use talk::{REMOTE, connect, host, talk};
use verbs_api::Driver;

/// The tests count what the process has open, so they run one after the other.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Descriptors that this process has open, that of the look included.
fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("this is Linux").count()
}

with_all_drivers! {

/// A thousand connects and disconnects in one process. Whatever is taken is given back, so that
/// nothing grows by which the last could be slower than the first.
fn a_thousand_connections_leave_nothing_behind(driver: Driver) {
    let _alone = alone();
    const ROUNDS: u64 = 1000;
    let name = format!("sim:thousand-{driver:?}");
    let mut left = Vec::new();
    let (mut one, mut two) = (host(driver, &name), host(driver, &name));
    for round in 0..ROUNDS {
        // Fresh objects of every kind.
        for host in [&mut one, &mut two] {
            host.cq = host.device.create_cq(64).expect("a free place");
            host.pd = host.device.alloc_pd();
            host.memory = host.pd.register(4096, REMOTE).expect("a free place");
        }
        let mut pairs = connect(&one, &two);
        talk(&mut one, &mut two, &mut pairs, round);
        drop(pairs);
        if round % (ROUNDS / 10) == ROUNDS / 20 {
            left.push((open_files(), [&one, &two].map(|host| host.device.usage())));
        }
    }
    assert!(left.iter().all(|now| *now == left[0]), "{left:?}");
}

fn a_device_opens_and_closes_a_hundred_times(driver: Driver) {
    let _alone = alone();
    let name = format!("sim:reopened-{driver:?}");
    let before = open_files();
    for round in 0..100 {
        let (mut one, mut two) = (host(driver, &name), host(driver, &name));
        assert_eq!(one.device.ip().to_string(), "10.77.0.1", "the last one's number is free again");
        let mut pairs = connect(&one, &two);
        talk(&mut one, &mut two, &mut pairs, round);
    }
    // What another test left may have been closed meanwhile.
    let after = open_files();
    assert!(after <= before, "{after} files are open, {before} were");
}

}
