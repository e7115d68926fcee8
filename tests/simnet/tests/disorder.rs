//! Reordering, duplication, corruption, truncation, delay: and small WRITEs whose order can be
//! seen.

use datapath::qp::attr::RecoveryPolicy::{self, GoBackN, SelectiveRepeat};
use simnet::filter::Verdict;
use simnet::{Faults, FrameKind, Message, Op, Qp, QpOptions, Rig, RigOptions, Rng, Transfer, Work};
use std::cell::RefCell;
use std::rc::Rc;
use wire::{AckFlags, Meta, Msn, Pmtu};

const LIMIT_NS: u64 = 2_000_000_000;

fn pair(seed: u64, recovery: RecoveryPolicy) -> (Rig, Qp, Qp) {
    let options =
        QpOptions { pmtu: Pmtu::B256, sq_psn: 0xFF_FF80, window: 64, recovery, ..QpOptions::default() };
    Rig::pair(RigOptions::seeded(seed), options)
}

/// Both directions at once under the same faults on both links.
fn survive(faults: Faults, seed: u64, recovery: RecoveryPolicy) -> (Rig, Qp, Qp) {
    let (mut rig, a, b) = pair(seed, recovery);
    rig.net.set_faults(rig.up(a), faults);
    rig.net.set_faults(rig.up(b), faults);
    let messages = Message::mix(&mut Rng::new(seed), 100, 10_000);
    let mut transfers =
        [Transfer::new(&mut rig, a, b, messages.clone(), 1), Transfer::new(&mut rig, b, a, messages, 1000)];
    let outcome = Transfer::run_all(&mut transfers, &mut rig, LIMIT_NS);
    outcome.unwrap_or_else(|stuck| panic!("{recovery:?} seed {seed} {faults:?}: {stuck:?}"));
    (rig, a, b)
}

#[test]
fn reordering_loses_nothing() {
    for seed in 0..6 {
        for recovery in [SelectiveRepeat, GoBackN] {
            let (rig, a, _) = survive(Faults::reordering(100_000, 10_000), seed, recovery);
            assert!(rig.net.stats(rig.up(a)).reordered > 20);
        }
    }
}

#[test]
fn the_threshold_learns_that_late_is_not_lost() {
    let options = QpOptions { window: 128, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::seeded(4), options);
    // One packet in twenty is overtaken by about ten.
    rig.net.set_faults(rig.up(a), Faults::reordering(50_000, 2000));
    let messages = vec![Message::new(Op::Write, 64 * 1024); 60];
    Transfer::new(&mut rig, a, b, messages, 1).run(&mut rig, LIMIT_NS).unwrap();
    let late = rig.net.stats(rig.up(a)).reordered;
    let resent = rig.counters(a).tx_retransmits;
    println!("{late} late, {resent} resent");
    assert!(resent * 4 < late, "{resent} packets resent although none was lost, {late} came late");
}

#[test]
fn heavy_reordering() {
    for seed in 0..6 {
        survive(Faults::reordering(1_000_000, 50_000), seed, SelectiveRepeat);
    }
}

#[test]
fn duplicates_are_executed_once() {
    for seed in 0..6 {
        let faults = Faults { duplicate_ppm: 300_000, reorder_ns_max: 30_000, ..Faults::default() };
        for recovery in [SelectiveRepeat, GoBackN] {
            let (rig, a, b) = survive(faults, seed, recovery);
            assert!(rig.net.stats(rig.up(a)).duplicated > 20);
            assert!(rig.counters(b).rx_duplicates > 0);
        }
    }
}

#[test]
fn corruption_and_truncation_are_losses() {
    for seed in 0..6 {
        let faults = Faults { corrupt_ppm: 30_000, truncate_ppm: 30_000, ..Faults::default() };
        for recovery in [SelectiveRepeat, GoBackN] {
            let (rig, a, b) = survive(faults, seed, recovery);
            assert!(rig.net.stats(rig.up(a)).corrupted > 5 && rig.net.stats(rig.up(a)).truncated > 5);
            let counters = rig.counters(b);
            assert!(counters.drop_icrc > 0, "a flipped bit is found by the ICRC");
            assert!(
                counters.drop_encapsulation + counters.drop_malformed > 0,
                "a short frame by its lengths"
            );
        }
    }
}

#[test]
fn everything_at_once() {
    let faults = Faults {
        loss_ppm: 20_000,
        burst_ppm: 1000,
        burst_frames_max: 10,
        duplicate_ppm: 30_000,
        reorder_ppm: 100_000,
        reorder_ns_max: 40_000,
        corrupt_ppm: 5000,
        truncate_ppm: 5000,
        jitter_ns_max: 2000,
        black_hole: false,
    };
    for seed in 0..12 {
        survive(faults, seed, SelectiveRepeat);
        survive(faults, seed, GoBackN);
    }
}

