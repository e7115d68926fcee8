//! RESET, and late packets of the life before it.

use datapath::qp::attr::RecoveryPolicy::{self, GoBackN, SelectiveRepeat};
use datapath::queue::WcStatus;
use simnet::filter::{drop_psn, hold};
use simnet::{Faults, FrameKind, Message, Op, QpOptions, Rig, RigOptions, Rng, Transfer};
use wire::{Pmtu, Psn};

const LIMIT_NS: u64 = 1_000_000_000;

#[test]
fn late_requests_of_the_former_life_are_not_accepted() {
    for recovery in [SelectiveRepeat, GoBackN] {
        for (new_psn, warm) in
            [(0x00_0000, 0), (0x80_0000, 5), (0x00_1000 + 200, 3), (0x00_1000 - 200, 3), (0xFF_FFFF, 40)]
        {
            let options = QpOptions { pmtu: Pmtu::B256, recovery, ..QpOptions::default() };
            let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
            let (source, target) = (rig.region(a.node(), 4000), rig.region(b.node(), 4000));
            rig.fill(source.all(), 1);
            rig.net.set_filter(rig.up(a), hold(|passing| passing.kind() == FrameKind::Data));
            for _ in 0..4 {
                rig.post_recv(b, target.all());
            }
            rig.write(a, source.at(0, 1000), target.at(0, 1000));
            rig.send(a, source.at(0, 1000));
            rig.write(a, source.at(0, 8), target.at(100, 8));
            rig.run_for(20_000);
            let held = rig.net.held();
            assert!(held >= 9, "{held} packets are held back");
            rig.net.heal();
            rig.reconnect(a, new_psn, b, 0x12_3456);
            let messages = Message::mix(&mut Rng::new(7), warm, 2000);
            let mut transfer = Transfer::new(&mut rig, a, b, messages, 50);
            transfer.run(&mut rig, LIMIT_NS).unwrap();
            let counters = *rig.counters(b);
            rig.net.release_held(rig.now());
            rig.run_until_quiet(LIMIT_NS).unwrap();
            let after = *rig.counters(b);
            assert_eq!(after.rx_in_order, counters.rx_in_order, "{recovery:?} {new_psn:#x}");
            assert_eq!(after.rx_out_of_order, counters.rx_out_of_order, "{recovery:?} {new_psn:#x}");
            assert_eq!(after.rx_packets - counters.rx_packets, held as u64, "they did arrive");
            rig.verify_untouched(target.all());
            assert!(rig.sends(a).iter().all(|done| done.status == WcStatus::Success));
            let more = Message::mix(&mut Rng::new(8), 20, 2000);
            Transfer::new(&mut rig, a, b, more, 500).run(&mut rig, LIMIT_NS).unwrap();
        }
    }
}

#[test]
fn late_acks_of_the_former_life_complete_nothing() {
    let options = QpOptions { pmtu: Pmtu::B256, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let (source, target) = (rig.region(a.node(), 4000), rig.region(b.node(), 4000));
    rig.net.set_filter(rig.up(b), hold(|_| true));
    for _ in 0..5 {
        rig.write(a, source.all(), target.all());
    }
    rig.run_for(50_000);
    let held = rig.net.held();
    assert!(held > 3);
    rig.net.heal();
    rig.reconnect(a, 0x90_0000, b, 0x12_3456);
    rig.net.set_filter(rig.up(b), hold(|_| true));
    rig.write(a, source.all(), target.all());
    rig.run_for(10_000);
    rig.net.clear_filter(rig.up(b));
    let late = rig.net.take_held();
    for (link, frame) in &late[..held] {
        rig.net.inject(rig.now(), *link, frame.clone());
    }
    rig.run_for(10_000);
    assert!(rig.sends(a).is_empty(), "what the former life's ACKs say is not true of this one");
    let counters = rig.counters(a);
    assert_eq!(counters.drop_bad_ack + counters.drop_stale_ack, held as u64);
    for (link, frame) in &late[held..] {
        rig.net.inject(rig.now(), *link, frame.clone());
    }
    rig.run_until(|rig| rig.sends(a).len() == 1, LIMIT_NS).unwrap();
}

#[test]
fn reset_in_the_middle_of_recovery_leaves_nothing_behind() {
    for recovery in [SelectiveRepeat, GoBackN] {
        let options = QpOptions { pmtu: Pmtu::B256, recovery, ..QpOptions::default() };
        let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
        let mut psn = options.sq_psn;
        for life in 0..50u32 {
            rig.net.set_filter(rig.up(a), drop_psn(Psn::new(psn).add(life % 7), 1000));
            let mut transfer = Transfer::new(&mut rig, a, b, vec![Message::new(Op::Send, 5000); 3], 1);
            transfer.step(&mut rig);
            rig.run_for(2_000 + 997 * u64::from(life));
            rig.net.heal();
            psn = (psn + 0x01_2345) & 0xFF_FFFF;
            rig.reconnect(a, psn, b, psn ^ 0x80_0000);
            rig.take_completions(a);
            rig.take_completions(b);
            let messages = Message::mix(&mut Rng::new(life.into()), 20, 3000);
            let mut transfer = Transfer::new(&mut rig, a, b, messages, 100);
            let outcome = transfer.run(&mut rig, LIMIT_NS);
            outcome.unwrap_or_else(|stuck| panic!("{recovery:?} life {life}: {stuck:?}"));
            psn = (psn + 0x01_0000) & 0xFF_FFFF;
            rig.reconnect(a, psn, b, psn ^ 0x80_0000);
            rig.take_completions(a);
            rig.take_completions(b);
        }
    }
}

#[test]
fn the_first_post_after_a_reset_wakes_the_queue_pair() {
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), QpOptions { window: 4, ..QpOptions::default() });
    for life in 1..5 {
        // More than the window takes: the queue pair is reset while it waits for credit, and
        // nothing comes late.
        rig.net.set_faults(rig.up(a), Faults::black_hole());
        let mut cut = Transfer::new(&mut rig, a, b, vec![Message::new(Op::Write, 20_000)], 1);
        cut.step(&mut rig);
        rig.run_for(700);
        rig.net.heal();
        rig.reconnect(a, 0x10_0000 * life, b, 5);
        Transfer::new(&mut rig, a, b, vec![Message::new(Op::Write, 2000)], 2)
            .run(&mut rig, LIMIT_NS)
            .unwrap();
        rig.take_completions(a);
    }
}

