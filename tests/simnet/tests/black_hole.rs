//! The peer falls silent: the retries end in time, and not before their time.

use datapath::engine::AsyncEvent;
use datapath::qp::attr::RecoveryPolicy::{self, GoBackN, SelectiveRepeat};
use datapath::qp::state::QpState;
use datapath::queue::{WcOpcode, WcStatus};
use simnet::filter::drop_psn;
use simnet::{Faults, Message, Op, QpOptions, Rig, RigOptions, Transfer};
use wire::Psn;

const SECOND_NS: u64 = 1_000_000_000;

const fn period_ns(timeout: u8) -> u64 {
    4096 << timeout
}

#[test]
fn retries_end_in_time() {
    for recovery in [SelectiveRepeat, GoBackN] {
        for (timeout, retry_cnt) in [(1, 7), (8, 0), (8, 3), (12, 7), (14, 7), (18, 1)] {
            let options = QpOptions { timeout, retry_cnt, recovery, ..QpOptions::default() };
            let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
            let mut warm = Transfer::new(&mut rig, a, b, vec![Message::new(Op::Write, 5000)], 1);
            warm.run(&mut rig, SECOND_NS).unwrap();
            rig.net.set_faults(rig.up(a), Faults::black_hole());
            let (source, target) = (rig.region(a.node(), 5000), rig.region(b.node(), 5000));
            let first = rig.write(a, source.all(), target.all());
            let second = rig.send(a, source.all());
            let tries = u64::from(retry_cnt) + 1;
            let limit = tries * period_ns(timeout) + SECOND_NS;
            let took = rig.run_until(|rig| rig.sends(a).len() == 3, limit).unwrap();
            let (failed, flushed) = (rig.sends(a)[1], rig.sends(a)[2]);
            assert_eq!((failed.wr_id, failed.status), (first, WcStatus::RetryExcErr));
            assert_eq!((flushed.wr_id, flushed.status), (second, WcStatus::WrFlushErr));
            assert_eq!((failed.opcode, flushed.opcode), (WcOpcode::RdmaWrite, WcOpcode::Send));
            assert!(
                took >= u64::from(retry_cnt) * period_ns(timeout),
                "{recovery:?} timeout {timeout}, retry_cnt {retry_cnt}: gave up after {took} ns"
            );
            assert_eq!(rig.state(a), QpState::Err);
            assert_eq!(rig.events(a.node()), [AsyncEvent::QpFatal { qpn: rig.qpn(a) }]);
            assert_eq!(rig.state(b), QpState::Rts, "the peer heard nothing of it");
            rig.run_until_quiet(SECOND_NS).expect("a dead queue pair makes no more events");
        }
    }
}

#[test]
fn it_heals_just_before_the_end() {
    for recovery in [SelectiveRepeat, GoBackN] {
        for (timeout, retry_cnt) in [(6, 7), (8, 3), (12, 7), (14, 1)] {
            let options = QpOptions { timeout, retry_cnt, recovery, ..QpOptions::default() };
            let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
            rig.net.set_faults(rig.up(b), Faults::black_hole());
            let messages = vec![Message::new(Op::Write, 9000), Message::new(Op::SendImm, 3000)];
            let mut transfer = Transfer::new(&mut rig, a, b, messages, 1);
            transfer.step(&mut rig);
            // At least one retransmission falls into each period, so into the last one too.
            rig.run_for(u64::from(retry_cnt) * period_ns(timeout));
            assert_eq!(rig.state(a), QpState::Rts, "{recovery:?} timeout {timeout}: too early");
            rig.net.heal();
            let outcome = transfer.run(&mut rig, SECOND_NS);
            outcome.unwrap_or_else(|stuck| panic!("{recovery:?} timeout {timeout}: {stuck:?}"));
        }
    }
}

