//! Exact cases of the whole: generations, contexts, bounds, what is answered.

use wire::Psn;

use super::{SlowPath, SlowPathConfig};
use crate::{Command, Record, StreamId};

const STREAM: StreamId = StreamId { qp: 0, response: false };

fn psn(position: u32) -> Psn {
    Psn::new(0xFF_FFFC).add(position)
}

fn slow_path() -> SlowPath {
    SlowPath::new(SlowPathConfig { max_streams: 4, window_max: 1024, contexts: 2 })
}

fn run(generation: u32, first: u32, last: u32, epsn: u32) -> Record {
    Record::RxRun { stream: STREAM, generation, first: psn(first), last: psn(last), epsn: psn(epsn) }
}

fn ack(generation: u32, seq: u16, una: u32, snd_nxt: u32, sack: Option<u32>) -> Record {
    Record::Ack {
        stream: STREAM,
        generation,
        seq,
        una: psn(una),
        snd_nxt: psn(snd_nxt),
        sack: sack.map(psn),
        bitmap_base: psn(una),
        bitmap: 0,
        threshold: 0,
    }
}

fn lost(generation: u32, first: u32, last: u32) -> Command {
    Command::Lost { stream: STREAM, generation, first: psn(first), last: psn(last) }
}

fn scoreboard(generation: u32, seq: u16, sacked: u32, clean: bool) -> Command {
    Command::Scoreboard { stream: STREAM, generation, seq, sacked, clean }
}

fn answers(slow_path: &mut SlowPath, record: &Record) -> Vec<Command> {
    slow_path.handle(record);
    std::iter::from_fn(|| slow_path.poll()).collect()
}

#[test]
fn stream_ids_are_dense() {
    assert_eq!(StreamId { qp: 0, response: false }.index(), 0);
    assert_eq!(StreamId { qp: 0, response: true }.index(), 1);
    assert_eq!(StreamId { qp: 7, response: false }.index(), 14);
}

#[test]
fn a_newer_generation_starts_an_empty_bitmap_and_an_older_one_is_ignored() {
    let mut slow_path = slow_path();
    let newest = 1;
    let oldest = u32::MAX - 1;
    assert_eq!(answers(&mut slow_path, &run(oldest, 1, 4, 0)), []);
    assert_eq!(answers(&mut slow_path, &run(newest, 3, 3, 2)), []);
    assert_eq!(answers(&mut slow_path, &run(oldest, 2, 2, 2)), []);
    assert_eq!(slow_path.stats().records_stale, 1);
    let advance = Command::Advance { stream: STREAM, generation: newest, epsn: psn(4), bitmap: 0 };
    assert_eq!(answers(&mut slow_path, &run(newest, 2, 2, 2)), [advance]);
}

#[test]
fn a_closed_generation_stays_closed() {
    let mut slow_path = slow_path();
    answers(&mut slow_path, &run(7, 1, 1, 0));
    assert_eq!(slow_path.stats().receivers_open, 1);
    answers(&mut slow_path, &Record::RxClose { stream: STREAM, generation: 6 });
    assert_eq!(slow_path.stats().receivers_open, 1);
    answers(&mut slow_path, &Record::RxClose { stream: STREAM, generation: 7 });
    assert_eq!(slow_path.stats().receivers_open, 0);
    assert_eq!(answers(&mut slow_path, &run(7, 0, 0, 0)), []);
    assert_eq!(slow_path.stats().records_stale, 2);
    answers(&mut slow_path, &run(8, 1, 1, 0));
    assert_eq!(slow_path.stats().receivers_open, 1);
}

#[test]
fn the_first_generation_may_be_any() {
    for generation in [0, 1, 0x7FFF_FFFF, 0x8000_0000, u32::MAX] {
        let mut slow_path = slow_path();
        assert_eq!(answers(&mut slow_path, &run(generation, 0, 0, 0)).len(), 1);
        assert_eq!(answers(&mut slow_path, &ack(generation, 0, 0, 8, Some(1))).len(), 2);
    }
}

#[test]
fn a_sender_is_told_what_is_lost_and_when_all_is_over() {
    let mut slow_path = slow_path();
    assert_eq!(
        answers(&mut slow_path, &ack(1, 0, 0, 8, Some(3))),
        [lost(1, 0, 2), scoreboard(1, 0, 1, false)]
    );
    assert_eq!(answers(&mut slow_path, &ack(1, 1, 0, 8, Some(4))), [scoreboard(1, 1, 2, false)]);
    for (seq, position) in [(2, 0), (3, 1), (4, 2)] {
        let resent =
            Record::Resent { stream: STREAM, generation: 1, seq, psn: psn(position), snd_nxt: psn(8) };
        assert_eq!(answers(&mut slow_path, &resent), [scoreboard(1, seq, 2, false)]);
    }
    assert_eq!(
        answers(&mut slow_path, &ack(1, 5, 2, 10, Some(8))),
        [lost(1, 2, 2), lost(1, 5, 7), scoreboard(1, 5, 3, false)],
        "8 was sent after the mark"
    );
    assert_eq!(answers(&mut slow_path, &ack(1, 6, 10, 10, None)), [scoreboard(1, 6, 0, true)]);
    assert_eq!(slow_path.stats().senders_open, 0);
    assert_eq!(slow_path.stats().packets_lost, 7);
    assert_eq!(answers(&mut slow_path, &ack(1, 7, 12, 12, None)), [scoreboard(1, 7, 0, true)]);
    assert_eq!(slow_path.stats().senders_open, 0, "nothing to remember, no context");
}

