//! Losses: one chosen packet, the tail, bursts, and random loss, under both recovery policies.

use datapath::qp::attr::RecoveryPolicy::{self, GoBackN, SelectiveRepeat};
use simnet::filter::{drop_numbers, drop_psn};
use simnet::{
    Faults, FrameKind, LinkId, Message, Op, Passing, Qp, QpOptions, Rig, RigOptions, Rng, Transfer,
};
use wire::{Pmtu, Position, Psn};

const LIMIT_NS: u64 = 1_000_000_000;
const PSN: u32 = 0xFF_FFF8;

fn pair(seed: u64, recovery: RecoveryPolicy) -> (Rig, Qp, Qp) {
    let options = QpOptions { pmtu: Pmtu::B256, sq_psn: PSN, window: 32, recovery, ..QpOptions::default() };
    Rig::pair(RigOptions::seeded(seed), options)
}

/// Eight messages of one to six packets, of every kind: 24 packets.
fn short_messages() -> Vec<Message> {
    let lengths = [1000, 100, 1500, 256, 600, 0, 1500, 64];
    let ops = [Op::Write, Op::Send, Op::SendImm, Op::Write, Op::WriteImm, Op::Write, Op::Send, Op::WriteImm];
    ops.into_iter().zip(lengths).map(|(op, len)| Message::new(op, len)).collect()
}

/// Of a path MTU that is no power of two as well (protocol.md 2.3).
#[test]
fn random_losses_at_each_path_mtu() {
    for pmtu in Pmtu::ALL {
        let options = QpOptions { pmtu, sq_psn: PSN, ..QpOptions::default() };
        let (mut rig, a, b) = Rig::pair(RigOptions::seeded(9), options);
        for end in [a, b] {
            rig.net.set_faults(rig.up(end), Faults::loss(20_000));
        }
        let messages = Message::mix_of(&Op::WITH_RESPONSES, &mut Rng::new(3), 200, 70_000);
        let mut transfers = [
            Transfer::new(&mut rig, a, b, messages.clone(), 1),
            Transfer::new(&mut rig, b, a, messages, 5000),
        ];
        Transfer::run_all(&mut transfers, &mut rig, LIMIT_NS).unwrap();
        assert_ne!(rig.counters(a).tx_retransmits, 0, "{pmtu:?}: some were lost");
    }
}

const SHORT_PACKETS: u32 = 4 + 1 + 6 + 1 + 3 + 1 + 6 + 1;

#[test]
fn each_packet_lost_once_and_again_when_it_is_resent() {
    for recovery in [SelectiveRepeat, GoBackN] {
        for number in 0..SHORT_PACKETS {
            for times in 1..=3 {
                let (mut rig, a, b) = pair(1, recovery);
                let (link, filter) = (rig.up(a), drop_psn(Psn::new(PSN).add(number), times));
                let what = format!("{recovery:?}, packet {number}, {times} times");
                let transfer = Transfer::new(&mut rig, a, b, short_messages(), 1);
                assert_eq!(transfer.survives(&mut rig, link, filter, &what), u64::from(times), "{what}");
            }
        }
    }
}