#[test]
fn without_a_failure_detector_it_waits_for_ever() {
    let options = QpOptions { timeout: 0, retry_cnt: 1, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    rig.net.set_faults(rig.up(a), Faults::black_hole());
    let mut transfer = Transfer::new(&mut rig, a, b, vec![Message::new(Op::Write, 9000)], 1);
    transfer.step(&mut rig);
    rig.run_for(100 * SECOND_NS);
    assert_eq!(rig.state(a), QpState::Rts);
    rig.net.heal();
    transfer.run(&mut rig, 3 * SECOND_NS).unwrap();
}

#[test]
fn progress_starts_the_count_again() {
    let options = QpOptions { timeout: 8, retry_cnt: 2, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    for round in 0..10 {
        let mut transfer = Transfer::new(&mut rig, a, b, vec![Message::new(Op::Write, 3000)], round);
        rig.net.set_faults(rig.up(a), Faults::black_hole());
        transfer.step(&mut rig);
        rig.run_for(period_ns(8) * 3 / 2);
        rig.net.heal();
        transfer.run(&mut rig, SECOND_NS).unwrap();
    }
}

#[test]
fn a_frozen_peer_is_a_silent_one() {
    let options = QpOptions { timeout: 8, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let (source, target) = (rig.region(a.node(), 100_000), rig.region(b.node(), 100_000));
    rig.write(a, source.all(), target.all());
    rig.run_for(5_000);
    rig.freeze(b.node(), true);
    rig.run_until(|rig| rig.sends(a).len() == 1, 8 * period_ns(8) + SECOND_NS).unwrap();
    assert_eq!(rig.sends(a)[0].status, WcStatus::RetryExcErr);
}

/// One packet of `a` never passes. Returns the nanoseconds until it gave up; `b` shows signs of
/// life if it `speaks`.
fn give_up_on_one_packet(recovery: RecoveryPolicy, speaks: bool) -> u64 {
    let options = QpOptions { timeout: 8, retry_cnt: 2, recovery, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    rig.net.set_filter(rig.up(a), drop_psn(Psn::new(options.sq_psn).add(3), u32::MAX));
    let (source, target) = (rig.region(a.node(), 20_000), rig.region(b.node(), 20_000));
    rig.write(a, source.at(0, 1000), target.at(0, 1000));
    rig.write(a, source.all(), target.all());
    let start = rig.now();
    while rig.state(a) == QpState::Rts {
        if speaks {
            rig.write(b, target.at(0, 8), source.at(0, 8));
        }
        rig.run_for(period_ns(8) / 4);
        assert!(rig.now().since(start) < 20 * period_ns(8), "{recovery:?}: it never gives up");
    }
    let ends: Vec<_> = rig.sends(a).iter().map(|done| done.status).collect();
    assert_eq!(ends, [WcStatus::Success, WcStatus::RetryExcErr], "{recovery:?}");
    rig.now().since(start)
}

#[test]
fn a_packet_that_never_passes_ends_the_queue_pair() {
    for recovery in [SelectiveRepeat, GoBackN] {
        let silent = give_up_on_one_packet(recovery, false);
        assert!(silent < 5 * period_ns(8), "{recovery:?}: {silent} ns; nothing was heard of the peer");
        let heard = give_up_on_one_packet(recovery, true);
        assert!(heard >= 15 * period_ns(8), "{recovery:?}: {heard} ns; the peer was alive all along");
    }
}

#[test]
fn a_sender_that_slept_does_not_blame_its_peer() {
    let options = QpOptions { timeout: 8, retry_cnt: 1, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let messages = vec![Message::new(Op::Write, 100_000), Message::new(Op::Send, 100_000)];
    let mut transfer = Transfer::new(&mut rig, a, b, messages, 1);
    transfer.step(&mut rig);
    for round in 1..5 {
        rig.run_for(3000 * round);
        rig.freeze(a.node(), true);
        rig.run_for(20 * period_ns(8));
        rig.freeze(a.node(), false);
    }
    transfer.run(&mut rig, SECOND_NS).unwrap();
}

#[test]
fn what_is_posted_after_the_end_is_flushed() {
    let options = QpOptions { timeout: 4, retry_cnt: 1, window: 4, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    rig.net.set_faults(rig.up(a), Faults::black_hole());
    let (source, target) = (rig.region(a.node(), 20_000), rig.region(b.node(), 20_000));
    // More than the window takes: it waits for credit when it ends.
    rig.write(a, source.all(), target.all());
    rig.run_until(|rig| rig.state(a) == QpState::Err, SECOND_NS).unwrap();
    rig.write(a, source.all(), target.all());
    rig.post_recv(a, source.all());
    rig.run_until(|rig| rig.sends(a).len() == 2 && rig.recvs(a).len() == 1, SECOND_NS).unwrap();
    assert_eq!(rig.sends(a)[1].status, WcStatus::WrFlushErr);
    assert_eq!(rig.recvs(a)[0].status, WcStatus::WrFlushErr);
}

#[test]
fn an_engine_that_waits_sleeps() {
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), QpOptions::default());
    let (source, target) = (rig.region(a.node(), 50_000), rig.region(b.node(), 50_000));
    rig.net.set_faults(rig.up(a), Faults::black_hole());
    rig.write(a, source.all(), target.all());
    rig.run_for(SECOND_NS / 1000);
    let before = rig.turns();
    rig.run_for(SECOND_NS / 2);
    let turns = rig.turns() - before;
    assert!(turns < 100, "{turns} turns in half a second of silence: probes and timeouts only");
    assert_eq!(rig.state(a), QpState::Rts);
}
