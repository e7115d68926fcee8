//! READs and atomics on a network that loses, reorders, duplicates and corrupts.

use datapath::qp::attr::RecoveryPolicy::{self, GoBackN, SelectiveRepeat};
use simnet::filter::drop_numbers;
use simnet::{
    Faults, FrameKind, LinkId, Message, Op, Passing, Qp, QpOptions, Rig, RigOptions, Rng, Transfer, Verdict,
};
use wire::{AckFlags, Kind, Pmtu, Psn};

const LIMIT_NS: u64 = 2_000_000_000;
const PSN: u32 = 0xFF_FFF0;

fn pair(seed: u64, recovery: RecoveryPolicy) -> (Rig, Qp, Qp) {
    let options = QpOptions { pmtu: Pmtu::B256, sq_psn: PSN, window: 32, recovery, ..QpOptions::default() };
    Rig::pair(RigOptions::seeded(seed), options)
}

/// READs of one to six packets, atomics, and WRITEs between them.
fn short_messages() -> Vec<Message> {
    let lengths = [1000, 0, 100, 1500, 256, 0, 600, 0, 1500, 64];
    let ops = [
        Op::Read,
        Op::Atomic,
        Op::Write,
        Op::Read,
        Op::Read,
        Op::Atomic,
        Op::Send,
        Op::Read,
        Op::Read,
        Op::WriteImm,
    ];
    ops.into_iter().zip(lengths).map(|(op, len)| Message::new(op, len)).collect()
}

/// Data packets of a kind that were sent before.
fn sent_again(kinds: &'static [Kind]) -> impl FnMut(&Passing<'_>) -> bool {
    let mut highest: Option<Psn> = None;
    move |passing| {
        let Some(packet) = passing.packet.filter(|packet| kinds.contains(&packet.opcode().kind())) else {
            return false;
        };
        let again = highest.is_some_and(|highest| !highest.is_before(packet.psn()));
        highest = if again { highest } else { Some(packet.psn()) };
        again
    }
}

/// Drops the `number`th frame that `matches` accepts on its way up from one end, and says whether
/// there was one. With `provoke`, other responses and requests are lost as well, behind the switch.
fn survives(
    (recovery, what): (RecoveryPolicy, &str),
    from_requester: bool,
    number: u64,
    provoke: bool,
    matches: impl FnMut(&Passing<'_>) -> bool + 'static,
) -> bool {
    let (mut rig, a, b) = pair(2, recovery);
    let link = if from_requester { rig.up(a) } else { rig.up(b) };
    if provoke {
        let data = |passing: &Passing<'_>| passing.kind() == FrameKind::Data;
        rig.net.set_filter(LinkId::Down(a.node()), drop_numbers([1, 2, 7, 15, 22, 23], data));
        rig.net.set_filter(LinkId::Down(b.node()), drop_numbers([2, 6, 9], data));
    }
    let what = format!("{recovery:?}, {what} number {number}");
    let transfer = Transfer::new(&mut rig, a, b, short_messages(), 1);
    transfer.survives(&mut rig, link, drop_numbers([number], matches), &what) == 1
}

#[test]
fn the_kth_packet_of_each_type_is_lost() {
    let of_kind = |kind: Kind| {
        move |passing: &Passing<'_>| passing.packet.is_some_and(|packet| packet.opcode().kind() == kind)
    };
    for recovery in [SelectiveRepeat, GoBackN] {
        for (kind, from_requester, least) in [
            (Kind::ReadRequest, true, 5),
            (Kind::Atomic, true, 2),
            (Kind::ReadResponse, false, 8),
            (Kind::AtomicAck, false, 2),
        ] {
            let what = format!("{kind:?}");
            let lost = (0..20)
                .filter(|&number| survives((recovery, &what), from_requester, number, false, of_kind(kind)));
            assert!(lost.count() >= least, "{recovery:?}: {what} packets were there to lose");
        }
        for (what, nack, least) in [("READ-ACK", false, 1), ("READ-NACK", true, 2)] {
            let matches = move |passing: &Passing<'_>| {
                passing.is_read_ack() && (passing.kind() == FrameKind::Nack) == nack
            };
            let lost = (0..8).filter(|&number| survives((recovery, what), true, number, nack, matches));
            assert!(lost.count() >= least, "{recovery:?}: {what}s were there to lose");
        }
        let responses = &[Kind::ReadResponse, Kind::AtomicAck];
        let lost = (0..6).filter(|&number| {
            survives((recovery, "response again"), false, number, true, sent_again(responses))
        });
        assert!(lost.count() >= 3, "{recovery:?}: responses sent again were there to lose");
        let requests = &[Kind::ReadRequest, Kind::Atomic, Kind::Write, Kind::Send];
        let lost = (0..6).filter(|&number| {
            survives((recovery, "request again"), true, number, true, sent_again(requests))
        });
        assert!(lost.count() >= 1, "{recovery:?}: requests sent again were there to lose");
    }
}