#[test]
fn one_scoreboard_answers_a_batch() {
    let mut slow_path = slow_path();
    assert!(slow_path.is_idle());
    slow_path.handle(&ack(1, 0, 0, 8, Some(0)));
    slow_path.handle(&ack(1, 1, 0, 8, Some(1)));
    assert!(!slow_path.is_idle());
    assert_eq!(slow_path.poll(), Some(scoreboard(1, 1, 2, false)));
    assert_eq!(slow_path.poll(), None);
}

#[test]
fn a_reset_sender_forgets() {
    let mut slow_path = slow_path();
    answers(&mut slow_path, &ack(1, 0, 0, 8, Some(3)));
    assert_eq!(answers(&mut slow_path, &Record::TxClose { stream: STREAM, generation: 1 }), []);
    assert_eq!(answers(&mut slow_path, &ack(1, 1, 0, 8, Some(4))), []);
    assert_eq!(answers(&mut slow_path, &ack(2, 2, 0, 8, Some(0))), [scoreboard(2, 2, 1, false)]);
}

#[test]
fn what_cannot_be_is_ignored_and_counted() {
    let mut slow_path = slow_path();
    let unknown = StreamId { qp: 2, response: false };
    let records = [
        Record::RxRun { stream: unknown, generation: 1, first: psn(0), last: psn(0), epsn: psn(0) },
        Record::RxClose { stream: unknown, generation: 1 },
        Record::Rto { stream: unknown, generation: 1, seq: 0 },
        Record::TxClose { stream: StreamId { qp: u32::MAX, response: true }, generation: 1 },
        run(1, 5, 4, 0),
        run(1, 0, 1024, 0),
        ack(1, 0, 1, 0, None),
        ack(1, 0, 0, 1025, Some(3)),
        Record::Resent { stream: STREAM, generation: 1, seq: 0, psn: psn(3), snd_nxt: psn(3) },
        Record::Resent { stream: STREAM, generation: 1, seq: 0, psn: psn(0), snd_nxt: psn(1025) },
    ];
    for record in &records {
        assert_eq!(answers(&mut slow_path, record), [], "{record:?}");
    }
    assert_eq!(slow_path.stats().records_invalid, records.len() as u64);
    assert_eq!((slow_path.stats().senders_open, slow_path.stats().receivers_open), (0, 0));
}

#[test]
fn a_run_may_end_with_the_window() {
    let mut slow_path = slow_path();
    answers(&mut slow_path, &run(1, 1023, 1023, 0));
    assert_eq!((slow_path.stats().records_invalid, slow_path.stats().receivers_open), (0, 1));
}

#[test]
fn a_window_that_ends_before_it_begins_is_refused_in_recovery_as_well() {
    let mut slow_path = slow_path();
    answers(&mut slow_path, &ack(1, 0, 0, 8, Some(3)));
    assert_eq!(answers(&mut slow_path, &ack(1, 1, 5, 4, None)), []);
    assert_eq!(slow_path.stats().records_invalid, 1);
}

#[test]
fn a_bitmap_without_a_sack_is_remembered() {
    let mut slow_path = slow_path();
    let mut record = ack(1, 0, 0, 8, None);
    if let Record::Ack { bitmap, .. } = &mut record {
        *bitmap = 1 << 2;
    }
    assert_eq!(answers(&mut slow_path, &record), [lost(1, 0, 1), scoreboard(1, 0, 1, false)]);
}

#[test]
fn a_resend_is_remembered() {
    let mut slow_path = slow_path();
    let resent = Record::Resent { stream: STREAM, generation: 1, seq: 0, psn: psn(3), snd_nxt: psn(8) };
    assert_eq!(answers(&mut slow_path, &resent), [scoreboard(1, 0, 0, false)]);
    assert_eq!(slow_path.stats().senders_open, 1);
}

