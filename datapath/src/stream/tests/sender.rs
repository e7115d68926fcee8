//! TxStream: gates, acknowledgements that lie, marks, thresholds, lives.

use super::{STREAM, psn, slow_path};
use crate::stream::RecoveryPolicy;
use crate::stream::{AckInfo, AckRefused, TxRecovery, TxStream};
use crate::time::Time;
use sr_recovery::{Command, Record, SlowPath};
use wire::{Meta, Msn};

const CAP: u16 = 8;
const LIFE: u32 = 5;

fn sender(packets: u32) -> (TxStream, TxRecovery) {
    let cold = TxRecovery::new(STREAM, LIFE, CAP, RecoveryPolicy::SelectiveRepeat, psn(0));
    let mut stream = TxStream::new(psn(0), CAP);
    for sent in 0..packets {
        assert_eq!(stream.send_new(Time(u64::from(sent))), psn(sent));
    }
    (stream, cold)
}

/// Everything below `next` arrived.
fn ack(next: u32) -> AckInfo {
    AckInfo {
        next: psn(next),
        sack: None,
        bitmap: 0,
        bitmap_base: psn(next).next(),
        resend_all: false,
        duplicate: false,
        echo: None,
    }
}

fn sack(next: u32, sack: u32) -> AckInfo {
    AckInfo { sack: Some(psn(sack)), ..ack(next) }
}

/// Applies an acknowledgement, and what the slow path makes of it. Returns what it declared lost.
fn apply(stream: &mut TxStream, cold: &mut TxRecovery, slow: &mut SlowPath, info: &AckInfo) -> Vec<Command> {
    let effect = stream.on_ack(cold, Time(100), info).unwrap();
    tell(stream, cold, slow, effect.record)
}

fn tell(
    stream: &mut TxStream,
    cold: &mut TxRecovery,
    slow: &mut SlowPath,
    record: Option<Record>,
) -> Vec<Command> {
    record.iter().for_each(|record| slow.handle(record));
    let mut lost = Vec::new();
    while let Some(command) = slow.poll() {
        stream.on_command(cold, &command);
        if matches!(command, Command::Lost { .. }) {
            lost.push(command);
        }
    }
    lost
}

const fn lost(first: u32, last: u32) -> Command {
    Command::Lost {
        stream: STREAM,
        generation: LIFE,
        first: wire::Psn::new(super::START).add(first),
        last: wire::Psn::new(super::START).add(last),
    }
}

#[test]
fn new_data_stop_at_the_cap_and_go_on_when_una_moves() {
    let (mut stream, mut cold) = sender(u32::from(CAP));
    assert_eq!((stream.outstanding(), stream.may_send_new()), (8, false));
    stream.on_ack(&mut cold, Time::ZERO, &ack(1)).unwrap();
    assert!(stream.may_send_new());
    assert!(stream.closes_gate(), "the next packet fills the cap: it asks for an acknowledgement");
    stream.send_new(Time::ZERO);
    assert!(!stream.may_send_new());
}

#[test]
fn the_pipe_gate_counts_what_is_in_the_network() {
    let (mut stream, mut cold) = sender(4);
    let mut slow = slow_path();
    stream.set_cwnd(4);
    assert_eq!((stream.pipe(), stream.may_send_new(), stream.may_resend()), (4, false, false));
    // 1, 2 and 3 have arrived, 0 is lost: nothing is in the network any more.
    for at in 1..4 {
        apply(&mut stream, &mut cold, &mut slow, &sack(0, at));
    }
    assert_eq!((stream.pipe(), stream.retry_pending()), (0, 1));
    stream.set_cwnd(1);
    assert!(stream.may_resend());
    let at = stream.next_retry(&cold).unwrap();
    let resend = stream.take_retry(&mut cold, at);
    tell(&mut stream, &mut cold, &mut slow, resend);
    assert_eq!((stream.pipe(), stream.may_resend()), (1, false), "a retransmission counts again");
}

