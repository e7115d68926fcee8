//! Receiver not ready: waits, refills, and the end of patience.

use core::cell::RefCell;
use datapath::qp::attr::RecoveryPolicy::{GoBackN, SelectiveRepeat};
use datapath::qp::state::QpState;
use datapath::queue::WcStatus;
use simnet::filter::{Verdict, drop_numbers, drop_psn, hold};
use simnet::{Faults, FrameKind, Qp, QpOptions, Region, Rig, RigOptions, Work};
use std::rc::Rc;
use wire::{Pmtu, Psn};

const LIMIT_NS: u64 = 100_000_000;
/// Code 1 asks for 10 us.
const WAIT_NS: u64 = 10_000;

fn options() -> QpOptions {
    QpOptions { pmtu: Pmtu::B256, min_rnr_timer: 1, ..QpOptions::default() }
}

fn pair(options: QpOptions) -> (Rig, Qp, Qp, Region, Region) {
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let (source, target) = (rig.region(a.node(), 10_000), rig.region(b.node(), 10_000));
    rig.fill(source.all(), 1);
    (rig, a, b, source, target)
}

#[test]
fn a_send_waits_for_its_receive() {
    for recovery in [SelectiveRepeat, GoBackN] {
        let (mut rig, a, b, source, target) = pair(QpOptions { recovery, ..options() });
        rig.send(a, source.at(0, 1000));
        rig.run_for(8 * WAIT_NS);
        assert!(rig.sends(a).is_empty());
        let naks = rig.counters(b).tx_rnr_naks;
        assert!((4..=10).contains(&naks), "{naks} RNR NAKs in eight waits: one a wait, about");
        rig.post_recv(b, target.all());
        rig.run_until(|rig| rig.sends(a).len() == 1 && rig.recvs(b).len() == 1, 5 * WAIT_NS).unwrap();
        rig.verify(target.at(0, 1000), 1);
        assert_eq!(rig.sends(a)[0].status, WcStatus::Success);
    }
}

#[test]
fn a_write_with_immediate_waits_too_and_a_plain_write_does_not() {
    let (mut rig, a, b, source, target) = pair(options());
    rig.write(a, source.at(0, 1000), target.at(0, 1000));
    rig.post(a, &Work::write(source.at(0, 1000), target.at(2000, 1000)).imm(5));
    rig.write(a, source.at(0, 1000), target.at(4000, 1000));
    rig.run_for(5 * WAIT_NS);
    assert_eq!(rig.sends(a).len(), 1, "the first only");
    rig.verify(target.at(0, 1000), 1);
    rig.try_post_recv(b, &[]).unwrap();
    rig.run_until(|rig| rig.sends(a).len() == 3, 5 * WAIT_NS).unwrap();
    assert_eq!((rig.recvs(b)[0].imm, rig.recvs(b)[0].byte_len), (5, 1000));
    rig.verify(target.at(2000, 1000), 1);
    rig.verify(target.at(4000, 1000), 1);
}

#[test]
fn receives_come_one_by_one() {
    for (recovery, ppm) in [(SelectiveRepeat, 0), (GoBackN, 0), (SelectiveRepeat, 50_000), (GoBackN, 50_000)]
    {
        let (mut rig, a, b, source, target) = pair(QpOptions { recovery, ..options() });
        rig.net.set_faults(rig.up(a), Faults::loss(ppm));
        rig.net.set_faults(rig.up(b), Faults::loss(ppm));
        for index in 0..20 {
            rig.send(a, source.at(0, 100 * index));
        }
        for index in 0..20 {
            rig.run_for(3 * WAIT_NS / 2);
            let posted = rig.post_recv(b, target.all());
            rig.run_until(|rig| rig.recvs(b).len() == index + 1, LIMIT_NS).unwrap();
            let got = rig.recvs(b)[index];
            assert_eq!((got.wr_id, got.status), (posted, WcStatus::Success));
            assert_eq!(got.byte_len as usize, 100 * index, "{recovery:?}: the messages come in order");
            rig.verify(target.at(0, 100 * index), 1);
        }
        rig.run_until(|rig| rig.sends(a).len() == 20, LIMIT_NS).unwrap();
    }
}