#[test]
fn the_largest_window_fits_from_the_start() {
    let mut slow_path = SlowPath::new(SlowPathConfig { max_streams: 8, window_max: 32768, contexts: 1 });
    let bytes = slow_path.bytes();
    answers(&mut slow_path, &run(1, 511, 511, 0));
    answers(&mut slow_path, &ack(1, 0, 0, 512, Some(0)));
    answers(&mut slow_path, &run(1, 1, 512, 0));
    let advance = Command::Advance { stream: STREAM, generation: 1, epsn: psn(513), bitmap: 0 };
    assert_eq!(answers(&mut slow_path, &run(1, 0, 0, 0)), [advance]);
    answers(&mut slow_path, &ack(1, 1, 0, 32768, Some(32767)));
    assert_eq!(slow_path.stats().packets_lost, 32766);
    assert_eq!(slow_path.bytes(), bytes);
}

#[test]
fn a_receiver_that_finds_all_bitmaps_taken_is_refused_until_one_is_free() {
    let mut slow_path = SlowPath::new(SlowPathConfig { max_streams: 8, window_max: 512, contexts: 1 });
    answers(&mut slow_path, &run(1, 1, 1, 0));
    let stream = StreamId { qp: 1, response: false };
    let run_of = |first, last| Record::RxRun { stream, generation: 1, first, last, epsn: psn(0) };
    assert_eq!(answers(&mut slow_path, &run_of(psn(1), psn(1))), []);
    assert_eq!((slow_path.stats().records_refused, slow_path.stats().receivers_open), (1, 1));
    answers(&mut slow_path, &Record::RxClose { stream: STREAM, generation: 1 });
    let advance = Command::Advance { stream, generation: 1, epsn: psn(1), bitmap: 0 };
    assert_eq!(answers(&mut slow_path, &run_of(psn(0), psn(0))), [advance]);
}

#[test]
fn marks_follow_a_larger_window() {
    let mut slow_path = slow_path();
    answers(&mut slow_path, &ack(1, 0, 0, 601, Some(600)));
    for position in [0, 512] {
        let psn = psn(position);
        answers(
            &mut slow_path,
            &Record::Resent { stream: STREAM, generation: 1, seq: 0, psn, snd_nxt: self::psn(601) },
        );
    }
    assert_eq!(
        answers(&mut slow_path, &ack(1, 1, 0, 602, Some(601))),
        [lost(1, 0, 0), lost(1, 512, 512), scoreboard(1, 1, 2, false)]
    );
}

#[test]
fn an_older_una_is_no_larger_window() {
    let mut slow_path = slow_path();
    answers(&mut slow_path, &ack(1, 0, 600, 1100, Some(600)));
    assert_eq!(answers(&mut slow_path, &ack(1, 1, 0, 1100, None)), [scoreboard(1, 1, 1, false)]);
}

#[test]
fn a_newer_life_begins_without_the_older_ones_marks() {
    let mut slow_path = slow_path();
    let resent = Record::Resent { stream: STREAM, generation: 1, seq: 0, psn: psn(5), snd_nxt: psn(8) };
    answers(&mut slow_path, &ack(1, 0, 0, 8, Some(7)));
    answers(&mut slow_path, &resent);
    assert_eq!(answers(&mut slow_path, &ack(2, 1, 0, 1, Some(0))), [scoreboard(2, 1, 1, false)]);
    assert_eq!(answers(&mut slow_path, &ack(2, 2, 1, 1, None)), [scoreboard(2, 2, 0, true)]);

    answers(&mut slow_path, &ack(2, 3, 1, 8, Some(7)));
    assert_eq!(answers(&mut slow_path, &ack(3, 4, 1, 8, None)), [scoreboard(3, 4, 0, true)]);
    assert_eq!(slow_path.stats().senders_open, 0, "generation 2 is over");
    assert_eq!(answers(&mut slow_path, &ack(2, 5, 1, 8, Some(2))), []);
}

/// 256 commands of a receiver, which nobody polls.
fn fill_a_batch(slow_path: &mut SlowPath) {
    for position in 0..256 {
        assert!(slow_path.ready());
        slow_path.handle(&run(1, position, position, 0));
    }
}

#[test]
fn the_bound_of_the_queue_holds_for_the_worst_record() {
    let mut slow_path = SlowPath::new(SlowPathConfig { max_streams: 2, window_max: 512, contexts: 1 });
    let bytes = slow_path.bytes();
    // 510 packets are lost and resent in descending order, so that no two of them are neighbours in
    // one command.
    answers(&mut slow_path, &ack(1, 0, 0, 511, Some(510)));
    for position in (0..510).rev() {
        let psn = psn(position);
        let resent = Record::Resent { stream: STREAM, generation: 1, seq: 0, psn, snd_nxt: self::psn(511) };
        answers(&mut slow_path, &resent);
    }
    fill_a_batch(&mut slow_path);
    assert!(slow_path.ready());
    slow_path.handle(&ack(1, 1, 0, 512, Some(511)));
    assert_eq!(slow_path.stats().packets_lost, 2 * 510);
    assert_eq!(slow_path.stats().commands_waiting_max, 256 + 510 + 1);
    assert!(!slow_path.ready());
    assert_eq!(slow_path.bytes(), bytes, "all of that was made in advance");
}

