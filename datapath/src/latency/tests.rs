//! Operations by themselves: what their parts are, and what is kept of them.

use super::probe::Posted;
use super::*;
use crate::queue::{SendOpcode, WcStatus};
use crate::time::Time;

fn posted(at: u64) -> Posted {
    Posted { slot: 0, position: 64, at: Time(at), wr_id: 7, opcode: SendOpcode::Write, signaled: true }
}

fn sample(qpn: u32, status: WcStatus, ns: u64) -> Sample {
    let mut track = Track::new(posted(0));
    track.look(Time(0), Standing::Sent, Part::Network);
    track.look(Time(ns), Standing::Complete, Part::Network);
    track.finish(Time(ns), qpn, status, 0)
}

#[test]
fn each_part_has_the_time_that_passed_in_it_and_all_make_the_whole() {
    let mut track = Track::new(posted(1_000));
    track.look(Time(1_010), Standing::Unseen, Part::Scheduler);
    track.look(Time(1_030), Standing::Unsent, Part::Scheduler);
    track.look(Time(1_100), Standing::Unsent, Part::Window);
    track.look(Time(1_400), Standing::Begun, Part::Congestion);
    track.look(Time(1_900), Standing::Sent, Part::Network);
    track.look(Time(2_500), Standing::Sent, Part::Recovery);
    track.look(Time(4_500), Standing::Sent, Part::Network);
    track.look(Time(5_500), Standing::Complete, Part::Network);
    track.blame_peer(400);
    let sample = track.finish(Time(9_500), 17, WcStatus::Success, 2);
    let expected = [
        (Part::Posting, 30),
        (Part::Scheduler, 70),
        (Part::Port, 0),
        (Part::Window, 300),
        (Part::Congestion, 500),
        (Part::Reads, 0),
        (Part::Receives, 0),
        (Part::Recovery, 2_000),
        (Part::Network, 1_200),
        (Part::Peer, 400),
        (Part::Polling, 4_000),
    ];
    assert_eq!(sample.parts.iter().collect::<Vec<_>>(), expected);
    assert_eq!(sample.parts.total(), 9_500 - 1_000);
    assert_eq!((sample.first_at, sample.sent_at, sample.again), (Time(1_400), Time(1_900), 2));
}

/// Who posts reads a clock of its own.
#[test]
fn a_post_that_is_ahead_of_the_turns_time_has_no_part_below_zero() {
    let mut track = Track::new(posted(500));
    track.look(Time(400), Standing::Sent, Part::Network);
    track.look(Time(900), Standing::Complete, Part::Network);
    let sample = track.finish(Time(850), 17, WcStatus::Success, 0);
    assert_eq!((sample.parts[Part::Network], sample.parts.total()), (400, 400));
}

#[test]
fn a_host_is_blamed_for_no_more_than_there_was() {
    let mut track = Track::new(posted(0));
    track.look(Time(0), Standing::Sent, Part::Network);
    track.look(Time(300), Standing::Complete, Part::Network);
    track.blame_peer(1_000);
    let sample = track.finish(Time(300), 17, WcStatus::Success, 0);
    assert_eq!((sample.parts[Part::Network], sample.parts[Part::Peer]), (0, 300));
}

#[test]
fn operations_are_kept_by_queue_pair_operation_and_status() {
    let mut table = Table::new();
    for ns in 1..=1_000 {
        table.add(&sample(17, WcStatus::Success, ns * 1_000), Time(ns));
    }
    table.add(&sample(17, WcStatus::RetryExcErr, 5_000), Time(1_001));
    table.add(&sample(18, WcStatus::Success, 5_000), Time(1_001));
    let operations = table.operations(Time(1_001));
    let counts: Vec<_> =
        operations.iter().map(|of| of.key.map(|key| (key.qpn, key.status, of.count))).collect();
    let expected =
        [(17, WcStatus::Success, 1_000), (17, WcStatus::RetryExcErr, 1), (18, WcStatus::Success, 1)];
    assert_eq!(counts, expected.map(Some));
    let [half, .., most] = operations[0].total.ns;
    assert!(half.abs_diff(500_000) < 10_000 && most.abs_diff(1_000_000) < 20_000, "{half} {most}");
    assert_eq!(operations[0].parts.total(), 500_500_000);
}

#[test]
fn what_is_older_than_two_minutes_is_forgotten_but_for_its_count() {
    let minute = 60_000_000_001;
    let mut table = Table::new();
    table.add(&sample(17, WcStatus::Success, 9_000_000), Time(1));
    for round in 1..=2 {
        table.add(&sample(17, WcStatus::Success, 1_000), Time(1 + round * minute));
    }
    let operations = table.operations(Time(1 + 2 * minute));
    let [.., most] = operations[0].total.ns;
    assert!(operations[0].count == 3 && most < 1_100, "{operations:?}");
}

/// Nobody samples for an hour: what was is told for two minutes, and does not come back.
#[test]
fn what_is_older_than_two_minutes_is_forgotten_while_nothing_comes() {
    let minute = 60_000_000_000;
    let mut table = Table::new();
    table.add(&sample(17, WcStatus::Success, 9_000_000), Time(1));
    let told = |table: &Table, at| {
        let [one] = table.operations(Time(at))[..] else { panic!("one key") };
        let parts: u64 = table.parts(Time(at)).iter().map(|(_, of)| of.count).sum();
        (one.count, one.total.count, parts / Part::ALL.len() as u64)
    };
    assert_eq!(told(&table, minute), (1, 1, 1));
    assert_eq!(told(&table, minute + 1), (1, 1, 1));
    assert_eq!(told(&table, 60 * minute), (1, 0, 0));
    table.add(&sample(17, WcStatus::Success, 1_000), Time(60 * minute));
    assert_eq!(told(&table, 60 * minute), (2, 1, 1));
}

/// A hundred queue pairs have places for fewer.
#[test]
fn keys_without_a_place_share_one_until_a_place_is_old() {
    let mut table = Table::new();
    for qpn in 1..=100 {
        table.add(&sample(qpn, WcStatus::Success, 1_000), Time(qpn.into()));
    }
    let shared = |table: &Table| {
        let operations = table.operations(Time(1_001));
        let count: u64 = operations.iter().map(|of| of.count).sum();
        let shared: u64 = operations.iter().filter(|of| of.key.is_none()).map(|of| of.count).sum();
        (operations.len(), count, shared)
    };
    assert_eq!(shared(&table), (32, 100, 69));
    table.add(&sample(101, WcStatus::Success, 1_000), Time(70_000_000_000));
    assert_eq!(shared(&table), (32, 100, 69), "the place of the first");
}

#[test]
fn the_last_slow_operations_are_kept_with_what_belongs_to_them() {
    let mut slow = SlowOperations::new(1_000);
    for ns in 980..1_020 {
        slow.note(&sample(17, WcStatus::Success, ns), ns);
    }
    let kept: Vec<u64> = slow.iter().map(|slow| slow.queue_pair).collect();
    assert_eq!((slow.count(), kept), (20, (1_004..1_020).collect()));
}
