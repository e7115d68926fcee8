//! RESET, and late packets of the life before it.

use datapath::qp::attr::RecoveryPolicy::{GoBackN, SelectiveRepeat};
use datapath::queue::WcStatus;
use simnet::filter::{drop_psn, hold};
use simnet::{FrameKind, Message, Op, QpOptions, Rig, RigOptions, Rng, Transfer};
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