#[test]
fn one_packet_may_go_when_the_pipe_is_empty_whatever_the_controller_says() {
    let (mut stream, _) = sender(0);
    stream.set_cwnd(0);
    assert!(stream.may_send_new() && stream.closes_gate());
    stream.send_new(Time::ZERO);
    assert!(!stream.may_send_new());
    stream.set_cwnd(u32::MAX);
    assert!(stream.may_send_new(), "no window is too large");
}

#[test]
fn stale_acknowledgements_and_ones_of_the_future_change_nothing() {
    let (mut stream, mut cold) = sender(4);
    stream.on_ack(&mut cold, Time(9), &ack(2)).unwrap();
    let before = format!("{stream:?} {cold:?}");
    for (info, refused) in [
        (ack(1), AckRefused::Stale),
        (sack(0, 3), AckRefused::Stale),
        (AckInfo { resend_all: true, ..ack(1) }, AckRefused::Stale),
        (ack(5), AckRefused::Beyond),
        (ack(1 << 22), AckRefused::Beyond),
        (AckInfo { duplicate: true, resend_all: true, ..sack(5, 3) }, AckRefused::Beyond),
    ] {
        assert_eq!(stream.on_ack(&mut cold, Time(10), &info), Err(refused), "{info:?}");
        assert_eq!(format!("{stream:?} {cold:?}"), before, "{info:?}");
    }
    assert_eq!(stream.on_ack(&mut cold, Time(10), &ack(4)).unwrap().acked, 2);
}

#[test]
fn a_sack_outside_what_is_outstanding_is_not_believed() {
    let (mut stream, mut cold) = sender(4);
    stream.on_ack(&mut cold, Time::ZERO, &ack(2)).unwrap();
    for at in [0, 1, 4, 5, 1 << 22] {
        let effect = stream.on_ack(&mut cold, Time::ZERO, &sack(2, at)).unwrap();
        assert_eq!((effect.record, stream.recovering()), (None, false), "SACK of {at}");
    }
    assert_eq!(stream.tail_psn(&cold), psn(3), "3 is not known to have arrived");
    let effect = stream.on_ack(&mut cold, Time::ZERO, &sack(2, 3)).unwrap();
    assert!(matches!(effect.record, Some(Record::Ack { sack: Some(at), .. }) if at == psn(3)));
    // Its cumulative part counts whatever the SACK says.
    let effect = stream.on_ack(&mut cold, Time::ZERO, &sack(3, 9)).unwrap();
    assert_eq!(effect.acked, 1);
    assert!(matches!(effect.record, Some(Record::Ack { sack: None, .. })), "{effect:?}");
}

#[test]
fn a_nack_without_sack_is_obeyed_once_for_each_una() {
    let (mut stream, mut cold) = sender(4);
    let mut slow = slow_path();
    apply(&mut stream, &mut cold, &mut slow, &sack(0, 2));
    let plain = AckInfo { resend_all: true, ..ack(0) };
    assert_eq!(
        apply(&mut stream, &mut cold, &mut slow, &plain),
        [lost(3, 3)],
        "0 and 1 wait already, 2 is SACKed"
    );
    assert_eq!(apply(&mut stream, &mut cold, &mut slow, &plain), []);
    assert_eq!(stream.retry_pending(), 3);
    for _ in 0..3 {
        let at = stream.next_retry(&cold).unwrap();
        let resend = stream.take_retry(&mut cold, at);
        tell(&mut stream, &mut cold, &mut slow, resend);
    }
    assert_eq!(apply(&mut stream, &mut cold, &mut slow, &plain), [], "for this una it was obeyed");
    let plain = AckInfo { resend_all: true, ..ack(1) };
    assert_eq!(apply(&mut stream, &mut cold, &mut slow, &plain), [lost(1, 1), lost(3, 3)]);
    let (mut idle, mut cold) = sender(0);
    let effect = idle.on_ack(&mut cold, Time::ZERO, &AckInfo { resend_all: true, ..ack(0) }).unwrap();
    assert_eq!(effect.record, None, "nothing is outstanding");
}

