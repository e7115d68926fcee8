//! What may be changed while the send queue is drained (SQD), and what is told when it is (IBA
//! 11.2.5.3).

use datapath::engine::{AsyncEvent, ModifyError};
use datapath::qp::attr::{QpAttr, QpAttrMask, RecoveryPolicy};
use datapath::qp::state::QpState;
use datapath::queue::WcStatus;
use simnet::filter::{drop_all, drop_psn};
use simnet::{Passing, PortOptions, Qp, QpOptions, Rig, RigOptions, Work};
use wire::{Kind, Pmtu, Psn, WireMode};

const SECOND_NS: u64 = 1_000_000_000;

fn is_response(passing: &Passing<'_>) -> bool {
    passing.packet.is_some_and(|packet| packet.opcode().kind() == Kind::ReadResponse)
}

/// To SQD; `notify` asks for the event.
fn drain(rig: &mut Rig, qp: Qp, notify: bool) {
    let attr = QpAttr { state: QpState::Sqd, en_sqd_async_notify: notify, ..QpAttr::default() };
    rig.modify(qp, &attr, QpAttrMask::STATE | QpAttrMask::EN_SQD_ASYNC_NOTIFY).unwrap();
}

/// MAX_QP_RD_ATOMIC may be set in SQD (the table says so) and is reported by a query, but has no
/// effect.
#[test]
fn more_reads_allowed_in_sqd() {
    let options = QpOptions { max_rd_atomic: 0, max_dest_rd_atomic: 4, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let (local, remote) = (rig.region(a.node(), 1000), rig.region(b.node(), 1000));
    drain(&mut rig, a, false);
    rig.modify(a, &QpAttr { max_rd_atomic: 2, ..QpAttr::default() }, QpAttrMask::MAX_QP_RD_ATOMIC).unwrap();
    assert_eq!(rig.engine(a.node()).core().query_qp(rig.qpn(a)).unwrap().max_rd_atomic, 2);
    rig.to_state(a, QpState::Rts);
    rig.post(a, &Work::read(local.at(0, 100), remote.at(0, 100)));
    rig.run_until(|rig| rig.sends(a).len() == 1, SECOND_NS).unwrap();
    assert_eq!(rig.sends(a)[0].status, WcStatus::Success);
}

/// Fewer READs, as the peer asks for: the old limit still holds, and the peer refuses the second
/// one.
#[test]
fn fewer_reads_allowed_in_sqd() {
    let options = QpOptions { max_rd_atomic: 4, max_dest_rd_atomic: 4, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let (local, remote) = (rig.region(a.node(), 40_000), rig.region(b.node(), 40_000));
    drain(&mut rig, a, false);
    rig.modify(a, &QpAttr { max_rd_atomic: 1, ..QpAttr::default() }, QpAttrMask::MAX_QP_RD_ATOMIC).unwrap();
    rig.to_state(a, QpState::Rts);
    let up = rig.up(b);
    rig.net.set_filter(up, drop_all(is_response));
    for index in 0..4 {
        rig.post(a, &Work::read(local.at(1000 * index, 100), remote.at(1000 * index, 100)));
    }
    rig.run_for(50_000);
    assert_eq!(rig.counters(b).rx_reads, 1, "one READ at a time was allowed");
}

/// In SQD the responder may be allowed more READs at a time.
#[test]
fn more_reads_taken_in_sqd() {
    let options = QpOptions { max_rd_atomic: 4, max_dest_rd_atomic: 0, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let (local, remote) = (rig.region(a.node(), 1000), rig.region(b.node(), 1000));
    drain(&mut rig, b, false);
    rig.modify(b, &QpAttr { max_dest_rd_atomic: 4, ..QpAttr::default() }, QpAttrMask::MAX_DEST_RD_ATOMIC)
        .unwrap();
    rig.to_state(b, QpState::Rts);
    rig.post(a, &Work::read(local.at(0, 100), remote.at(0, 100)));
    rig.run_until(|rig| rig.sends(a).len() == 1, SECOND_NS).unwrap();
    assert_eq!(rig.sends(a)[0].status, WcStatus::Success);
}

/// TIMEOUT may be set in SQD. It reaches the requests' watchdog, and that of responses sent, but
/// not that of READs awaited.
#[test]
fn a_timeout_set_in_sqd_counts_for_reads_too() {
    for (before, after, fails) in [(8, 0, false), (0, 8, true)] {
        let options = QpOptions { timeout: before, retry_cnt: 2, ..QpOptions::default() };
        let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
        let (local, remote) = (rig.region(a.node(), 1000), rig.region(b.node(), 1000));
        drain(&mut rig, a, false);
        rig.modify(a, &QpAttr { timeout: after, ..QpAttr::default() }, QpAttrMask::TIMEOUT).unwrap();
        rig.to_state(a, QpState::Rts);
        // Acknowledged, not answered: the first response is lost, and then the peer is dead.
        let up = rig.up(b);
        rig.net.set_filter(up, drop_all(is_response));
        rig.post(a, &Work::read(local.at(0, 100), remote.at(0, 100)));
        rig.run_for(20_000);
        rig.freeze(b.node(), true);
        rig.run_for(10 * SECOND_NS);
        let state = if fails { QpState::Err } else { QpState::Rts };
        assert_eq!(rig.state(a), state, "timeout {before}, then {after}: {:?}", rig.sends(a));
    }
}

/// An attribute that is set while the queue drains takes the wish for the event back.
#[test]
fn an_attribute_set_while_sqd_drains_does_not_take_the_event_back() {
    const PSN: u32 = 0x1000;
    let options = QpOptions { sq_psn: PSN, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let (local, remote) = (rig.region(a.node(), 1000), rig.region(b.node(), 1000));
    let up = rig.up(a);
    rig.net.set_filter(up, drop_psn(Psn::new(PSN), 1));
    rig.write(a, local.at(0, 100), remote.at(0, 100));
    rig.run_for(2000);
    drain(&mut rig, a, true);
    // As `ibv_modify_qp` is mostly called: the state is in the mask.
    let attr = QpAttr { state: QpState::Sqd, min_rnr_timer: 3, ..QpAttr::default() };
    rig.modify(a, &attr, QpAttrMask::STATE | QpAttrMask::MIN_RNR_TIMER).unwrap();
    rig.run_until(|rig| rig.sends(a).len() == 1, SECOND_NS).unwrap();
    rig.run_for(1000);
    assert_eq!(rig.events(a.node()), [AsyncEvent::SqDrained { qpn: rig.qpn(a) }]);
}

/// A READ got its slot and found no room in the port; then the queue stops. It has not begun:
/// nothing was sent. The response timer waits for its response all the same, and ends the queue
/// pair.
#[test]
fn a_read_that_found_no_room_before_sqd_waits_for_no_response() {
    let options = QpOptions { timeout: 8, retry_cnt: 2, pmtu: Pmtu::B4096, ..QpOptions::default() };
    let port = PortOptions { tx_ring: 1, ..PortOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions { port, ..RigOptions::default() }, options);
    let (local, remote) = (rig.region(a.node(), 5000), rig.region(b.node(), 5000));
    rig.write(a, local.at(0, 4096), remote.at(0, 4096));
    rig.post(a, &Work::read(local.at(0, 100), remote.at(0, 100)));
    rig.turn(a.node());
    assert_eq!((rig.counters(a).tx_requests, rig.counters(a).tx_ring_full), (1, 1));
    drain(&mut rig, a, true);
    rig.run_for(100_000_000);
    assert_eq!(rig.events(a.node()), [AsyncEvent::SqDrained { qpn: rig.qpn(a) }], "{:?}", rig.sends(a));
    rig.to_state(a, QpState::Rts);
    rig.run_until(|rig| rig.sends(a).len() == 2, SECOND_NS).unwrap();
    assert!(rig.sends(a).iter().all(|done| done.status == WcStatus::Success), "{:?}", rig.sends(a));
}

/// Plain: during an RNR wait (or between a timeout and what it sends again) the cursor stands at
/// the oldest request, as if none had begun. The program is told that the queue is drained while
/// its SEND is under way.
#[test]
fn plain_is_not_drained_while_it_has_gone_back() {
    let options = QpOptions {
        wire_mode: WireMode::Plain,
        recovery: RecoveryPolicy::GoBackN,
        min_rnr_timer: 10,
        ..QpOptions::default()
    };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let (local, inbox) = (rig.region(a.node(), 100), rig.region(b.node(), 100));
    rig.send(a, local.all());
    rig.run_until(|rig| rig.counters(a).rx_rnr_naks == 1, SECOND_NS).unwrap();
    drain(&mut rig, a, true);
    rig.run_for(1000);
    assert_eq!(
        (rig.events(a.node()), rig.sends(a)),
        (&[][..], &[][..]),
        "the SEND has begun and is not done"
    );
    rig.post_recv(b, inbox.all());
    rig.run_until(|rig| rig.sends(a).len() == 1, SECOND_NS).unwrap();
    rig.run_for(1000);
    assert_eq!(rig.events(a.node()), [AsyncEvent::SqDrained { qpn: rig.qpn(a) }]);
}

/// What is under way was begun by the old limits: they stay until it is done.
#[test]
fn reads_under_way_keep_their_limits() {
    let options = QpOptions { max_rd_atomic: 4, max_dest_rd_atomic: 4, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let (local, remote) = (rig.region(a.node(), 1000), rig.region(b.node(), 1000));
    let up = rig.up(b);
    rig.net.set_filter(up, drop_all(is_response));
    rig.post(a, &Work::read(local.all(), remote.all()));
    rig.run_until(|rig| rig.counters(b).rx_reads == 1, SECOND_NS).unwrap();
    for qp in [a, b] {
        drain(&mut rig, qp, false);
    }
    let two = QpAttr { max_rd_atomic: 2, max_dest_rd_atomic: 2, ..QpAttr::default() };
    let asks = QpAttrMask::MAX_QP_RD_ATOMIC;
    assert_eq!(rig.modify(a, &two, asks), Err(ModifyError::UnderWay("max_rd_atomic")));
    let answers = QpAttrMask::MAX_DEST_RD_ATOMIC;
    assert_eq!(rig.modify(b, &two, answers), Err(ModifyError::UnderWay("max_dest_rd_atomic")));
    let more = QpAttr { max_dest_rd_atomic: 8, ..QpAttr::default() };
    rig.modify(b, &more, answers).unwrap();
    rig.net.clear_filter(up);
    rig.run_until(|rig| rig.sends(a).len() == 1, SECOND_NS).unwrap();
    assert_eq!(rig.sends(a)[0].status, WcStatus::Success);
    rig.run_for(SECOND_NS);
    rig.modify(a, &two, asks).unwrap();
    rig.modify(b, &two, answers).unwrap();
}

/// RESET ends what is under way, whatever its limits were.
#[test]
fn a_reset_in_sqd_minds_no_reads() {
    let options = QpOptions { max_rd_atomic: 4, max_dest_rd_atomic: 4, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let (local, remote) = (rig.region(a.node(), 1000), rig.region(b.node(), 1000));
    rig.post(a, &Work::read(local.all(), remote.all()));
    rig.turn(a.node());
    assert_eq!(rig.counters(a).tx_requests, 1);
    drain(&mut rig, a, false);
    rig.reset(a);
    assert_eq!(rig.state(a), QpState::Reset);
}
