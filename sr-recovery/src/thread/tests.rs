//! The rings around the slow path, stepped and with real threads.
#![cfg(not(loom))]

use std::time::{Duration, Instant};

use wire::Psn;

use super::{Remote, pair, pair_of};
use crate::{Command, Record, SlowPathConfig, StreamId};

const STREAM: StreamId = StreamId { qp: 0, response: false };
const CONFIG: SlowPathConfig = SlowPathConfig { max_streams: 8, window_max: 512, contexts: 8 };
/// Only a thread that is stuck needs this long.
const LIMIT: Duration = Duration::from_secs(60);

fn psn(position: u32) -> Psn {
    Psn::new(0xFF_FF00).add(position)
}

/// In each generation 1 arrives, then 0: one `Advance`.
fn swap(remote: &mut Remote, generation: u32) {
    let run = |at| Record::RxRun { stream: STREAM, generation, first: psn(at), last: psn(at), epsn: psn(0) };
    for record in [run(1), run(0), Record::RxClose { stream: STREAM, generation }] {
        let begun = Instant::now();
        while !remote.push(&record) {
            assert!(begun.elapsed() < LIMIT, "the worker takes nothing");
            std::thread::yield_now();
        }
    }
}

fn advance(generation: u32) -> Command {
    Command::Advance { stream: STREAM, generation, epsn: psn(2), bitmap: 0 }
}

fn wait(remote: &mut Remote) -> Command {
    let begun = Instant::now();
    loop {
        if let Some(command) = remote.pop() {
            return command;
        }
        assert!(begun.elapsed() < LIMIT, "the worker answers nothing");
        std::thread::yield_now();
    }
}

#[test]
fn a_full_ring_of_commands_holds_records_back_and_loses_none() {
    let (mut remote, mut worker) = pair_of(CONFIG, 4);
    let mut next = 1;
    for generation in 1..=100 {
        while !remote.has_room(3) {
            worker.work();
            if !remote.has_room(3) {
                assert_eq!(remote.pop(), Some(advance(next)), "only commands not taken hold records back");
                next += 1;
            }
        }
        swap(&mut remote, generation);
        assert!(!remote.is_settled());
    }
    while !remote.is_settled() {
        worker.work();
        while let Some(command) = remote.pop() {
            assert_eq!(command, advance(next));
            next += 1;
        }
    }
    assert_eq!(next, 101);
    assert_eq!((remote.stats().advances, remote.stats().receivers_open), (100, 0));
}

#[test]
fn a_worker_that_slept_wakes_for_a_record_and_for_room() {
    let (mut remote, worker) = pair_of(CONFIG, 8);
    let thread = std::thread::spawn(|| worker.run());
    // Long enough to fall asleep, or not: it must not matter.
    std::thread::sleep(Duration::from_millis(20));
    swap(&mut remote, 1);
    assert_eq!(wait(&mut remote), advance(1));
    // Eight commands fill their ring; the worker sleeps for want of room while records wait.
    for generation in 2..=12 {
        swap(&mut remote, generation);
    }
    std::thread::sleep(Duration::from_millis(20));
    for generation in 2..=12 {
        assert_eq!(wait(&mut remote), advance(generation));
    }
    drop(remote);
    thread.join().unwrap();
}

#[test]
fn a_worker_is_wanted_for_a_record_for_room_and_for_the_end() {
    let (mut remote, mut worker) = pair_of(CONFIG, 1);
    assert!(!worker.is_wanted(), "nothing to do");
    let run =
        |at| Record::RxRun { stream: STREAM, generation: 1, first: psn(at), last: psn(at), epsn: psn(0) };
    for at in [0, 1] {
        assert!(remote.push(&run(at)));
        assert!(worker.is_wanted(), "a record");
        worker.work();
    }
    assert!(!worker.is_wanted(), "a command for which there is no room");
    assert!(remote.pop().is_some());
    assert!(worker.is_wanted(), "there is room for it now");
    worker.work();
    assert!(!worker.is_wanted(), "all is done");
    drop(remote);
    assert!(worker.is_wanted(), "it is to end");
}

#[test]
fn a_worker_without_records_sleeps() {
    let (remote, worker) = pair(CONFIG);
    let thread = std::thread::spawn(|| worker.run());
    let begun = Instant::now();
    while !remote.status.bell.is_asleep() {
        assert!(begun.elapsed() < LIMIT, "the worker does not sleep");
        std::thread::yield_now();
    }
    drop(remote);
    thread.join().unwrap();
}

#[test]
fn a_ring_holds_the_records_that_it_was_made_for() {
    assert_eq!([1, 4, 4096].map(|records| pair_of(CONFIG, records).0.capacity()), [1, 4, 4096]);
}

#[test]
fn many_records_cross_between_threads_in_order() {
    let (mut remote, worker) = pair(CONFIG);
    let thread = std::thread::spawn(|| worker.run());
    let (mut asked, mut answered) = (0, 0);
    while answered < 20_000 {
        if asked < 20_000 && remote.has_room(3) {
            asked += 1;
            swap(&mut remote, asked);
        }
        while let Some(command) = remote.pop() {
            answered += 1;
            assert_eq!(command, advance(answered));
        }
    }
    let begun = Instant::now();
    while !remote.is_settled() {
        assert!(begun.elapsed() < LIMIT, "the worker does not catch up");
        std::thread::yield_now();
    }
    assert_eq!((remote.stats().records, remote.stats().receivers_open), (60_000, 0));
    drop(remote);
    thread.join().unwrap();
}

#[test]
fn a_worker_whose_engine_is_gone_ends() {
    let (remote, worker) = pair(CONFIG);
    let thread = std::thread::spawn(|| worker.run());
    drop(remote);
    thread.join().unwrap();
}