/// Drops the `number`th frame that `matches` accepts on the way to or from `a`, and says whether
/// there was one.
fn survives(
    recovery: RecoveryPolicy,
    what: &str,
    from_requester: bool,
    number: u64,
    provoke: bool,
    matches: impl FnMut(&Passing<'_>) -> bool + 'static,
) -> bool {
    let (mut rig, a, b) = pair(2, recovery);
    let link = if from_requester { rig.up(a) } else { rig.up(b) };
    if provoke {
        // Something must be missing before there are NACKs and retransmissions: on the other half
        // of the path.
        let holes: Vec<u64> = vec![2, 9, 10, 28, 40, 52];
        let data = |passing: &Passing<'_>| passing.kind() == FrameKind::Data;
        rig.net.set_filter(LinkId::Down(b.node()), drop_numbers(holes, data));
    }
    let what = format!("{recovery:?}, {what} number {number}");
    let transfer = Transfer::new(&mut rig, a, b, short_messages(), 1);
    transfer.survives(&mut rig, link, drop_numbers([number], matches), &what) == 1
}

#[test]
fn the_kth_packet_of_each_type_is_lost() {
    for recovery in [SelectiveRepeat, GoBackN] {
        for position in [Position::First, Position::Middle, Position::Last, Position::Only] {
            let lost = (0..8).filter(|&number| {
                survives(recovery, &format!("{position:?}"), true, number, false, move |passing| {
                    passing.packet.is_some_and(|packet| packet.opcode().position() == position)
                })
            });
            assert!(lost.count() >= 4, "{position:?} packets were there to lose");
        }
        for kind in [FrameKind::Ack, FrameKind::Nack] {
            let lost = (0..8).filter(|&number| {
                survives(recovery, &format!("{kind:?}"), false, number, true, move |passing| {
                    passing.kind() == kind
                })
            });
            assert!(lost.count() >= 2, "{recovery:?}: {kind:?} packets were there to lose");
        }
        let lost = (0..6).filter(|&number| {
            let mut highest = Psn::new(PSN).prev();
            survives(recovery, "retransmission", true, number, true, move |passing| {
                let Some(psn) = passing.data_psn() else { return false };
                let again = !highest.is_before(psn);
                highest = if again { highest } else { psn };
                again
            })
        });
        assert!(lost.count() >= 3, "{recovery:?}: retransmissions were there to lose");
    }
}

#[test]
fn every_ack_lost_for_a_while() {
    for recovery in [SelectiveRepeat, GoBackN] {
        let (mut rig, a, b) = pair(3, recovery);
        rig.net.set_filter(rig.up(b), drop_numbers(0..30, |_| true));
        let mut transfer = Transfer::new(&mut rig, a, b, short_messages(), 1);
        transfer.run(&mut rig, LIMIT_NS).unwrap();
    }
}

#[test]
fn a_lost_tail_is_probed_long_before_the_timeout() {
    for lost in 1..=3 {
        let (mut rig, a, b) = pair(4, SelectiveRepeat);
        // A first message gives the stream a round-trip time.
        Transfer::new(&mut rig, a, b, vec![Message::new(Op::Write, 100)], 1).run(&mut rig, LIMIT_NS).unwrap();
        let data = |passing: &Passing<'_>| passing.kind() == FrameKind::Data;
        rig.net.set_filter(rig.up(a), drop_numbers(8 - lost..8, data));
        let mut transfer = Transfer::new(&mut rig, a, b, vec![Message::new(Op::Send, 8 * 256)], 5);
        let took = transfer.run(&mut rig, LIMIT_NS).unwrap();
        assert!(took < 95_000, "{lost} packets lost at the end took {took} ns; the RTO's floor is 100 us");
        assert_eq!(rig.counters(a).rto_fired, 0);
        assert!(rig.counters(a).tail_probes > 0);
    }
}

#[test]
fn bursts_of_losses() {
    for (seed, recovery) in (0..6).flat_map(|seed| [(seed, SelectiveRepeat), (seed, GoBackN)]) {
        let (mut rig, a, b) = pair(seed, recovery);
        let faults = Faults { burst_ppm: 10_000, burst_frames_max: 12, ..Faults::default() };
        rig.net.set_faults(rig.up(a), faults);
        rig.net.set_faults(rig.up(b), faults);
        let messages = Message::mix(&mut Rng::new(seed), 120, 6000);
        Transfer::new(&mut rig, a, b, messages, 1).run(&mut rig, LIMIT_NS).unwrap();
        assert!(rig.net.stats(rig.up(a)).burst_lost > 0);
    }
}

#[test]
fn random_loss_on_both_directions() {
    for (round, ppm) in [(0, 100), (1, 1000), (2, 10_000), (3, 30_000), (4, 100_000)] {
        for recovery in [SelectiveRepeat, GoBackN] {
            for seed in 0..3 {
                let (mut rig, a, b) = pair(100 * round + seed, recovery);
                rig.net.set_faults(rig.up(a), Faults::loss(ppm));
                rig.net.set_faults(rig.up(b), Faults::loss(ppm));
                let messages = Message::mix(&mut Rng::new(seed), 80, 12_000);
                let mut transfers = [
                    Transfer::new(&mut rig, a, b, messages.clone(), 1),
                    Transfer::new(&mut rig, b, a, messages, 1000),
                ];
                let outcome = Transfer::run_all(&mut transfers, &mut rig, LIMIT_NS);
                outcome.unwrap_or_else(|stuck| panic!("{recovery:?} {ppm} ppm seed {seed}: {stuck:?}"));
            }
        }
    }
}

#[test]
fn selective_repeat_resends_what_is_lost_and_little_else() {
    let mut options = QpOptions { window: 256, ..QpOptions::default() };
    options.caps.max_send_wr = 64;
    let (mut rig, a, b) = Rig::pair(RigOptions::seeded(5), options);
    rig.net.set_faults(rig.up(a), Faults::loss(10_000));
    let messages = vec![Message::new(Op::Write, 64 * 1024); 60];
    Transfer::new(&mut rig, a, b, messages, 1).run(&mut rig, LIMIT_NS).unwrap();
    let lost = rig.net.stats(rig.up(a)).data_lost();
    let counters = rig.counters(a);
    let resent = counters.tx_retransmits - counters.tx_probes;
    assert!(lost > 20, "{lost} were lost");
    assert!(resent <= lost, "{resent} resent beside probes, {lost} lost: with a clean ACK path never more");
    assert!(
        counters.tx_probes * 10 <= lost * 3,
        "{} probes for {lost} lost packets: they are for the tail",
        counters.tx_probes
    );
}

#[test]
fn go_back_n_resends_much_more() {
    let run = |recovery| {
        let options = QpOptions { window: 128, recovery, ..QpOptions::default() };
        let (mut rig, a, b) = Rig::pair(RigOptions::seeded(6), options);
        rig.net.set_faults(rig.up(a), Faults::loss(10_000));
        let messages = vec![Message::new(Op::Write, 64 * 1024); 20];
        let took = Transfer::new(&mut rig, a, b, messages, 1).run(&mut rig, LIMIT_NS).unwrap();
        (took, rig.counters(a).tx_retransmits)
    };
    let (fast, few) = run(SelectiveRepeat);
    let (slow, many) = run(GoBackN);
    assert!(many > 4 * few, "go-back-N resent {many}, selective repeat {few}");
    assert!(slow > fast, "go-back-N took {slow} ns, selective repeat {fast} ns");
}

#[test]
fn ends_of_two_minds_still_understand_each_other() {
    for (mine, theirs) in [(SelectiveRepeat, GoBackN), (GoBackN, SelectiveRepeat)] {
        for seed in 0..3 {
            let mut rig = Rig::new(RigOptions::seeded(seed));
            let (left, right) = (rig.add_node(), rig.add_node());
            let options = QpOptions { pmtu: Pmtu::B256, window: 32, ..QpOptions::default() };
            let a = rig.create_qp(left, QpOptions { recovery: mine, ..options });
            let b = rig.create_qp(right, QpOptions { recovery: theirs, ..options });
            rig.connect(a, b);
            rig.net.set_faults(rig.up(a), Faults::loss(20_000));
            rig.net.set_faults(rig.up(b), Faults::loss(20_000));
            let messages = Message::mix(&mut Rng::new(seed), 60, 8000);
            let outcome = Transfer::new(&mut rig, a, b, messages, 1).run(&mut rig, LIMIT_NS);
            outcome.unwrap_or_else(|stuck| panic!("{mine:?} to {theirs:?}, seed {seed}: {stuck:?}"));
        }
    }
}