#[test]
fn a_timeout_sends_una_even_if_it_is_sacked() {
    let (mut stream, mut cold) = sender(3);
    let mut slow = slow_path();
    // All arrived, and the cumulative acknowledgements were lost.
    for at in 0..3 {
        apply(&mut stream, &mut cold, &mut slow, &sack(0, at));
    }
    assert_eq!((stream.next_retry(&cold), stream.pipe()), (None, 0));
    let (probes, record) = stream.on_rto(&mut cold);
    assert_eq!(probes, [Some(psn(0)), None], "the highest is SACKed, una is sent all the same");
    assert!(matches!(record, Some(Record::Rto { .. })));
    assert_eq!(stream.tail_psn(&cold), psn(0));
    let (mut stream, mut cold) = sender(3);
    assert_eq!(stream.on_rto(&mut cold), ([Some(psn(0)), Some(psn(2))], None));
    let (mut stream, mut cold) = sender(1);
    assert_eq!(stream.on_rto(&mut cold), ([Some(psn(0)), None], None), "not twice the same");
    stream.on_ack(&mut cold, Time::ZERO, &ack(1)).unwrap();
    assert_eq!(stream.on_rto(&mut cold), ([None, None], None));
}

#[test]
fn what_was_resent_is_lost_again_only_if_something_sent_later_arrived() {
    let (mut stream, mut cold) = sender(4);
    let mut slow = slow_path();
    assert_eq!(apply(&mut stream, &mut cold, &mut slow, &sack(0, 1)), [lost(0, 0)]);
    let resend = stream.take_retry(&mut cold, psn(0));
    tell(&mut stream, &mut cold, &mut slow, resend);
    for at in 2..4 {
        assert_eq!(
            apply(&mut stream, &mut cold, &mut slow, &sack(0, at)),
            [],
            "{at} was sent before the resend"
        );
    }
    assert_eq!(stream.send_new(Time::ZERO), psn(4));
    assert_eq!(apply(&mut stream, &mut cold, &mut slow, &sack(0, 4)), [lost(0, 0)], "4 was sent after it");
    let resend = stream.take_retry(&mut cold, psn(0));
    tell(&mut stream, &mut cold, &mut slow, resend);
    // A timeout forgets the marks: the next acknowledgement may declare it again.
    let (_, record) = stream.on_rto(&mut cold);
    assert_eq!(tell(&mut stream, &mut cold, &mut slow, record), [], "it declares nothing itself");
    assert_eq!(apply(&mut stream, &mut cold, &mut slow, &sack(0, 4)), [lost(0, 0)]);
}

#[test]
fn the_end_of_an_rnr_wait_loses_what_was_sent_before_it() {
    let (mut stream, mut cold) = sender(5);
    let mut slow = slow_path();
    stream.on_ack(&mut cold, Time::ZERO, &ack(1)).unwrap();
    let record = stream.resend_until(&mut cold, psn(4));
    assert_eq!(tell(&mut stream, &mut cold, &mut slow, record), [lost(1, 3)], "4 was sent after the NAK");
    assert_eq!(stream.resend_until(&mut cold, psn(1)), None);
    assert_eq!(stream.resend_until(&mut cold, psn(0)), None);
}

/// The threshold that acknowledgements hand to the slow path.
fn threshold(stream: &mut TxStream, cold: &mut TxRecovery) -> u8 {
    let newest = stream.nxt().prev();
    let info = AckInfo { next: stream.una(), sack: Some(newest), ..ack(0) };
    match stream.on_ack(cold, Time::ZERO, &info).unwrap().record {
        Some(Record::Ack { threshold, .. }) => threshold,
        other => panic!("{other:?}"),
    }
}

