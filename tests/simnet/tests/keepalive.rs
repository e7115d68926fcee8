//! Keepalive: an idle end that asks whether its peer is there, and ends when it is not.

use core::cell::RefCell;
use datapath::engine::{AsyncEvent, ModifyError};
use datapath::qp::attr::{AttrError, QpAttr, QpAttrMask, RecoveryPolicy};
use datapath::qp::state::QpState;
use datapath::queue::WcStatus;
use simnet::filter::{copy_to, drop_numbers};
use simnet::frame::packet;
use simnet::{Faults, FrameKind, Qp, QpOptions, Rig, RigOptions, Work};
use std::rc::Rc;
use wire::WireMode::{self, Plain, Srnic};
use wire::{Opcode, Psn};

const SECOND_NS: u64 = 1_000_000_000;
const MS_NS: u64 = 1_000_000;
const MODES: [WireMode; 2] = [Srnic, Plain];

const fn period_ns(timeout: u8) -> u64 {
    4096 << timeout
}

fn options(mode: WireMode, keepalive_ms: u32) -> QpOptions {
    let recovery = match mode {
        Srnic => RecoveryPolicy::SelectiveRepeat,
        Plain => RecoveryPolicy::GoBackN,
    };
    QpOptions { wire_mode: mode, recovery, keepalive_ms, ..QpOptions::default() }
}

/// Some messages from `a` to `b`, READ and all.
fn talk(rig: &mut Rig, a: Qp, b: Qp) {
    let (local, remote) = (rig.region(a.node(), 5000), rig.region(b.node(), 5000));
    let before = rig.sends(a).len();
    rig.post_recv(b, remote.all());
    rig.send(a, local.at(0, 3000));
    rig.write(a, local.all(), remote.all());
    rig.post(a, &Work::read(local.all(), remote.all()));
    rig.run_until(|rig| rig.sends(a).len() == before + 3, SECOND_NS).unwrap();
    assert!(rig.sends(a).iter().all(|done| done.status == WcStatus::Success));
}

/// `a` learns that its peer died, though nothing is outstanding; returns when, in nanoseconds.
fn learns(rig: &mut Rig, a: Qp, limit_ns: u64) -> u64 {
    let region = rig.region(a.node(), 1000);
    let receives = [rig.post_recv(a, region.all()), rig.post_recv(a, region.all())];
    let (sends, recvs) = (rig.sends(a).len(), rig.recvs(a).len());
    let took = rig.run_until(|rig| rig.state(a) == QpState::Err, limit_ns).unwrap();
    rig.run_until(|rig| rig.recvs(a).len() == recvs + 2, SECOND_NS).unwrap();
    let flushed: Vec<_> = rig.recvs(a)[recvs..].iter().map(|done| (done.wr_id, done.status)).collect();
    assert_eq!(flushed, receives.map(|wr_id| (wr_id, WcStatus::WrFlushErr)));
    assert_eq!(rig.sends(a).len(), sends, "nothing of its own was under way");
    assert_eq!(rig.events(a.node()), [AsyncEvent::QpFatal { qpn: rig.qpn(a) }]);
    assert_eq!(rig.counters(a).retry_exceeded, 1);
    took
}

#[test]
fn either_end_learns_that_its_peer_died() {
    for mode in MODES {
        for (timeout, retry_cnt, keepalive_ms) in [(14, 7, 1000), (8, 0, 1), (12, 3, 50), (18, 1, 10_000)] {
            for sends_first in [true, false] {
                let qp = QpOptions { timeout, retry_cnt, ..options(mode, keepalive_ms) };
                let (mut rig, a, b) = Rig::pair(RigOptions::default(), qp);
                // The other end has only ever received.
                let (survivor, dead) = if sends_first { (a, b) } else { (b, a) };
                talk(&mut rig, a, b);
                rig.freeze(dead.node(), true);
                let idle = u64::from(keepalive_ms) * MS_NS;
                let tries = u64::from(retry_cnt) + 1;
                let took = learns(&mut rig, survivor, idle + tries * period_ns(timeout) + SECOND_NS);
                let least = idle + u64::from(retry_cnt) * period_ns(timeout);
                assert!(took + MS_NS > least, "{mode:?} {timeout} {retry_cnt}: gave up after {took} ns");
                rig.run_until_quiet(SECOND_NS).expect("a dead queue pair asks no more");
            }
        }
    }
}