#[test]
fn not_ready_means_that_a_worst_record_might_not_fit() {
    let mut slow_path = SlowPath::new(SlowPathConfig { max_streams: 2, window_max: 512, contexts: 1 });
    fill_a_batch(&mut slow_path);
    slow_path.handle(&run(1, 256, 256, 0));
    assert!(!slow_path.ready());
    slow_path.poll();
    assert!(slow_path.ready());
}

#[test]
fn resend_all_declares_each_packet_once() {
    let mut slow_path = slow_path();
    // every second packet SACKed, with a threshold that keeps the others from being lost yet
    for position in (1..200).step_by(2) {
        let mut record = ack(1, 0, 0, 200, Some(position));
        if let Record::Ack { threshold, .. } = &mut record {
            *threshold = 255;
        }
        assert_eq!(answers(&mut slow_path, &record).len(), 1);
    }
    let resend = |seq| Record::ResendAll {
        stream: STREAM,
        generation: 1,
        seq,
        una: psn(0),
        snd_nxt: psn(200),
        first: psn(0),
        last: psn(199),
    };
    let commands = answers(&mut slow_path, &resend(1));
    assert_eq!(commands[..100], (0..200).step_by(2).map(|p| lost(1, p, p)).collect::<Vec<_>>());
    assert_eq!(commands[100..], [scoreboard(1, 1, 100, false)]);
    assert_eq!(answers(&mut slow_path, &resend(2)), [scoreboard(1, 2, 100, false)], "they wait already");
}

/// A fast path never says this; found by `tests/hostile.rs`.
#[test]
fn a_window_that_half_the_psn_space_turns_around_is_refused() {
    let mut slow_path = slow_path();
    let resent =
        Record::Resent { stream: STREAM, generation: 1, seq: 0, psn: Psn::new(563), snd_nxt: Psn::new(564) };
    answers(&mut slow_path, &resent);
    let resend_all = Record::ResendAll {
        stream: STREAM,
        generation: 1,
        seq: 1,
        una: Psn::new(123_051),
        snd_nxt: Psn::new(564 + (1 << 23)),
        first: Psn::new(16_777_200),
        last: Psn::new(1_459_512),
    };
    assert_eq!(answers(&mut slow_path, &resend_all), []);
    assert_eq!(slow_path.stats().records_invalid, 1);
}

/// The work that a record is.
fn work(slow_path: &mut SlowPath, record: &Record) -> u64 {
    let before = slow_path.stats().work;
    answers(slow_path, record);
    slow_path.stats().work - before
}

#[test]
fn a_senders_work_is_the_packets_looked_at_and_the_words_read() {
    let mut slow_path = slow_path();
    let resent = |at, snd_nxt| Record::Resent {
        stream: STREAM,
        generation: 1,
        seq: 0,
        psn: psn(at),
        snd_nxt: psn(snd_nxt),
    };
    let resend_all = Record::ResendAll {
        stream: STREAM,
        generation: 1,
        seq: 0,
        una: psn(2),
        snd_nxt: psn(200),
        first: psn(0),
        last: psn(199),
    };
    let rto = Record::Rto { stream: STREAM, generation: 1, seq: 0 };
    for (record, expected, why) in [
        (ack(1, 0, 0, 200, Some(3)), 1 + 1 + 2 * 3, "three are looked at and declared"),
        (resent(0, 200), 1, "one record"),
        (resent(1, 200), 1, "one record"),
        (rto, 2, "two marks"),
        (ack(1, 0, 2, 200, None), 1 + 2 + 1 + 1, "two leave the window, one is looked at"),
        (resend_all, 1 + 1 + 3 + 196, "three words, and all but 2 and 3"),
        (resent(4, 200), 1, "one record"),
        (ack(1, 0, 2, 201, Some(200)), 1 + 2 + 1 + 197, "a mark, and from 3 to 199"),
        (resent(4, 201), 1, "one record"),
        (ack(1, 0, 2, 201, None), 1 + 1 + 1, "a mark that is no evidence yet"),
    ] {
        assert_eq!(work(&mut slow_path, &record), expected, "{why}: {record:?}");
    }
}

#[test]
fn a_receivers_work_is_the_words_written_and_read() {
    let mut slow_path = slow_path();
    let works =
        [run(1, 1, 130, 0), run(1, 0, 0, 0), run(1, 0, 100, 0)].map(|record| work(&mut slow_path, &record));
    assert_eq!(works, [1 + 2, 1 + 2, 1], "a run, the gap before it, a copy of what is over");
}