#[test]
fn duplicates_after_a_resend_raise_the_threshold_and_windows_lower_it() {
    let (mut stream, mut cold) = sender(4);
    let duplicate = |stream: &TxStream| AckInfo { next: stream.una(), duplicate: true, ..ack(0) };
    assert_eq!(threshold(&mut stream, &mut cold), 0);
    stream.on_ack(&mut cold, Time::ZERO, &duplicate(&stream)).unwrap();
    assert_eq!(threshold(&mut stream, &mut cold), 0, "no resend of ours made this duplicate");
    for expected in [1, 3, 7, 15, 31, 31] {
        stream.take_retry(&mut cold, psn(0));
        stream.on_ack(&mut cold, Time::ZERO, &duplicate(&stream)).unwrap();
        stream.on_ack(&mut cold, Time::ZERO, &duplicate(&stream)).unwrap();
        assert_eq!(threshold(&mut stream, &mut cold), expected, "once for each resend");
    }
    let mut acked = 0;
    for expected in (0..31).rev() {
        // One window: everything outstanding at the last change is acknowledged.
        acked += stream.outstanding();
        stream.send_new(Time::ZERO);
        stream.on_ack(&mut cold, Time::ZERO, &ack(acked)).unwrap();
        assert_eq!(threshold(&mut stream, &mut cold), expected);
    }
    assert_eq!(threshold(&mut stream, &mut cold), 0);
}

#[test]
fn a_duplicate_is_our_doing_until_a_window_after_the_resend() {
    for (acked, expected) in [(1, 1), (4 + u32::from(CAP), 1), (5 + u32::from(CAP), 0)] {
        let (mut stream, mut cold) = sender(4);
        stream.take_retry(&mut cold, psn(0));
        for next in 1..=acked {
            stream.send_new(Time::ZERO);
            let sack = stream.nxt().prev();
            let info = AckInfo { sack: Some(sack), ..ack(next) };
            stream.on_ack(&mut cold, Time::ZERO, &info).unwrap();
        }
        let info = AckInfo { next: stream.una(), duplicate: true, ..ack(0) };
        stream.on_ack(&mut cold, Time::ZERO, &info).unwrap();
        assert_eq!(threshold(&mut stream, &mut cold), expected, "{acked} acknowledged");
    }
}

/// `packets` more packets are sent and acknowledged without trouble.
fn pass(stream: &mut TxStream, cold: &mut TxRecovery, packets: u32) {
    for first in (0..packets).step_by(1 << 20) {
        stream.send_span(Time::ZERO, (packets - first).min(1 << 20), true);
        let all = AckInfo { next: stream.nxt(), ..ack(0) };
        assert_eq!(stream.on_ack(cold, Time::ZERO, &all).unwrap().record, None);
    }
}

/// What is long after something else: the PSNs of half a wrap seem to come before it.
const LONG: [u32; 3] = [2 * CAP as u32, 1 << 23, (1 << 23) + 100];

#[test]
fn a_duplicate_long_after_a_resend_is_not_our_doing() {
    for packets in LONG {
        let (mut stream, mut cold) = sender(1);
        stream.take_retry(&mut cold, psn(0));
        pass(&mut stream, &mut cold, packets);
        stream.send_new(Time::ZERO);
        let copied = AckInfo { next: stream.una(), duplicate: true, ..ack(0) };
        stream.on_ack(&mut cold, Time::ZERO, &copied).unwrap();
        assert_eq!(threshold(&mut stream, &mut cold), 0, "{packets} packets later");
    }
}

#[test]
fn windows_without_trouble_lower_the_threshold_too() {
    for packets in LONG {
        let (mut stream, mut cold) = sender(4);
        for raised in [1, 3] {
            stream.take_retry(&mut cold, psn(0));
            let duplicate = AckInfo { duplicate: true, ..ack(0) };
            stream.on_ack(&mut cold, Time::ZERO, &duplicate).unwrap();
            assert_eq!(threshold(&mut stream, &mut cold), raised);
        }
        let Some(Record::Ack { seq, .. }) = stream.on_ack(&mut cold, Time::ZERO, &ack(4)).unwrap().record
        else {
            panic!("it recovers");
        };
        let clean = Command::Scoreboard { stream: STREAM, generation: LIFE, seq, sacked: 0, clean: true };
        stream.on_command(&mut cold, &clean);
        pass(&mut stream, &mut cold, packets);
        stream.send_new(Time::ZERO);
        assert_eq!(threshold(&mut stream, &mut cold), 0, "{packets} packets later");
    }
}