/// The peer's queue pair is gone, its device is not. What the device says once more to packets that
/// are repeated is not for probes.
#[test]
fn a_queue_pair_whose_peer_was_destroyed_or_aborted_ends() {
    let destroy: fn(&mut Rig, Qp) = |rig, qp| assert!(rig.destroy(qp));
    for mode in MODES {
        for end in [destroy, Rig::to_err] {
            for talks in [true, false] {
                let qp = QpOptions { timeout: 12, ..options(mode, 100) };
                let (mut rig, a, b) = Rig::pair(RigOptions::default(), qp);
                if talks {
                    talk(&mut rig, a, b);
                }
                rig.run_for(SECOND_NS);
                assert!(rig.counters(b).rx_duplicates > 0, "{mode:?}: b has answered probes");
                end(&mut rig, b);
                learns(&mut rig, a, 100 * MS_NS + 8 * period_ns(12) + SECOND_NS);
                let last_acks = rig.engine(b.node()).core().counters().tx_last_acks;
                assert_eq!(last_acks, 0, "{mode:?}: of a queue pair that has ended");
            }
        }
    }
}

/// Neither end has ever sent anything: not even a first PSN is used.
#[test]
fn a_connection_that_was_never_used_learns_it_too() {
    for mode in MODES {
        for sq_psn in [0x1000, 0] {
            let qp = QpOptions { timeout: 12, sq_psn, ..options(mode, 100) };
            let (mut rig, a, b) = Rig::pair(RigOptions::default(), qp);
            rig.run_for(SECOND_NS);
            assert!(rig.counters(a).tx_keepalives >= 2 && rig.counters(b).rx_duplicates >= 2);
            rig.freeze(b.node(), true);
            learns(&mut rig, a, 100 * MS_NS + 8 * period_ns(12) + SECOND_NS);
        }
    }
}

#[test]
fn without_it_nobody_notices() {
    for mode in MODES {
        let (mut rig, a, b) = Rig::pair(RigOptions::default(), options(mode, 0));
        talk(&mut rig, a, b);
        rig.freeze(b.node(), true);
        rig.run_for(3600 * SECOND_NS);
        assert_eq!((rig.state(a), rig.counters(a).tx_keepalives), (QpState::Rts, 0));
        assert_eq!(rig.events(a.node()), []);
    }
}

#[test]
fn a_peer_that_lives_is_never_given_up() {
    for mode in MODES {
        let (mut rig, a, b) = Rig::pair(RigOptions::default(), options(mode, 1000));
        for qp in [a, b] {
            let up = rig.up(qp);
            rig.net.set_faults(up, Faults::loss(10_000));
        }
        talk(&mut rig, a, b);
        let (resent, answered) = (rig.counters(a).tx_retransmits, rig.counters(a).rx_packets);
        rig.run_for(3600 * SECOND_NS);
        let asked = rig.counters(a).tx_keepalives + rig.counters(b).tx_keepalives;
        assert!((3600..7500).contains(&asked), "{mode:?}: {asked} probes in an hour");
        assert!(rig.counters(a).rx_packets > answered + 3500);
        assert_eq!((rig.state(a), rig.state(b)), (QpState::Rts, QpState::Rts));
        assert_eq!(rig.counters(a).tx_retransmits, resent, "a probe is no packet of a stream");
        talk(&mut rig, a, b);
        assert_eq!((rig.events(a.node()), rig.events(b.node())), (&[][..], &[][..]));
    }
}

