//! What a sender is told that finds all scoreboards taken.

use crate::{Command, Record, SlowPath, SlowPathConfig, StreamId};
use wire::Psn;

const STREAM: StreamId = StreamId { qp: 1, response: false };

fn psn(position: u32) -> Psn {
    Psn::new(0xFF_FFFC).add(position)
}

/// One whose only scoreboard another stream has.
fn taken() -> SlowPath {
    let mut slow_path = SlowPath::new(SlowPathConfig { max_streams: 8, window_max: 512, contexts: 1 });
    let other = StreamId { qp: 0, response: false };
    slow_path.handle(&ack_of(other, 0, 0, 8, Some(3), 0));
    while slow_path.poll().is_some() {}
    assert_eq!(slow_path.stats().senders_open, 1);
    slow_path
}

fn ack_of(stream: StreamId, seq: u16, una: u32, snd_nxt: u32, sack: Option<u32>, run: u32) -> Record {
    Record::Ack {
        stream,
        generation: 1,
        seq,
        una: psn(una),
        snd_nxt: psn(snd_nxt),
        sack: sack.map(psn),
        // As a bitmap that looks back from the SACK.
        bitmap_base: sack.map_or(psn(una), psn).sub(u64::BITS),
        bitmap: if run == 0 { 0 } else { u64::MAX << (u64::BITS - run) },
        threshold: 0,
    }
}

/// An acknowledgement; `run` packets right before the SACK have arrived, too.
fn ack(seq: u16, una: u32, sack: Option<u32>, run: u32) -> Record {
    ack_of(STREAM, seq, una, 100, sack, run)
}

fn lost(first: u32, last: u32) -> Command {
    Command::Lost { stream: STREAM, generation: 1, first: psn(first), last: psn(last) }
}

fn answer(seq: u16, clean: bool) -> Command {
    Command::Scoreboard { stream: STREAM, generation: 1, seq, sacked: 0, clean }
}

fn answers(slow_path: &mut SlowPath, record: &Record) -> Vec<Command> {
    slow_path.handle(record);
    std::iter::from_fn(|| slow_path.poll()).collect()
}

#[test]
fn each_gap_is_declared_once_and_forgotten_when_it_is_closed() {
    let mut slow_path = taken();
    assert_eq!(answers(&mut slow_path, &ack(1, 10, Some(12), 0)), [lost(10, 11), answer(1, false)]);
    assert_eq!(answers(&mut slow_path, &ack(2, 10, Some(13), 1)), [answer(2, false)]);
    // 14 and 15 are missing, 16 to 20 are there.
    assert_eq!(answers(&mut slow_path, &ack(3, 10, Some(20), 4)), [lost(14, 15), answer(3, false)]);
    let resent = Record::Resent { stream: STREAM, generation: 1, seq: 4, psn: psn(10), snd_nxt: psn(100) };
    assert_eq!(answers(&mut slow_path, &resent), [answer(4, false)]);
    assert_eq!(answers(&mut slow_path, &ack(5, 14, None, 0)), [answer(5, false)]);
    assert_eq!(answers(&mut slow_path, &ack(6, 21, None, 0)), [answer(6, true)]);
    let stats = slow_path.stats();
    assert_eq!(
        (stats.untracked, stats.senders_open, stats.packets_lost),
        (1, 1, 3 + 4),
        "with those of the other stream"
    );
}

#[test]
fn a_bitmap_that_begins_at_una_shows_what_arrived_before_the_sack() {
    let mut slow_path = taken();
    let mut record = ack(1, 10, Some(14), 0);
    if let Record::Ack { bitmap_base, bitmap, .. } = &mut record {
        (*bitmap_base, *bitmap) = (psn(10), 0b1100);
    }
    assert_eq!(answers(&mut slow_path, &record), [lost(10, 11), answer(1, false)]);
}