#[test]
fn a_verdict_that_does_not_know_the_newest_record_does_not_end_the_episode() {
    let (mut stream, mut cold) = sender(4);
    let seq_of = |record| match record {
        Some(Record::Ack { seq, .. }) => seq,
        other => panic!("{other:?}"),
    };
    let old = seq_of(stream.on_ack(&mut cold, Time::ZERO, &sack(0, 1)).unwrap().record);
    let new = seq_of(stream.on_ack(&mut cold, Time::ZERO, &sack(0, 2)).unwrap().record);
    assert_ne!(old, new);
    let clean = |seq| Command::Scoreboard { stream: STREAM, generation: LIFE, seq, sacked: 0, clean: true };
    stream.on_command(&mut cold, &clean(old));
    assert!(stream.recovering(), "the slow path has not seen the second SACK");
    stream.on_command(&mut cold, &clean(new));
    assert!(!stream.recovering());
}

#[test]
fn a_packet_that_arrived_after_all_is_not_sent_again() {
    // 0 is lost, 1 to 3 were overtaken by 4.
    let (mut stream, mut cold) = sender(5);
    let mut slow = slow_path();
    assert_eq!(apply(&mut stream, &mut cold, &mut slow, &sack(0, 4)), [lost(0, 3)]);
    apply(&mut stream, &mut cold, &mut slow, &sack(0, 1));
    assert_eq!((stream.retry_pending(), stream.pipe()), (3, 0));
    let bitmap = AckInfo { bitmap: 0b110, bitmap_base: psn(1), ..sack(0, 4) };
    apply(&mut stream, &mut cold, &mut slow, &bitmap);
    assert_eq!((stream.retry_pending(), stream.next_retry(&cold)), (1, Some(psn(0))));
    let resend = stream.take_retry(&mut cold, psn(0));
    tell(&mut stream, &mut cold, &mut slow, resend);
    assert_eq!((stream.pipe(), stream.next_retry(&cold)), (1, None));
    // Bits outside what is outstanding name other packets of the window.
    let hostile = AckInfo { bitmap: u64::MAX, bitmap_base: psn(5), ..sack(0, 4) };
    stream.on_command(&mut cold, &lost(0, 0));
    stream.on_ack(&mut cold, Time::ZERO, &hostile).unwrap();
    assert_eq!(stream.retry_pending(), 1);
}

#[test]
fn a_duplicate_after_a_probe_does_not_raise_the_threshold() {
    let (mut stream, mut cold) = sender(4);
    stream.probe(&mut cold, psn(3));
    stream.on_ack(&mut cold, Time::ZERO, &AckInfo { duplicate: true, ..ack(0) }).unwrap();
    assert_eq!(threshold(&mut stream, &mut cold), 0);
}

#[test]
fn the_answer_to_a_probe_does_not_raise_the_threshold_after_a_resend_either() {
    let meta = |offset| Meta { msn: Msn::new(7), offset };
    // A timeout sends two probes; of three, the first is forgotten.
    for (probed, echo, expected) in [
        (&[][..], Some(meta(3)), 1),
        (&[3], None, 1),
        (&[3], Some(meta(3)), 0),
        (&[3], Some(meta(2)), 1),
        (&[2, 3], Some(meta(2)), 0),
        (&[2, 3, 1], Some(meta(2)), 1),
    ] {
        let (mut stream, mut cold) = sender(4);
        stream.take_retry(&mut cold, psn(0));
        probed.iter().for_each(|offset| cold.note_probe(meta(*offset)));
        stream.on_ack(&mut cold, Time::ZERO, &AckInfo { duplicate: true, echo, ..ack(0) }).unwrap();
        assert_eq!(threshold(&mut stream, &mut cold), expected, "{probed:?} {echo:?}");
    }
}

