//! The control path in the middle of traffic: SQD, destruction, deregistration, completion queues
//! that fill.

use datapath::engine::AsyncEvent;
use datapath::memory::Access;
use datapath::qp::attr::{QpAttr, QpAttrMask};
use datapath::qp::state::QpState;
use datapath::queue::WcStatus;
use simnet::filter::{drop_psn, hold};
use simnet::{Faults, LinkId, Message, Qp, QpOptions, Region, Rig, RigOptions, Rng, Transfer, Work};
use wire::{Pmtu, Psn};

const LIMIT_NS: u64 = 1_000_000_000;
const PSN: u32 = 0x00_1000;

fn pair(window: u16) -> (Rig, Qp, Qp, Region, Region) {
    let options = QpOptions { pmtu: Pmtu::B256, sq_psn: PSN, window, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let (source, target) = (rig.region(a.node(), 40_000), rig.region(b.node(), 40_000));
    rig.fill(source.all(), 1);
    (rig, a, b, source, target)
}

fn drained(rig: &Rig, qp: Qp) -> usize {
    let event = AsyncEvent::SqDrained { qpn: rig.qpn(qp) };
    rig.events(qp.node()).iter().filter(|seen| **seen == event).count()
}

#[test]
fn sqd_finishes_what_has_begun_and_starts_nothing() {
    let (mut rig, a, b, source, target) = pair(8);
    for index in 0..4 {
        rig.write(a, source.at(0, 5000), target.at(5000 * index, 5000));
    }
    // 20 packets each, a window of 8: the first request is in the middle.
    rig.run_for(3000);
    rig.to_state(a, QpState::Sqd);
    assert_eq!(drained(&rig, a), 0);
    rig.write(a, source.at(0, 100), target.at(30_000, 100));
    rig.run_until_quiet(LIMIT_NS).unwrap();
    assert_eq!(drained(&rig, a), 1, "told once, when the last request that had begun was done");
    let done = rig.sends(a).len();
    assert!((1..4).contains(&done), "{done} requests had begun");
    for index in 0..done {
        rig.verify(target.at(5000 * index, 5000), 1);
    }
    rig.verify_untouched(target.at(5000 * done, 5000));
    assert_eq!(rig.state(a), QpState::Sqd);
    assert!(rig.sends(b).is_empty());
    rig.to_state(a, QpState::Rts);
    rig.run_until(|rig| rig.sends(a).len() == 5, LIMIT_NS).unwrap();
    rig.verify(target.at(30_000, 100), 1);
}

#[test]
fn sqd_of_an_idle_queue_pair_is_drained_at_once() {
    let (mut rig, a, _, _, _) = pair(8);
    rig.to_state(a, QpState::Sqd);
    rig.run_for(1000);
    assert_eq!(drained(&rig, a), 1);
}

#[test]
fn who_did_not_ask_is_not_told_that_sqd_is_drained() {
    let (mut rig, a, _, _, _) = pair(8);
    let attr = QpAttr { state: QpState::Sqd, en_sqd_async_notify: true, ..QpAttr::default() };
    rig.modify(a, &attr, QpAttrMask::STATE).expect("without the mask's bit the flag does not count");
    rig.run_for(1000);
    assert_eq!((rig.state(a), drained(&rig, a)), (QpState::Sqd, 0));
    rig.to_state(a, QpState::Rts);
    rig.to_state(a, QpState::Sqd);
    rig.run_for(1000);
    assert_eq!(drained(&rig, a), 1);
}

#[test]
fn a_queue_pair_in_sqd_still_receives() {
    let (mut rig, a, b, _, _) = pair(8);
    rig.to_state(b, QpState::Sqd);
    let messages = Message::mix(&mut Rng::new(1), 20, 3000);
    Transfer::new(&mut rig, a, b, messages, 1).run(&mut rig, LIMIT_NS).unwrap();
}

#[test]
fn a_destroyed_queue_pair_is_silence() {
    for (seed, missing) in (0..20).flat_map(|seed| [(seed, false), (seed, true)]) {
        let options = QpOptions { pmtu: Pmtu::B256, sq_psn: PSN, timeout: 4, ..QpOptions::default() };
        let (mut rig, a, b) = Rig::pair(RigOptions::seeded(seed), options);
        let contexts = rig.engine(b.node()).core().free_recovery_contexts();
        if missing {
            rig.net.set_filter(rig.up(a), drop_psn(Psn::new(PSN + 3), 3));
        }
        let (source, target) = (rig.region(a.node(), 20_000), rig.region(b.node(), 20_000));
        rig.write(a, source.all(), target.all());
        rig.write(b, target.all(), source.all());
        rig.run_for(500 + 300 * seed);
        assert!(rig.destroy(b));
        assert!(!rig.destroy(b), "once");
        rig.run_until(|rig| rig.sends(a).len() == 1, LIMIT_NS).unwrap();
        let status = rig.sends(a)[0].status;
        let done = status == WcStatus::RetryExcErr || status == WcStatus::Success;
        assert!(done, "seed {seed}: {status:?}");
        assert_eq!(
            rig.engine(b.node()).core().free_recovery_contexts(),
            contexts,
            "seed {seed}: nothing leaks"
        );
        assert_eq!(rig.engine(b.node()).core().qp_count(), 0);
        // Its slot serves the next one.
        let (c, d) = rig.connected(a.node(), b.node(), options);
        let messages = Message::mix(&mut Rng::new(seed), 30, 3000);
        Transfer::new(&mut rig, c, d, messages, 1).run(&mut rig, LIMIT_NS).unwrap();
    }
}

#[test]
fn the_target_is_deregistered_in_flight() {
    let (mut rig, a, b, source, target) = pair(32);
    rig.write(a, source.all(), target.all());
    rig.run_for(4000);
    rig.deregister(target);
    rig.run_until(|rig| rig.sends(a).len() == 1, LIMIT_NS).unwrap();
    assert_eq!(rig.sends(a)[0].status, WcStatus::RemAccessErr);
    assert_eq!((rig.state(a), rig.state(b)), (QpState::Err, QpState::Err));
    let before = rig.bytes(target.all());
    rig.run_until_quiet(LIMIT_NS).unwrap();
    assert!(before == rig.bytes(target.all()));
}

#[test]
fn the_source_is_deregistered_in_flight() {
    let (mut rig, a, b, source, target) = pair(32);
    rig.write(a, source.all(), target.all());
    rig.run_for(4000);
    rig.deregister(source);
    rig.run_until(|rig| rig.sends(a).len() == 1, LIMIT_NS).unwrap();
    assert_eq!(rig.sends(a)[0].status, WcStatus::LocProtErr);
    assert_eq!(rig.state(b), QpState::Rts);
}

#[test]
fn a_parked_write_is_checked_again_when_its_turn_comes() {
    let (mut rig, a, b, source, target) = pair(32);
    rig.net.set_filter(rig.up(a), hold(|passing| passing.data_psn() == Some(Psn::new(PSN))));
    let pd = rig.pd(b.node());
    let flag = rig.region_with(b.node(), 8, pd, Access::LOCAL_WRITE | Access::REMOTE_WRITE);
    rig.write(a, source.at(0, 100), target.at(0, 100));
    rig.write(a, source.at(0, 8), flag.all());
    rig.run_for(3000);
    assert_eq!(rig.counters(b).parked_writes, 1);
    rig.deregister(flag);
    rig.net.heal();
    rig.run_until(|rig| rig.sends(a).len() == 2, LIMIT_NS).unwrap();
    let ends: Vec<_> = rig.sends(a).iter().map(|done| done.status).collect();
    assert_eq!(ends, [WcStatus::Success, WcStatus::RemAccessErr]);
    rig.verify_untouched(flag.all());
    rig.verify(target.at(0, 100), 1);
}

#[test]
fn a_full_receive_completion_queue_ends_the_queue_pair() {
    for lost in [None, Some(2)] {
        let options = QpOptions { cq_entries: 4, pmtu: Pmtu::B256, sq_psn: PSN, ..QpOptions::default() };
        let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
        if let Some(lost) = lost {
            rig.net.set_filter(rig.up(a), drop_psn(Psn::new(PSN + lost), 1));
        }
        let target = rig.region(b.node(), 100);
        for _ in 0..8 {
            rig.post_recv(b, target.all());
        }
        rig.set_auto_poll(false);
        for _ in 0..8 {
            rig.post(a, &Work::send_inline(&[1; 20]).unsignaled());
        }
        rig.run_until(|rig| rig.state(b) == QpState::Err, LIMIT_NS).unwrap();
        rig.poll();
        assert!(rig.recvs(b).len() >= 4);
        assert!(rig.recvs(b)[..4].iter().all(|done| done.status == WcStatus::Success));
        let overrun =
            |event: &AsyncEvent| matches!(event, AsyncEvent::CqOverrun { qpn, .. } if *qpn == rig.qpn(b));
        assert!(rig.events(b.node()).iter().any(overrun), "{lost:?}");
    }
}

#[test]
fn no_recovery_context_leaks() {
    let options = RigOptions { recovery_contexts: 2, ..RigOptions::seeded(3) };
    let mut rig = Rig::new(options);
    let (left, right) = (rig.add_node(), rig.add_node());
    let qp = QpOptions { pmtu: Pmtu::B256, ..QpOptions::default() };
    let mut transfers: Vec<Transfer> = (0..6)
        .map(|index| {
            let (a, b) = rig.connected(left, right, qp);
            Transfer::new(&mut rig, a, b, Message::mix(&mut Rng::new(index), 40, 5000), 100 * index)
        })
        .collect();
    rig.net.set_faults(LinkId::Up(left), Faults::loss(50_000));
    Transfer::run_all(&mut transfers, &mut rig, LIMIT_NS).unwrap();
    assert!(rig.engine(right).core().counters().drop_no_context > 0, "two were too few");
    rig.net.heal();
    rig.run_until_quiet(LIMIT_NS).unwrap();
    assert_eq!(rig.engine(right).core().free_recovery_contexts(), 2);
}