#[test]
fn a_send_without_receive_out_of_order_is_asked_for_later() {
    let (mut rig, a, b, source, target) = pair(options());
    // The first message misses its second packet; the second message finds no receive, out of
    // order.
    rig.net.set_filter(rig.up(a), drop_psn(Psn::new(options().sq_psn + 1), 1));
    rig.post_recv(b, target.at(0, 1000));
    rig.send(a, source.at(0, 1000));
    rig.send(a, source.at(0, 600));
    rig.write(a, source.at(0, 700), target.at(5000, 700));
    rig.run_until(|rig| rig.recvs(b).len() == 1, LIMIT_NS).unwrap();
    rig.verify(target.at(0, 1000), 1);
    rig.run_for(5 * WAIT_NS);
    assert_eq!(rig.recvs(b).len(), 1);
    rig.post_recv(b, target.at(2000, 1000));
    rig.run_until(|rig| rig.sends(a).len() == 3, LIMIT_NS).unwrap();
    rig.verify(target.at(2000, 600), 1);
    rig.verify(target.at(5000, 700), 1);
    assert_eq!(rig.recvs(b)[1].byte_len, 600);
    assert_eq!(rig.counters(a).rto_fired, 0, "the RNR NAK brings it back, not the timer");
}

#[test]
fn what_was_dropped_in_recovery_is_asked_for_at_its_end() {
    let (mut rig, a, b, source, target) = pair(options());
    rig.post_recv(b, target.at(0, 1000));
    // The second packet of the first message waits; the second message finds no receive and is
    // dropped.
    let missing = Psn::new(options().sq_psn + 1);
    rig.net.set_filter(rig.up(a), hold(move |passing| passing.data_psn() == Some(missing)));
    rig.send(a, source.at(0, 1000));
    rig.send(a, source.at(0, 600));
    rig.run_for(6000);
    assert_eq!(rig.counters(b).drop_unplaceable, 3);
    rig.post_recv(b, target.at(2000, 1000));
    rig.net.heal();
    rig.net.release_held(rig.now());
    let took = rig.run_until(|rig| rig.sends(a).len() == 2, LIMIT_NS).unwrap();
    assert!(took < 10_000, "{took} ns: a NACK without SACK brings it back, no timer");
    assert_eq!((rig.counters(b).tx_rnr_naks, rig.counters(a).tail_probes), (0, 0));
    rig.verify(target.at(2000, 600), 1);
}

#[test]
fn patience_ends_after_rnr_retry_waits() {
    for recovery in [SelectiveRepeat, GoBackN] {
        for rnr_retry in [0, 1, 3, 6] {
            let (mut rig, a, b, source, target) = pair(QpOptions { rnr_retry, recovery, ..options() });
            rig.write(a, source.at(0, 1000), target.at(0, 1000));
            let failing = rig.send(a, source.at(0, 1000));
            let behind = rig.write(a, source.at(0, 10), target.at(2000, 10));
            let took = rig.run_until(|rig| rig.sends(a).len() == 3, LIMIT_NS).unwrap();
            let ends: Vec<_> = rig.sends(a).iter().map(|done| (done.wr_id, done.status)).collect();
            assert_eq!(ends[0].1, WcStatus::Success);
            assert_eq!(ends[1..], [(failing, WcStatus::RnrRetryExcErr), (behind, WcStatus::WrFlushErr)]);
            assert!(took >= u64::from(rnr_retry) * WAIT_NS, "{took} ns for {rnr_retry} waits");
            assert_eq!(rig.counters(b).tx_rnr_naks, u64::from(rnr_retry) + 1, "{recovery:?}");
            assert_eq!((rig.state(a), rig.state(b)), (QpState::Err, QpState::Rts));
        }
    }
}

#[test]
fn success_gives_the_patience_back() {
    let (mut rig, a, b, source, target) = pair(QpOptions { rnr_retry: 2, ..options() });
    for round in 1..=6 {
        rig.send(a, source.at(0, 100));
        rig.run_for(WAIT_NS * 3 / 2);
        rig.post_recv(b, target.all());
        rig.run_until(|rig| rig.sends(a).len() == round, LIMIT_NS).unwrap();
        assert_eq!(rig.sends(a)[round - 1].status, WcStatus::Success, "round {round}");
    }
}

#[test]
fn seven_means_for_ever() {
    let (mut rig, a, b, source, target) = pair(QpOptions { timeout: 1, retry_cnt: 1, ..options() });
    rig.send(a, source.at(0, 1000));
    rig.run_for(50_000_000);
    assert_eq!(rig.state(a), QpState::Rts, "neither rnr_retry nor retry_cnt ends it: the peer answers");
    rig.post_recv(b, target.all());
    rig.run_until(|rig| rig.sends(a).len() == 1, LIMIT_NS).unwrap();
    rig.verify(target.at(0, 1000), 1);
}