#[test]
fn a_gap_in_responses_is_reported_once_where_everything_goes_again() {
    let (mut rig, a, b) = pair(4, GoBackN);
    let response = |passing: &Passing<'_>| {
        passing.packet.is_some_and(|packet| packet.opcode().kind() == Kind::ReadResponse)
    };
    let (transfer, link) = (Transfer::new(&mut rig, a, b, vec![Message::new(Op::Read, 4000)], 1), rig.up(b));
    assert_eq!(transfer.survives(&mut rig, link, drop_numbers([3], response), "a response"), 1);
    let counters = rig.counters(a);
    assert!(counters.drop_go_back_n > 1, "{}", counters.drop_go_back_n);
    assert_eq!(counters.tx_nacks, 1, "what fills the gap is followed by all that lay behind it");
}

#[test]
fn every_read_ack_lost_for_a_while() {
    for recovery in [SelectiveRepeat, GoBackN] {
        let (mut rig, a, b) = pair(3, recovery);
        rig.net.set_filter(rig.up(a), drop_numbers(0..6, |passing: &Passing<'_>| passing.is_read_ack()));
        Transfer::new(&mut rig, a, b, short_messages(), 1).run(&mut rig, LIMIT_NS).unwrap();
        // The requester has everything by now; the responder asks until it knows.
        rig.run_until_quiet(LIMIT_NS).expect("it stops asking");
        assert_eq!(rig.net.stats(rig.up(a)).filtered, 6);
    }
}

#[test]
fn a_lost_single_response_is_probed_long_before_the_timeout() {
    for op in [Op::Read, Op::Atomic] {
        let (mut rig, a, b) = pair(4, SelectiveRepeat);
        // A first one gives the response stream a round-trip time.
        Transfer::new(&mut rig, a, b, vec![Message::new(op, 100)], 1).run(&mut rig, LIMIT_NS).unwrap();
        let data = |passing: &Passing<'_>| passing.kind() == FrameKind::Data;
        rig.net.set_filter(rig.up(b), drop_numbers([0], data));
        let took =
            Transfer::new(&mut rig, a, b, vec![Message::new(op, 100)], 5).run(&mut rig, LIMIT_NS).unwrap();
        assert!(took < 95_000, "{op:?}: {took} ns; the RTO's floor is 100 us");
        assert_eq!(rig.counters(b).rto_fired, 0);
        assert!(rig.counters(b).tail_probes > 0);
    }
}

#[test]
fn lost_read_acks_do_not_slow_the_probes_down() {
    let (mut rig, a, b) = pair(6, SelectiveRepeat);
    // Only those that answer a probe arrive.
    let unasked = |passing: &Passing<'_>| {
        let ackx = passing.packet.and_then(|packet| packet.ackx());
        passing.is_read_ack() && ackx.is_some_and(|ackx| !ackx.flags.contains(AckFlags::DUPLICATE))
    };
    rig.net.set_filter(
        rig.up(a),
        Box::new(move |passing| if unasked(passing) { Verdict::Drop } else { Verdict::Pass }),
    );
    let waits: Vec<u64> = (0..20)
        .map(|_| {
            let begun = rig.now();
            // The round trip is that of the first response packet, the probe is the second.
            Transfer::new(&mut rig, a, b, vec![Message::new(Op::Read, 512)], 1)
                .run(&mut rig, LIMIT_NS)
                .unwrap();
            rig.run_until_quiet(LIMIT_NS).expect("a probe is answered");
            rig.now().since(begun)
        })
        .collect();
    let (first, last) = (waits[1], waits[19]);
    assert!(last <= first + first / 2, "waits grow: {waits:?} ns");
    assert_eq!(rig.counters(b).rto_fired, 0);
}

fn mixed(seed: u64, recovery: RecoveryPolicy, faults: Faults, what: &str) {
    let (mut rig, a, b) = pair(seed, recovery);
    rig.net.set_faults(rig.up(a), faults);
    rig.net.set_faults(rig.up(b), faults);
    let mut rng = Rng::new(seed);
    let mut mix = || Message::mix_of(&Op::WITH_RESPONSES, &mut rng, 80, 12_000);
    let (there, back) = (mix(), mix());
    let mut transfers = [Transfer::new(&mut rig, a, b, there, 1), Transfer::new(&mut rig, b, a, back, 1000)];
    let outcome = Transfer::run_all(&mut transfers, &mut rig, LIMIT_NS);
    outcome.unwrap_or_else(|stuck| panic!("{recovery:?} {what} seed {seed}: {stuck:?}"));
}

#[test]
fn random_loss_on_both_directions() {
    for (round, ppm) in [(0, 100), (1, 1000), (2, 10_000), (3, 30_000), (4, 100_000)] {
        for recovery in [SelectiveRepeat, GoBackN] {
            for seed in 0..4 {
                mixed(100 * round + seed, recovery, Faults::loss(ppm), &format!("{ppm} ppm lost"));
            }
        }
    }
}

#[test]
fn reordering_duplicates_corruption_and_bursts() {
    let cases = [
        ("reordered", Faults { reorder_ppm: 100_000, reorder_ns_max: 5000, ..Faults::default() }),
        ("duplicated", Faults { duplicate_ppm: 200_000, ..Faults::default() }),
        ("corrupted", Faults { corrupt_ppm: 30_000, ..Faults::default() }),
        ("bursts", Faults { burst_ppm: 10_000, burst_frames_max: 12, ..Faults::default() }),
        (
            "everything",
            Faults {
                reorder_ppm: 50_000,
                reorder_ns_max: 20_000,
                duplicate_ppm: 50_000,
                corrupt_ppm: 10_000,
                ..Faults::loss(20_000)
            },
        ),
    ];
    for (what, faults) in cases {
        for recovery in [SelectiveRepeat, GoBackN] {
            for seed in 0..4 {
                mixed(seed, recovery, faults, what);
            }
        }
    }
}

#[test]
fn a_read_of_more_packets_than_an_offset_can_number() {
    let options = QpOptions { pmtu: Pmtu::B256, window: 256, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::seeded(2), options);
    rig.net.set_faults(rig.up(b), Faults::loss(1000));
    let messages = vec![Message::new(Op::Read, 66_000 * 256 + 1), Message::new(Op::Read, 1000)];
    Transfer::new(&mut rig, a, b, messages, 1).run(&mut rig, LIMIT_NS).unwrap();
}

#[test]
fn selective_repeat_resends_responses_that_are_lost_and_little_else() {
    let mut options = QpOptions { window: 256, ..QpOptions::default() };
    options.caps.max_send_wr = 64;
    let (mut rig, a, b) = Rig::pair(RigOptions::seeded(5), options);
    rig.net.set_faults(rig.up(b), Faults::loss(10_000));
    let messages = vec![Message::new(Op::Read, 64 * 1024); 60];
    Transfer::new(&mut rig, a, b, messages, 1).run(&mut rig, LIMIT_NS).unwrap();
    let lost = rig.net.stats(rig.up(b)).data_lost();
    let counters = rig.counters(b);
    let resent = counters.tx_retransmits - counters.tx_probes;
    assert!(lost > 20, "{lost} were lost");
    assert!(resent <= lost, "{resent} resent beside probes, {lost} lost: with a clean ACK path never more");
}