#[test]
fn a_stream_that_was_abandoned_ignores_commands_of_its_former_life() {
    let (mut stream, mut cold) = sender(4);
    let mut slow = slow_path();
    apply(&mut stream, &mut cold, &mut slow, &sack(0, 2));
    assert_eq!((stream.recovering(), stream.retry_pending()), (true, 2));
    let close = stream.abandon(&mut cold);
    assert_eq!(close, Some(Record::TxClose { stream: STREAM, generation: LIFE }));
    assert_eq!((stream.outstanding(), stream.pipe(), stream.retry_pending()), (0, 0, 0));
    assert_eq!((stream.recovering(), cold.generation()), (false, LIFE + 1));
    assert_eq!(stream.next_retry(&cold), None);
    for _ in 0..4 {
        stream.send_new(Time::ZERO);
    }
    let before = format!("{stream:?} {cold:?}");
    let late = [
        lost(4, 7),
        Command::Scoreboard { stream: STREAM, generation: LIFE, seq: 0, sacked: 3, clean: false },
        Command::Scoreboard { stream: STREAM, generation: LIFE, seq: 0, sacked: 0, clean: true },
    ];
    for command in late {
        assert!(!stream.on_command(&mut cold, &command));
        assert_eq!(format!("{stream:?} {cold:?}"), before, "{command:?}");
    }
    assert_eq!(stream.abandon(&mut cold), None, "the slow path knows nothing of this life");
}

#[test]
fn losses_are_clipped_to_what_is_outstanding() {
    let (mut stream, mut cold) = sender(4);
    stream.on_ack(&mut cold, Time::ZERO, &ack(2)).unwrap();
    assert!(!stream.on_command(&mut cold, &lost(0, 1)), "acknowledged meanwhile");
    assert!(stream.on_command(&mut cold, &lost(0, 9)), "the first loss of an episode");
    assert!(!stream.on_command(&mut cold, &lost(2, 3)));
    assert_eq!((stream.retry_pending(), stream.next_retry(&cold)), (2, Some(psn(2))));
    stream.on_ack(&mut cold, Time::ZERO, &ack(4)).unwrap();
    assert_eq!((stream.retry_pending(), stream.next_retry(&cold)), (0, None), "acknowledged: not sent again");
}

/// Where something is always missing, the scoreboard is never clean; the controller must hear of
/// new losses all the same.
#[test]
fn what_turns_out_to_have_arrived_is_not_sent_again() {
    let (mut stream, mut cold) = sender(8);
    let mut slow = slow_path();
    // Two SACKs in one burst: the slow path hears of the second when it has declared 0 to 5 lost.
    let records = [(0, 6), (0, 3)].map(|(next, at)| {
        let effect = stream.on_ack(&mut cold, Time(100), &sack(next, at)).unwrap();
        effect.record
    });
    records.into_iter().for_each(|record| {
        tell(&mut stream, &mut cold, &mut slow, record);
    });
    assert_eq!(stream.retry_pending(), 5);
    let mut resent = Vec::new();
    while let Some(at) = stream.next_retry(&cold) {
        resent.push(at.steps_from(psn(0)));
        stream.take_retry(&mut cold, at);
    }
    assert_eq!(resent, [0, 1, 2, 4, 5]);
    // One that comes later than the packets that it speaks of are acknowledged takes nothing else
    // out.
    let found =
        |first, last| Command::Found { stream: STREAM, generation: LIFE, first: psn(first), last: psn(last) };
    stream.on_ack(&mut cold, Time(100), &ack(4)).unwrap();
    stream.on_command(&mut cold, &lost(4, 5));
    stream.on_command(&mut cold, &found(0, 3));
    assert_eq!(stream.retry_pending(), 2);
    stream.on_command(&mut cold, &found(0, 4));
    assert_eq!(stream.retry_pending(), 1);
}