#[test]
fn a_packet_overtaken_by_a_whole_window_is_placed_when_it_comes() {
    let (mut rig, a, b) = pair(1, SelectiveRepeat);
    let mut number = 0;
    rig.net.set_filter(
        rig.up(a),
        Box::new(move |passing| {
            number += u32::from(passing.kind() == FrameKind::Data);
            if number == 3 { Verdict::Delay(25_000) } else { Verdict::Pass }
        }),
    );
    let messages = Message::mix(&mut Rng::new(1), 40, 2000);
    Transfer::new(&mut rig, a, b, messages, 1).run(&mut rig, LIMIT_NS).unwrap();
    assert!(rig.counters(b).rx_out_of_order > 10);
    assert_eq!(rig.counters(a).rto_fired, 0);
}

/// `count` WRITEs of `len` bytes to one address, posted at once; the value must only ever rise, and
/// end as the last.
fn counters_only_rise(seed: u64, faults: Faults, len: usize, with_imm: bool) -> u64 {
    const COUNT: u64 = 100;
    let (mut rig, a, b) = pair(seed, SelectiveRepeat);
    rig.net.set_faults(rig.up(a), faults);
    rig.net.set_faults(rig.up(b), faults);
    let target = rig.region(b.node(), len);
    for value in 1..=COUNT {
        let mut bytes = vec![0; len];
        bytes[..8].copy_from_slice(&value.to_le_bytes());
        let mut work = Work::write_inline(&bytes, target.all());
        if with_imm {
            rig.try_post_recv(b, &[]).unwrap();
            work = work.imm(7);
        }
        rig.post(a, &work);
    }
    let mut highest = 0;
    let outcome = rig.run_until(
        |rig| {
            let bytes = rig.bytes(target.at(0, 8));
            let value = u64::from_le_bytes(bytes.try_into().unwrap());
            assert!(value >= highest, "seed {seed}: {value} after {highest}");
            highest = value;
            let done = rig.sends(a).len() as u64;
            assert!(value >= done, "seed {seed}: {done} WRITEs completed, but the value is {value}");
            if with_imm {
                let told = rig.recvs(b).len() as u64;
                assert!(value >= told, "seed {seed}: {told} receives completed, but the value is {value}");
            }
            done == COUNT
        },
        LIMIT_NS,
    );
    outcome.unwrap_or_else(|stuck| panic!("seed {seed}: {stuck:?}"));
    assert_eq!(highest, COUNT, "seed {seed}: the last value stands");
    rig.counters(b).parked_writes
}

#[test]
fn a_hundred_small_writes_to_one_address_end_with_the_last_value() {
    let lossy = Faults { loss_ppm: 20_000, ..Faults::default() };
    let shuffled = Faults::reordering(200_000, 20_000);
    let both = Faults { loss_ppm: 50_000, duplicate_ppm: 50_000, ..shuffled };
    for faults in [lossy, shuffled, both] {
        for len in [8, 64] {
            for with_imm in [false, true] {
                let parked: u64 = (0..60).map(|seed| counters_only_rise(seed, faults, len, with_imm)).sum();
                assert!(parked > 100, "{parked} WRITEs were parked: {faults:?}");
            }
        }
    }
}

#[test]
fn the_answer_to_a_duplicate_echoes_the_duplicate() {
    let (mut rig, a, b) = pair(1, SelectiveRepeat);
    // The fourth of sixteen packets comes twice, and those behind it in the same burst.
    let (mut number, echoes) = (0, Rc::new(RefCell::new(Vec::new())));
    rig.net.set_filter(
        rig.up(a),
        Box::new(move |passing| {
            number += u64::from(passing.kind() == FrameKind::Data);
            if number == 4 && passing.kind() == FrameKind::Data { Verdict::Duplicate } else { Verdict::Pass }
        }),
    );
    let seen = Rc::clone(&echoes);
    rig.net.set_filter(
        rig.up(b),
        Box::new(move |passing| {
            let ack = passing
                .packet
                .filter(|packet| packet.ackx().is_some_and(|ackx| ackx.flags.contains(AckFlags::DUPLICATE)));
            seen.borrow_mut().extend(ack.and_then(|ack| ack.meta()));
            Verdict::Pass
        }),
    );
    let messages = vec![Message::new(Op::Write, 16 * 256)];
    Transfer::new(&mut rig, a, b, messages, 1).run(&mut rig, LIMIT_NS).unwrap();
    assert_eq!(echoes.borrow().as_slice(), [Meta { msn: Msn::new(0), offset: 3 }]);
}