#[test]
fn probes_that_are_lost_are_sent_again_in_the_same_try() {
    for mode in MODES {
        // A peer may keep silent for one try of 67 ms.
        let qp = QpOptions { retry_cnt: 0, ..options(mode, 100) };
        let (mut rig, a, b) = Rig::pair(RigOptions::default(), qp);
        let up = rig.up(a);
        let lost = (0..400).filter(|number| number % 4 != 3);
        rig.net.set_filter(up, drop_numbers(lost, |passing| passing.kind() == FrameKind::Data));
        rig.run_for(10 * SECOND_NS);
        assert_eq!((rig.state(a), rig.state(b)), (QpState::Rts, QpState::Rts), "{mode:?}");
        assert!(rig.counters(a).tx_keepalives > 50);
    }
}

/// What goes over the wire is a duplicate to any peer: WRITE ONLY of nothing, behind all that was
/// acknowledged.
#[test]
fn a_probe_is_a_duplicate_of_nothing() {
    for mode in MODES {
        for used in [true, false] {
            let (mut rig, a, b) = Rig::pair(RigOptions::default(), options(mode, 100));
            if used {
                talk(&mut rig, a, b);
            }
            let kept = Rc::new(RefCell::new(Vec::new()));
            let up = rig.up(a);
            rig.net.set_filter(up, copy_to(&kept, |passing| passing.kind() == FrameKind::Data));
            let before = *rig.counters(b);
            rig.run_for(150 * MS_NS);
            let first = if used { after_talk(mode) } else { 0 };
            let probe = kept.borrow()[0].clone();
            let probe = packet(&probe).expect("a packet");
            assert_eq!(probe.opcode(), Opcode::RcWriteOnly);
            assert_eq!(probe.psn(), Psn::new(qp_psn()).add(first).prev());
            assert!(probe.ack_req() && probe.payload().is_empty());
            assert_eq!(probe.reth().map(|reth| (reth.va, reth.rkey, reth.dma_len)), Some((0, 0, 0)));
            let after = *rig.counters(b);
            assert!(after.rx_duplicates > before.rx_duplicates);
            assert_eq!((after.rx_in_order, after.resp_cqe_error), (before.rx_in_order, 0));
            assert_eq!((rig.sends(a).len(), rig.recvs(b).len()), if used { (3, 1) } else { (0, 0) });
        }
    }
}

fn qp_psn() -> u32 {
    QpOptions::default().sq_psn
}

/// PSNs that `talk` takes: packets of 3000, 5000 and a READ of 5000 bytes; in Plain the response
/// takes some as well.
const fn after_talk(mode: WireMode) -> u32 {
    match mode {
        Srnic => 3 + 5 + 1,
        Plain => 3 + 5 + 5,
    }
}

/// The answer to a probe says that a packet came twice. It came twice for no fault of the timers'
/// or the network's: what the sender has learned of both stays as it is.
#[test]
fn tails_are_repaired_as_fast_as_without_it() {
    let mut took = [0; 2];
    for (index, keepalive_ms) in [0, 20].into_iter().enumerate() {
        let (mut rig, a, b) = Rig::pair(RigOptions::default(), options(Srnic, keepalive_ms));
        let (local, remote) = (rig.region(a.node(), 5000), rig.region(b.node(), 5000));
        let drop_first = || drop_numbers([0], |passing| passing.kind() == FrameKind::Data);
        for round in 0..10 {
            rig.run_for(70 * MS_NS);
            let up = rig.up(a);
            rig.net.set_filter(up, drop_first());
            rig.write(a, local.at(0, 100), remote.at(0, 100));
            took[index] += rig.run_until(|rig| rig.sends(a).len() == round + 1, SECOND_NS).unwrap();
        }
    }
    let [without, with] = took;
    assert!(with <= without + 10_000, "{with} ns instead of {without}");
}

#[test]
fn what_the_peer_says_puts_probes_off() {
    for mode in MODES {
        let (mut rig, a, b) = Rig::pair(RigOptions::default(), options(mode, 10));
        let (local, remote) = (rig.region(a.node(), 5000), rig.region(b.node(), 5000));
        for _ in 0..100 {
            rig.write(a, local.at(0, 100), remote.at(0, 100));
            rig.run_for(5 * MS_NS);
        }
        assert_eq!((rig.counters(a).tx_keepalives, rig.counters(b).tx_keepalives), (0, 0), "{mode:?}");
    }
}