#[test]
fn a_loss_of_what_was_sent_since_is_another_episode() {
    let (mut stream, mut cold) = sender(4);
    assert!(stream.on_command(&mut cold, &lost(0, 0)));
    for _ in 0..4 {
        stream.send_new(Time::ZERO);
    }
    assert!(!stream.on_command(&mut cold, &lost(2, 3)), "sent before the first loss was known");
    assert!(stream.on_command(&mut cold, &lost(6, 6)), "though the first hole is still open");
    assert!(!stream.on_command(&mut cold, &lost(7, 7)));
}

#[test]
fn one_packet_at_a_time_is_timed_and_a_resend_voids_it() {
    let (mut stream, mut cold) = sender(3);
    let rtt = |stream: &mut TxStream, cold: &mut TxRecovery, next| {
        stream.on_ack(cold, Time(50), &ack(next)).unwrap().rtt_sent
    };
    assert_eq!(rtt(&mut stream, &mut cold, 1), Some(Time(0)));
    assert_eq!(rtt(&mut stream, &mut cold, 3), None, "1 and 2 were not timed");
    stream.send_new(Time(70));
    stream.send_new(Time(80));
    stream.probe(&mut cold, psn(3));
    assert_eq!(rtt(&mut stream, &mut cold, 5), None, "which of the two was acknowledged?");
    stream.send_new(Time(90));
    assert_eq!(rtt(&mut stream, &mut cold, 6), Some(Time(90)));
}

/// Packet 0 was sent twice, so packet 1, sent at 20, is the one that is timed.
fn sender_with_a_hole() -> (TxStream, TxRecovery) {
    let (mut stream, mut cold) = sender(1);
    stream.probe(&mut cold, psn(0));
    stream.send_new(Time(20));
    (stream, cold)
}

#[test]
fn what_waited_for_a_repair_gives_no_round_trip() {
    let (mut stream, mut cold) = sender_with_a_hole();
    stream.probe(&mut cold, psn(0));
    let effect = stream.on_ack(&mut cold, Time(1_000_000), &ack(2)).unwrap();
    assert_eq!(effect.rtt_sent, None, "1 may have arrived long ago");
    stream.send_new(Time(1_000_010));
    let effect = stream.on_ack(&mut cold, Time(1_000_020), &ack(3)).unwrap();
    assert_eq!(effect.rtt_sent, Some(Time(1_000_010)));
}

#[test]
fn the_wait_for_a_probe_is_no_part_of_the_round_trip() {
    let (mut stream, mut cold) = sender(3);
    stream.probe(&mut cold, psn(2));
    stream.restart_rtt(Time(30_000));
    let effect = stream.on_ack(&mut cold, Time(32_000), &ack(3)).unwrap();
    assert_eq!(effect.rtt_sent, Some(Time(30_000)));
}

#[test]
fn a_round_trip_ends_with_the_packets_own_sack() {
    let (mut stream, mut cold) = sender_with_a_hole();
    let effect = stream.on_ack(&mut cold, Time(50), &sack(0, 1)).unwrap();
    assert_eq!(effect.rtt_sent, Some(Time(20)));
    let effect = stream.on_ack(&mut cold, Time(1_000_000), &ack(2)).unwrap();
    assert_eq!(effect.rtt_sent, None, "it has ended");
}

#[test]
fn progress_is_noted_when_una_moves_or_the_stream_becomes_busy() {
    let (mut stream, mut cold) = sender(2);
    assert_eq!(stream.progress_at(), Time(0), "the second packet is no progress");
    stream.on_ack(&mut cold, Time(40), &ack(0)).unwrap();
    assert_eq!(stream.progress_at(), Time(0), "nor an acknowledgement of nothing");
    stream.on_ack(&mut cold, Time(50), &ack(2)).unwrap();
    assert_eq!(stream.progress_at(), Time(50));
    stream.send_new(Time(70));
    assert_eq!(stream.progress_at(), Time(70));
}