#[test]
fn lost_rnr_naks_and_lost_probes() {
    for kind in [FrameKind::Rnr, FrameKind::Ack, FrameKind::Data] {
        for number in 0..6 {
            let (mut rig, a, b, source, target) = pair(options());
            let link = if kind == FrameKind::Data { rig.up(a) } else { rig.up(b) };
            rig.net
                .set_filter(link, drop_numbers([number, number + 1], move |passing| passing.kind() == kind));
            for index in 0..4 {
                rig.send(a, source.at(0, 300 * index));
            }
            for index in 0..4 {
                rig.run_for(2 * WAIT_NS);
                rig.post_recv(b, target.at(1000 * index, 1000));
            }
            let outcome = rig.run_until(|rig| rig.sends(a).len() == 4, LIMIT_NS);
            outcome.unwrap_or_else(|stuck| panic!("{kind:?} number {number} lost: {stuck:?}"));
            for index in 0..4 {
                rig.verify(target.at(1000 * index, 300 * index), 1);
            }
        }
    }
}

#[test]
fn a_late_copy_of_an_rnr_nak_does_not_outlive_the_answer() {
    for recovery in [SelectiveRepeat, GoBackN] {
        let (mut rig, a, b, source, target) = pair(QpOptions { recovery, ..options() });
        let copies = Rc::new(RefCell::new(Vec::new()));
        let keep = Rc::clone(&copies);
        rig.net.set_filter(
            rig.up(b),
            Box::new(move |passing| {
                if passing.kind() == FrameKind::Rnr {
                    keep.borrow_mut().push(passing.frame.to_vec());
                }
                Verdict::Pass
            }),
        );
        rig.send(a, source.at(0, 100));
        rig.run_until(|rig| rig.counters(a).rx_rnr_naks == 1, LIMIT_NS).unwrap();
        rig.post_recv(b, target.all());
        rig.run_until(|rig| rig.counters(a).tx_probes == 1, LIMIT_NS).unwrap();
        // The copy comes while the probe is out, and before its acknowledgement.
        let copy = copies.borrow()[0].clone();
        rig.net.deliver(rig.now(), a.node(), copy);
        rig.run_until(|rig| rig.sends(a).len() == 1, LIMIT_NS).unwrap();
        rig.post_recv(b, target.all());
        rig.send(a, source.at(0, 200));
        let outcome = rig.run_until(|rig| rig.sends(a).len() == 2, LIMIT_NS);
        outcome.unwrap_or_else(|stuck| panic!("{recovery:?}: {stuck:?}"));
    }
}

#[test]
fn a_wait_that_progress_ended_delays_no_timer() {
    // Code 0 asks for 655 ms.
    let (mut rig, a, b, source, target) = pair(QpOptions { min_rnr_timer: 0, ..options() });
    let caught = Rc::new(RefCell::new(Vec::new()));
    let keep = Rc::clone(&caught);
    rig.net.set_filter(
        rig.up(b),
        Box::new(move |passing| {
            let mut caught = keep.borrow_mut();
            caught.push(passing.frame.to_vec());
            if caught.len() == 2 { Verdict::Drop } else { Verdict::Pass }
        }),
    );
    rig.send(a, source.at(0, 100));
    rig.run_until(|rig| rig.counters(a).rx_rnr_naks == 1, LIMIT_NS).unwrap();
    rig.post_recv(b, target.all());
    rig.run_until(|rig| rig.counters(a).tx_probes == 1, 10 * LIMIT_NS).unwrap();
    // A copy of the NAK begins a second wait; the answer to the probe comes in the middle of it.
    let copy = caught.borrow()[0].clone();
    rig.net.deliver(rig.now(), a.node(), copy);
    rig.run_for(LIMIT_NS / 2);
    let [_, answer] = &caught.borrow().clone()[..] else { panic!("{} answers", caught.borrow().len()) };
    rig.net.deliver(rig.now(), a.node(), answer.clone());
    rig.run_until(|rig| rig.sends(a).len() == 1, LIMIT_NS).unwrap();
    rig.net.set_filter(rig.up(a), drop_numbers([0], |passing| passing.kind() == FrameKind::Data));
    rig.post_recv(b, target.all());
    rig.send(a, source.at(0, 200));
    rig.run_until(|rig| rig.sends(a).len() == 2, LIMIT_NS / 50).unwrap();
}