#[test]
fn a_sack_outside_of_what_is_under_way_is_no_evidence() {
    let mut slow_path = taken();
    assert_eq!(answers(&mut slow_path, &ack(1, 10, Some(150), 0)), [answer(1, true)], "never sent");
    assert_eq!(answers(&mut slow_path, &ack(2, 10, Some(12), 0)), [lost(10, 11), answer(2, false)]);
    assert_eq!(answers(&mut slow_path, &ack(3, 10, Some(10), 0)), [answer(3, false)], "an older one");
    assert_eq!(answers(&mut slow_path, &ack(4, 10, Some(13), 0)), [answer(4, false)], "12 is there");
}

#[test]
fn packets_within_the_threshold_are_not_declared() {
    let mut slow_path = taken();
    let mut record = ack(1, 10, Some(14), 0);
    if let Record::Ack { threshold, .. } = &mut record {
        *threshold = 2;
    }
    assert_eq!(answers(&mut slow_path, &record), [lost(10, 11), answer(1, false)]);
    if let Record::Ack { threshold, .. } = &mut record {
        *threshold = 255;
    }
    assert_eq!(answers(&mut slow_path, &record), [answer(1, false)]);
}

#[test]
fn a_nack_without_sack_declares_all_of_it_each_time() {
    let mut slow_path = taken();
    let resend_all = |seq, una| Record::ResendAll {
        stream: STREAM,
        generation: 1,
        seq,
        una: psn(una),
        snd_nxt: psn(100),
        first: psn(0),
        last: psn(400),
    };
    assert_eq!(answers(&mut slow_path, &resend_all(1, 10)), [lost(10, 99), answer(1, false)]);
    assert_eq!(answers(&mut slow_path, &ack(2, 10, Some(50), 0)), [answer(2, false)], "it waits already");
    assert_eq!(answers(&mut slow_path, &resend_all(3, 20)), [lost(20, 99), answer(3, false)]);
    assert_eq!(answers(&mut slow_path, &ack(4, 100, None, 0)), [answer(4, true)]);
}

#[test]
fn after_a_timeout_gaps_are_declared_once_more() {
    let mut slow_path = taken();
    assert_eq!(answers(&mut slow_path, &ack(1, 10, Some(12), 0)), [lost(10, 11), answer(1, false)]);
    let rto = Record::Rto { stream: STREAM, generation: 1, seq: 2 };
    assert_eq!(answers(&mut slow_path, &rto), [answer(2, true)]);
    assert_eq!(answers(&mut slow_path, &ack(3, 10, Some(13), 0)), [lost(10, 12), answer(3, false)]);
}

#[test]
fn the_next_recovery_takes_a_scoreboard_that_has_become_free() {
    let mut slow_path = taken();
    answers(&mut slow_path, &ack(1, 10, Some(12), 0));
    let other = StreamId { qp: 0, response: false };
    answers(&mut slow_path, &Record::TxClose { stream: other, generation: 1 });
    assert_eq!(answers(&mut slow_path, &ack(2, 10, Some(20), 0)), [lost(13, 19), answer(2, false)]);
    assert_eq!(slow_path.stats().senders_open, 0);
    answers(&mut slow_path, &ack(3, 30, None, 0));
    answers(&mut slow_path, &ack(4, 30, Some(32), 0));
    assert_eq!(slow_path.stats().senders_open, 1);
}

#[test]
fn what_is_of_a_former_life_is_ignored() {
    let mut slow_path = taken();
    answers(&mut slow_path, &ack(1, 10, Some(12), 0));
    answers(&mut slow_path, &Record::TxClose { stream: STREAM, generation: 1 });
    assert_eq!(answers(&mut slow_path, &ack(2, 10, Some(14), 0)), []);
}

#[test]
fn its_work_is_the_packets_declared() {
    let mut slow_path = taken();
    let before = slow_path.stats().work;
    answers(&mut slow_path, &ack(1, 10, Some(12), 0));
    assert_eq!(slow_path.stats().work - before, 1 + 2);
}