#[test]
fn it_can_be_switched_on_and_off() {
    for mode in MODES {
        let (mut rig, a, b) = Rig::pair(RigOptions::default(), options(mode, 0));
        let set = |rig: &mut Rig, qp: Qp, keepalive_ms| {
            let attr = QpAttr { keepalive_ms, ..QpAttr::default() };
            rig.modify(qp, &attr, QpAttrMask::KEEPALIVE).unwrap();
        };
        set(&mut rig, a, 10);
        rig.run_for(SECOND_NS);
        let asked = rig.counters(a).tx_keepalives;
        assert!((80..=101).contains(&asked), "{asked} probes in a second of ten milliseconds each");
        set(&mut rig, a, 0);
        rig.run_for(SECOND_NS);
        assert_eq!(rig.counters(a).tx_keepalives, asked);
        // In SQD it goes on.
        set(&mut rig, a, 10);
        rig.to_state(a, QpState::Sqd);
        rig.freeze(b.node(), true);
        rig.run_until(|rig| rig.state(a) == QpState::Err, 2 * SECOND_NS).unwrap();
    }
}

/// A life that ended asks no more, and the next one begins anew.
#[test]
fn it_ends_with_its_life() {
    for mode in MODES {
        let (mut rig, a, b) = Rig::pair(RigOptions::default(), options(mode, 10));
        rig.run_for(SECOND_NS);
        rig.reset(a);
        let asked = rig.counters(a).tx_keepalives;
        rig.run_for(100 * MS_NS);
        assert_eq!(rig.counters(a).tx_keepalives, asked);
        rig.reconnect(a, 0x2000, b, 0x3000);
        rig.run_for(SECOND_NS);
        assert_eq!((rig.state(a), rig.state(b)), (QpState::Rts, QpState::Rts));
        assert!(rig.counters(a).tx_keepalives + rig.counters(b).tx_keepalives > asked + 80);
        talk(&mut rig, a, b);
    }
}

#[test]
fn without_a_failure_detector_it_is_refused() {
    let (mut rig, a, _) = Rig::pair(RigOptions::default(), QpOptions { timeout: 0, ..QpOptions::default() });
    let attr = QpAttr { keepalive_ms: 10, ..QpAttr::default() };
    let refused = Err(ModifyError::Attribute(AttrError::KeepaliveWithoutTimeout));
    assert_eq!(rig.modify(a, &attr, QpAttrMask::KEEPALIVE), refused);
    let (mut rig, a, _) = Rig::pair(RigOptions::default(), options(Srnic, 10));
    rig.to_state(a, QpState::Sqd);
    let attr = QpAttr { timeout: 0, ..QpAttr::default() };
    assert_eq!(rig.modify(a, &attr, QpAttrMask::TIMEOUT), refused);
}

/// Idle queue pairs that all ask at once: a turn serves a bounded number of them, and each is
/// served.
#[test]
fn many_are_asked_in_turn() {
    let rig_options = RigOptions { max_qps: 1000, ..RigOptions::default() };
    let mut rig = Rig::new(rig_options);
    let (left, right) = (rig.add_node(), rig.add_node());
    let pairs: Vec<_> = (0..500)
        .map(|_| rig.connected(left, right, QpOptions { cq_entries: 16, ..options(Srnic, 1000) }))
        .collect();
    rig.run_for(4 * SECOND_NS);
    let asked =
        rig.engine(left).core().counters().tx_keepalives + rig.engine(right).core().counters().tx_keepalives;
    assert!((1500..=4000).contains(&asked), "{asked} probes of 500 connections in four seconds");
    rig.freeze(right, true);
    rig.run_for(3 * SECOND_NS);
    assert!(pairs.iter().all(|(a, _)| rig.state(*a) == QpState::Err));
}