#[test]
fn one_doorbell_is_under_way_at_most() {
    let (mut rig, a, b) = Rig::pair(RigOptions { max_qps: 1, ..RigOptions::default() }, QpOptions::default());
    let (source, target) = (rig.region(a.node(), 100), rig.region(b.node(), 100));
    for life in 1..4 {
        rig.write(a, source.all(), target.all());
        rig.to_err(a);
        rig.write(a, source.all(), target.all());
        rig.post_recv(a, source.all());
        rig.run_until(|rig| rig.sends(a).len() == 2 && rig.recvs(a).len() == 1, LIMIT_NS).unwrap();
        rig.reconnect(a, 0x10_0000 * life, b, 5);
        rig.write(a, source.all(), target.all());
        rig.reconnect(a, 0x10_0000 * life + 0x8_0000, b, 5);
        rig.write(a, source.all(), target.all());
        rig.run_until(|rig| rig.sends(a).len() == 3, LIMIT_NS).unwrap();
        rig.take_completions(a);
    }
}

/// Both ends are reset at different times, in the middle of traffic, while copies of everything are
/// on their way.
fn lives_in_a_row(seed: u64, recovery: RecoveryPolicy) {
    let options = QpOptions { pmtu: Pmtu::B256, window: 32, recovery, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::seeded(seed), options);
    let mut rng = Rng::new(seed);
    let faults = Faults {
        loss_ppm: 30_000,
        duplicate_ppm: 300_000,
        reorder_ppm: 300_000,
        reorder_ns_max: 200_000,
        ..Faults::default()
    };
    let mut psn = options.sq_psn;
    for life in 0..6 {
        rig.net.set_faults(rig.up(a), faults);
        rig.net.set_faults(rig.up(b), faults);
        let messages = Message::mix(&mut rng, 60, 5000);
        let mut old = Transfer::new(&mut rig, a, b, messages.clone(), 1);
        let mut back = Transfer::new(&mut rig, b, a, messages, 1000);
        let end = rig.now().after(rng.below(150_000));
        let stop = |rig: &mut Rig| {
            old.step(rig);
            back.step(rig);
            rig.now() >= end
        };
        rig.run_until(stop, LIMIT_NS).unwrap();
        psn = psn.wrapping_add(0x01_0000 + u32::try_from(rng.below(0x1000)).unwrap()) & 0xFF_FFFF;
        rig.set_first_psn(a, psn);
        rig.set_first_psn(b, psn ^ 0x80_0000);
        let (first, second) = if rng.below(2) == 0 { (a, b) } else { (b, a) };
        rig.restart(first);
        rig.run_for(rng.below(100_000));
        rig.restart(second);
        let before = [rig.bytes(old.target()), rig.bytes(back.target())];
        rig.take_completions(a);
        rig.take_completions(b);
        if rng.below(2) == 0 {
            rig.net.heal();
        }
        let messages = Message::mix(&mut rng, 30, 3000);
        let mut transfers = [
            Transfer::new(&mut rig, a, b, messages.clone(), 2000),
            Transfer::new(&mut rig, b, a, messages, 3000),
        ];
        let outcome = Transfer::run_all(&mut transfers, &mut rig, LIMIT_NS);
        outcome.unwrap_or_else(|stuck| panic!("{recovery:?} seed {seed} life {life}: {stuck:?}"));
        let after = [rig.bytes(old.target()), rig.bytes(back.target())];
        assert!(before == after, "{recovery:?} seed {seed} life {life}: a late packet was placed");
        rig.net.heal();
        rig.run_until_quiet(LIMIT_NS).unwrap();
        rig.take_completions(a);
        rig.take_completions(b);
    }
}

#[test]
fn resets_race_with_traffic() {
    for seed in 0..25 {
        lives_in_a_row(seed, SelectiveRepeat);
        lives_in_a_row(seed, GoBackN);
    }
}
