//! READs and atomics that are refused, withdrawn, or never answered: how each side learns of it.

use datapath::engine::AsyncEvent;
use datapath::memory::Access;
use datapath::qp::attr::RecoveryPolicy;
use datapath::qp::state::QpState;
use datapath::queue::WcStatus;
use simnet::filter::{Kept, copy_to, drop_all, drop_numbers};
use simnet::{Faults, FrameKind, Passing, Qp, QpOptions, Region, Rig, RigOptions, Verdict, Work};
use wire::{Kind, Pmtu};

const LIMIT_NS: u64 = 100_000_000;
const SECOND_NS: u64 = 1_000_000_000;

struct Bench {
    rig: Rig,
    a: Qp,
    b: Qp,
    local: Region,
    remote: Region,
}

fn bench(options: QpOptions) -> Bench {
    let options = QpOptions { pmtu: Pmtu::B256, sq_psn: 0xFF_FFFC, ..options };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let (local, remote) = (rig.region(a.node(), 8000), rig.region(b.node(), 8000));
    rig.fill(remote.all(), 1);
    Bench { rig, a, b, local, remote }
}

/// Two good READs, the bad request, one more of each kind. The first two bring what they should.
fn fails_between_good_ones(bench: &mut Bench, bad: &Work, status: WcStatus, what: &str) {
    let Bench { rig, a, local, remote, .. } = bench;
    rig.post(*a, &Work::read(local.at(0, 1500), remote.at(0, 1500)));
    rig.post(*a, &Work::read(local.at(1500, 500), remote.at(1500, 500)));
    rig.post(*a, bad);
    rig.post(*a, &Work::read(local.at(4000, 100), remote.at(4000, 100)));
    rig.write(*a, local.at(0, 10), remote.at(6000, 10));
    rig.run_until(|rig| rig.sends(*a).len() == 5, LIMIT_NS)
        .unwrap_or_else(|stuck| panic!("{what}: {stuck:?}"));
    let ends: Vec<_> = rig.sends(*a).iter().map(|done| done.status).collect();
    let (success, flushed) = (WcStatus::Success, WcStatus::WrFlushErr);
    assert_eq!(ends, [success, success, status, flushed, flushed], "{what}");
    assert_eq!(rig.state(*a), QpState::Err, "{what}");
    rig.verify(local.at(0, 2000), 1);
    rig.verify_guards();
}

/// Makes a request that will fail.
type Make = fn(&mut Bench) -> Work;

const REFUSED: [(&str, Make, WcStatus); 8] = [
    (
        "unknown rkey",
        |bench| Work::read(bench.local.at(3000, 700), bench.remote.all()).to(0x10_0000, 0x00FF_FF01),
        WcStatus::RemAccessErr,
    ),
    (
        "one byte behind the end",
        |bench| Work::read(bench.local.at(3000, 701), bench.remote.at(7300, 701)),
        WcStatus::RemAccessErr,
    ),
    (
        "a region that may not be read",
        |bench| {
            let (node, pd) = (bench.b.node(), bench.rig.pd(bench.b.node()));
            let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
            let closed = bench.rig.region_with(node, 1000, pd, access);
            Work::read(bench.local.at(3000, 700), closed.all())
        },
        WcStatus::RemAccessErr,
    ),
    (
        "a region without atomics",
        |bench| {
            let (node, pd) = (bench.b.node(), bench.rig.pd(bench.b.node()));
            let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
            let closed = bench.rig.region_with(node, 1000, pd, access);
            Work::fetch_add(bench.local.at(3000, 8), closed.all(), 1)
        },
        WcStatus::RemAccessErr,
    ),
    (
        "another protection domain",
        |bench| {
            let node = bench.b.node();
            let pd = bench.rig.engine_mut(node).core_mut().allocate_pd();
            let other = bench.rig.region_with(node, 1000, pd, Access::REMOTE_READ);
            Work::read(bench.local.at(3000, 700), other.all())
        },
        WcStatus::RemAccessErr,
    ),
    (
        "a word that is not aligned",
        |bench| Work::fetch_add(bench.local.at(3000, 8), bench.remote.at(4, 8), 1),
        WcStatus::RemInvReqErr,
    ),
    (
        "an atomic behind the end",
        |bench| Work::compare_swap(bench.local.at(3000, 8), bench.remote.at(8000, 8), 0, 1),
        WcStatus::RemAccessErr,
    ),
    (
        "a target that may not be written",
        |bench| {
            let (node, pd) = (bench.a.node(), bench.rig.pd(bench.a.node()));
            let closed = bench.rig.region_with(node, 1000, pd, Access::REMOTE_READ);
            Work::read(closed.all(), bench.remote.at(0, 1000))
        },
        WcStatus::LocProtErr,
    ),
];

#[test]
fn what_a_peer_may_not_read() {
    for (what, make, status) in REFUSED {
        for reverse_loss in [0, 200_000] {
            let mut bench = bench(QpOptions::default());
            let back = bench.rig.up(bench.b);
            bench.rig.net.set_faults(back, Faults::loss(reverse_loss));
            let bad = make(&mut bench);
            fails_between_good_ones(&mut bench, &bad, status, what);
        }
    }
}

#[test]
fn a_queue_pair_that_allows_no_reads_or_has_no_slot_for_them() {
    let write_only = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let cases = [
        QpOptions { access: write_only, ..QpOptions::default() },
        QpOptions { max_dest_rd_atomic: 0, ..QpOptions::default() },
    ];
    for options in cases {
        let Bench { mut rig, a, b, local, remote } = bench(options);
        rig.post(a, &Work::read(local.at(0, 100), remote.at(0, 100)));
        rig.run_until(|rig| rig.sends(a).len() == 1, LIMIT_NS).unwrap();
        assert_eq!(rig.sends(a)[0].status, WcStatus::RemInvReqErr);
        assert_eq!(rig.state(b), QpState::Err);
        rig.verify_untouched(local.all());
    }
}

#[test]
fn more_reads_than_the_peer_takes_at_once() {
    let options = QpOptions { max_rd_atomic: 8, max_dest_rd_atomic: 2, ..QpOptions::default() };
    let Bench { mut rig, a, local, remote, .. } = bench(options);
    for index in 0..4 {
        rig.post(a, &Work::read(local.at(1000 * index, 700), remote.at(1000 * index, 700)));
    }
    rig.run_until(|rig| rig.sends(a).len() == 4, LIMIT_NS).unwrap();
    let ends: Vec<_> = rig.sends(a).iter().map(|done| done.status).collect();
    let success = WcStatus::Success;
    assert_eq!(ends, [success, success, WcStatus::RemInvReqErr, WcStatus::WrFlushErr]);
    rig.verify(local.at(0, 700), 1);
}

#[test]
fn memory_withdrawn_while_it_is_read() {
    for lost in [0, 1, 3] {
        let mut bench = bench(QpOptions { window: 4, ..QpOptions::default() });
        let node = bench.b.node();
        let gone = bench.rig.region(node, 3000);
        let (a, b) = (bench.a, bench.b);
        let naks = |passing: &Passing<'_>| passing.kind() == FrameKind::ErrorNak;
        let up = bench.rig.up(b);
        bench.rig.net.set_filter(up, drop_numbers(0..lost, naks));
        let Bench { rig, local, remote, .. } = &mut bench;
        rig.post(a, &Work::read(local.at(0, 1000), remote.at(0, 1000)));
        rig.post(a, &Work::read(local.at(1000, 3000), gone.all()));
        rig.post(a, &Work::read(local.at(4000, 100), remote.at(0, 100)));
        // Responses of the second have begun.
        rig.run_until(|rig| rig.counters(b).tx_responses >= 6, LIMIT_NS).unwrap();
        rig.deregister(gone);
        rig.run_until(|rig| rig.sends(a).len() == 3, LIMIT_NS)
            .unwrap_or_else(|stuck| panic!("{lost} NAKs lost: {stuck:?}"));
        let ends: Vec<_> = rig.sends(a).iter().map(|done| done.status).collect();
        assert_eq!(ends, [WcStatus::Success, WcStatus::RemAccessErr, WcStatus::WrFlushErr], "{lost}");
        rig.verify(local.at(0, 1000), 1);
        assert_eq!(rig.state(b), QpState::Err, "the responder's queue pair ends too");
        rig.verify_guards();
    }
}

/// A READ of seed 2 that is complete, whose acknowledgement is lost, and whose memory is withdrawn
/// then.
fn withdrawn_when_nobody_knew_that_it_arrived(options: QpOptions) -> Bench {
    let mut bench = bench(options);
    let Bench { rig, a, b, local, .. } = &mut bench;
    let gone = rig.region(b.node(), 1000);
    rig.fill(gone.all(), 2);
    let up = rig.up(*a);
    rig.net.set_filter(up, drop_all(|passing: &Passing<'_>| passing.is_read_ack()));
    rig.post(*a, &Work::read(local.at(0, 1000), gone.all()));
    rig.run_until(|rig| rig.sends(*a).len() == 1, LIMIT_NS).unwrap();
    rig.deregister(gone);
    rig.net.clear_filter(up);
    bench
}

/// A READ that is complete, and whose acknowledgement is lost: its memory may end.
#[test]
fn memory_withdrawn_when_all_of_it_has_arrived() {
    for recovery in [RecoveryPolicy::SelectiveRepeat, RecoveryPolicy::GoBackN] {
        let options = QpOptions { recovery, ..QpOptions::default() };
        let Bench { mut rig, a, b, local, remote } = withdrawn_when_nobody_knew_that_it_arrived(options);
        rig.fill(remote.at(2000, 500), 3);
        rig.run_until_quiet(60 * SECOND_NS).unwrap_or_else(|stuck| panic!("{recovery:?}: {stuck:?}"));
        assert_eq!([rig.state(a), rig.state(b)], [QpState::Rts; 2], "{recovery:?}");
        rig.post(a, &Work::read(local.at(2000, 500), remote.at(2000, 500)));
        rig.write(a, local.at(0, 100), remote.at(5000, 100));
        rig.run_until(|rig| rig.sends(a).len() == 3, LIMIT_NS).unwrap();
        assert!(rig.sends(a).iter().all(|done| done.status == WcStatus::Success), "{recovery:?}");
        rig.run_until_quiet(SECOND_NS).expect("the later response acknowledges the earlier one, too");
        assert_eq!([rig.state(a), rig.state(b)], [QpState::Rts; 2], "{recovery:?}");
        rig.verify(local.at(0, 1000), 2);
        rig.verify(local.at(2000, 500), 3);
        rig.verify_guards();
    }
}

/// A READ whose responses were all sent once, those from number `lost` on are lost, and whose
/// memory is withdrawn then. Returns the key that ended.
fn withdrawn_when_some_of_it_was_lost(options: QpOptions, lost: u64) -> (Bench, Region) {
    let mut bench = bench(options);
    let Bench { rig, a, b, local, .. } = &mut bench;
    let gone = rig.region(b.node(), 1000);
    let up = rig.up(*b);
    let responses = |passing: &Passing<'_>| {
        passing.packet.is_some_and(|packet| packet.opcode().kind() == Kind::ReadResponse)
    };
    rig.net.set_filter(up, drop_numbers(lost..1000, responses));
    rig.post(*a, &Work::read(local.at(0, 1000), gone.all()));
    rig.run_until(|rig| rig.counters(*b).tx_responses == 4, LIMIT_NS).unwrap();
    rig.deregister(gone);
    rig.net.clear_filter(up);
    (bench, gone)
}

/// The requester asks again for what it misses, and hears that it is gone.
#[test]
fn memory_withdrawn_when_some_of_it_was_lost() {
    for recovery in [RecoveryPolicy::SelectiveRepeat, RecoveryPolicy::GoBackN] {
        for lost in [0, 2, 3] {
            let options = QpOptions { recovery, ..QpOptions::default() };
            let (Bench { mut rig, a, b, .. }, _) = withdrawn_when_some_of_it_was_lost(options, lost);
            rig.run_until(|rig| rig.sends(a).len() == 1, 60 * SECOND_NS).unwrap();
            assert_eq!(rig.sends(a)[0].status, WcStatus::RemAccessErr, "{recovery:?}, from {lost} on");
            rig.run_until_quiet(SECOND_NS).expect("nobody asks any more");
            assert_eq!([rig.state(a), rig.state(b)], [QpState::Err, QpState::Rts]);
            rig.verify_guards();
        }
    }
}

/// Some of a READ is lost, its memory is withdrawn, and the error NAK that says so is lost, too: it
/// is said again whenever the requester asks.
#[test]
fn memory_withdrawn_when_some_of_it_was_lost_and_so_is_the_answer() {
    for recovery in [RecoveryPolicy::SelectiveRepeat, RecoveryPolicy::GoBackN] {
        let options = QpOptions { recovery, ..QpOptions::default() };
        let (Bench { mut rig, a, b, .. }, _) = withdrawn_when_some_of_it_was_lost(options, 2);
        let up = rig.up(b);
        rig.net.set_filter(up, drop_numbers(0..3, |passing| passing.kind() == FrameKind::ErrorNak));
        rig.run_until(|rig| rig.sends(a).len() == 1, 60 * SECOND_NS).unwrap();
        assert_eq!(rig.sends(a)[0].status, WcStatus::RemAccessErr, "{recovery:?}");
        assert_eq!(rig.counters(b).tx_error_naks, 4, "{recovery:?}");
    }
}

/// Some of a READ is lost, its memory is withdrawn, and a request behind it is refused meanwhile:
/// what was executed comes first (swarm seed 531342).
#[test]
fn memory_withdrawn_when_some_of_it_was_lost_and_a_request_is_refused() {
    for recovery in [RecoveryPolicy::SelectiveRepeat, RecoveryPolicy::GoBackN] {
        let options = QpOptions { recovery, timeout: 0, ..QpOptions::default() };
        let (Bench { mut rig, a, b, local, .. }, gone) = withdrawn_when_some_of_it_was_lost(options, 2);
        // A key that ended.
        rig.post(a, &Work::write(local.at(0, 100), gone.at(0, 100)));
        rig.run_until(|rig| rig.sends(a).len() == 2, 60 * SECOND_NS).unwrap();
        let ends: Vec<_> = rig.sends(a).iter().map(|done| done.status).collect();
        assert_eq!(ends, [WcStatus::RemAccessErr, WcStatus::WrFlushErr], "{recovery:?}");
        rig.run_until_quiet(SECOND_NS).expect("both ends are in ERR");
        assert_eq!([rig.state(a), rig.state(b)], [QpState::Err; 2], "{recovery:?}");
    }
}

/// Behind a READ whose memory was withdrawn stands another, of which something is lost, too, or for
/// which the window has no room: what the peer says of the first one again must set it free.
#[test]
fn a_response_that_is_kept_back_keeps_no_other_one_back() {
    for (window, lost) in [(128, 1), (4, 0)] {
        let options = QpOptions { window, timeout: 0, ..QpOptions::default() };
        let Bench { mut rig, a, b, local, remote } = withdrawn_when_nobody_knew_that_it_arrived(options);
        let back = rig.up(b);
        rig.net.set_filter(back, drop_numbers(0..lost, |passing| passing.kind() == FrameKind::Data));
        rig.post(a, &Work::read(local.at(2000, 200), remote.at(0, 200)));
        rig.run_until(|rig| rig.sends(a).len() == 2, 5 * SECOND_NS)
            .unwrap_or_else(|stuck| panic!("window {window}: {stuck:?}"));
        assert!(rig.sends(a).iter().all(|done| done.status == WcStatus::Success), "{:?}", rig.sends(a));
        rig.run_until_quiet(SECOND_NS).expect("all is acknowledged");
        assert_eq!([rig.state(a), rig.state(b)], [QpState::Rts; 2], "window {window}");
    }
}

/// A READ is complete, its READ-ACK is lost, its memory ends, and a copy of its request comes late:
/// nobody misses anything.
#[test]
fn a_late_copy_of_a_read_whose_memory_was_withdrawn() {
    for recovery in [RecoveryPolicy::SelectiveRepeat, RecoveryPolicy::GoBackN] {
        let Bench { mut rig, a, b, local, remote } = bench(QpOptions { recovery, ..QpOptions::default() });
        let gone = rig.region(b.node(), 1000);
        rig.fill(gone.all(), 2);
        let (up, copies) = (rig.up(a), Kept::default());
        let mut copy = copy_to(&copies, |passing| passing.kind() == FrameKind::Data);
        let keep_or_drop = move |passing: &Passing<'_>| match copy(passing) {
            _ if passing.is_read_ack() => Verdict::Drop,
            verdict => verdict,
        };
        rig.net.set_filter(up, Box::new(keep_or_drop));
        rig.post(a, &Work::read(local.at(0, 1000), gone.all()));
        rig.run_until(|rig| rig.sends(a).len() == 1, LIMIT_NS).unwrap();
        rig.deregister(gone);
        rig.net.clear_filter(up);
        copies.take().into_iter().for_each(|frame| rig.net.inject(rig.now(), up, frame));
        rig.run_until_quiet(60 * SECOND_NS).unwrap_or_else(|stuck| panic!("{recovery:?}: {stuck:?}"));
        rig.post(a, &Work::read(local.at(2000, 500), remote.at(0, 500)));
        rig.run_until(|rig| rig.sends(a).len() == 2, LIMIT_NS)
            .unwrap_or_else(|stuck| panic!("{recovery:?}: {stuck:?}"));
        assert!(rig.sends(a).iter().all(|done| done.status == WcStatus::Success), "{:?}", rig.sends(a));
        assert_eq!([rig.state(a), rig.state(b)], [QpState::Rts; 2], "{recovery:?}");
        rig.verify(local.at(0, 1000), 2);
        rig.run_until_quiet(SECOND_NS).expect("the later response acknowledges the earlier one, too");
    }
}

#[test]
fn memory_withdrawn_while_a_request_waits_for_one_before_it() {
    let Bench { mut rig, a, b, local, remote } = bench(QpOptions::default());
    let gone = rig.region(b.node(), 1000);
    let up = rig.up(a);
    rig.net.set_filter(up, drop_numbers(0..1, |passing| passing.kind() == FrameKind::Data));
    rig.write(a, local.at(0, 100), remote.at(5000, 100));
    rig.post(a, &Work::read(local.at(1000, 1000), gone.all()));
    rig.run_until(|rig| rig.counters(b).rx_out_of_order == 1, LIMIT_NS).unwrap();
    rig.deregister(gone);
    rig.run_until(|rig| rig.sends(a).len() == 2, LIMIT_NS).unwrap();
    let ends: Vec<_> = rig.sends(a).iter().map(|done| done.status).collect();
    assert_eq!(ends, [WcStatus::Success, WcStatus::RemAccessErr]);
    rig.run_until_quiet(SECOND_NS).expect("both queue pairs are in ERR");
    let slow_path = rig.engine(b.node()).core().slow_path_stats();
    assert_eq!(slow_path.receivers_open, 0, "the slow path forgets what ended: {slow_path:?}");
}

#[test]
fn a_target_withdrawn_while_it_is_filled() {
    let Bench { mut rig, a, local, remote, .. } = bench(QpOptions { window: 4, ..QpOptions::default() });
    let gone = rig.region(a.node(), 3000);
    rig.post(a, &Work::read(local.at(0, 1000), remote.at(0, 1000)));
    rig.post(a, &Work::read(gone.all(), remote.at(0, 3000)));
    rig.post(a, &Work::read(local.at(4000, 100), remote.at(0, 100)));
    rig.run_until(|rig| rig.counters(a).rx_responses >= 6, LIMIT_NS).unwrap();
    rig.deregister(gone);
    rig.run_until(|rig| rig.sends(a).len() == 3, LIMIT_NS).unwrap();
    let ends: Vec<_> = rig.sends(a).iter().map(|done| done.status).collect();
    assert_eq!(ends, [WcStatus::Success, WcStatus::LocProtErr, WcStatus::WrFlushErr]);
    rig.verify(local.at(0, 1000), 1);
}

#[test]
fn responses_that_never_arrive_end_both_queue_pairs() {
    let options = QpOptions { timeout: 8, retry_cnt: 2, ..QpOptions::default() };
    for (what, acks_pass) in [("responses lost", true), ("all lost", false)] {
        let Bench { mut rig, a, b, local, remote } = bench(options);
        let response = |passing: &Passing<'_>| {
            let kind = passing.packet.map(|packet| packet.opcode().kind());
            matches!(kind, Some(Kind::ReadResponse | Kind::AtomicAck))
        };
        let up = rig.up(b);
        rig.net.set_filter(up, drop_all(move |passing| !acks_pass || response(passing)));
        rig.post(a, &Work::read(local.at(0, 1000), remote.at(0, 1000)));
        rig.post(a, &Work::fetch_add(local.at(1000, 8), remote.at(0, 8), 1));
        rig.run_until(|rig| rig.sends(a).len() == 2, 2 * SECOND_NS)
            .unwrap_or_else(|stuck| panic!("{what}: {stuck:?}"));
        let ends: Vec<_> = rig.sends(a).iter().map(|done| done.status).collect();
        assert_eq!(ends, [WcStatus::RetryExcErr, WcStatus::WrFlushErr], "{what}");
        rig.run_until(|rig| rig.state(b) == QpState::Err, 2 * SECOND_NS)
            .unwrap_or_else(|stuck| panic!("{what}: {stuck:?}"));
        assert_eq!(rig.events(b.node()), [AsyncEvent::QpFatal { qpn: rig.qpn(b) }], "{what}");
        rig.run_until_quiet(SECOND_NS).expect("dead queue pairs make no more events");
    }
}

#[test]
fn a_reset_in_the_middle_of_reads_leaves_nothing_behind() {
    for round in 0..6 {
        let Bench { mut rig, a, b, local, remote } = bench(QpOptions::default());
        for faults in [rig.up(a), rig.up(b)] {
            rig.net.set_faults(faults, Faults::loss(50_000));
        }
        for life in 0..4 {
            for index in 0..6 {
                rig.post(a, &Work::read(local.at(1000 * index, 1000), remote.at(1000 * index, 1000)));
            }
            rig.run_for(1500 * (round + life));
            rig.reconnect(a, 0x10_0000 * u32::try_from(life + 1).unwrap(), b, 7);
        }
        rig.take_completions(a);
        rig.post(a, &Work::read(local.at(0, 6000), remote.at(0, 6000)));
        rig.run_until(|rig| rig.sends(a).len() == 1, SECOND_NS).unwrap();
        assert_eq!(rig.sends(a)[0].status, WcStatus::Success);
        rig.verify(local.at(0, 6000), 1);
        rig.run_until_quiet(SECOND_NS).expect("nothing of the lives before is left");
    }
}

/// A READ is complete at the requester, its READ-ACK is lost, its memory is withdrawn (ADR 14: the
/// response is kept back and its timer rests). Then the peer does something wrong, hears the error
/// NAK, and is in ERR: it says nothing any more. The responder must go to ERR and flush its
/// receives.
#[test]
fn a_refusal_while_a_response_is_kept_back_ends_the_queue_pair() {
    let options = QpOptions { pmtu: Pmtu::B256, timeout: 8, retry_cnt: 2, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let local = rig.region(a.node(), 8000);
    let gone = rig.region(b.node(), 1000);
    let inbox = rig.region(b.node(), 1000);
    rig.post_recv(b, inbox.all());
    let up = rig.up(a);
    rig.net.set_filter(up, drop_all(|passing: &Passing<'_>| passing.is_read_ack()));
    rig.post(a, &Work::read(local.at(0, 1000), gone.all()));
    rig.run_until(|rig| rig.sends(a).len() == 1, SECOND_NS).unwrap();
    assert_eq!(rig.sends(a)[0].status, WcStatus::Success);
    assert!(rig.deregister(gone));
    // A key that ended.
    rig.post(a, &Work::write(local.at(0, 100), gone.at(0, 100)));
    rig.run_until(|rig| rig.sends(a).len() == 2, SECOND_NS).unwrap();
    assert_eq!(rig.sends(a)[1].status, WcStatus::RemAccessErr);
    assert_eq!(rig.state(a), QpState::Err);
    rig.net.clear_filter(up);
    // Failure time: (2 + 1) x 1 ms + 1 s.
    rig.run_for(10 * SECOND_NS);
    assert_eq!(rig.state(b), QpState::Err, "{}", rig.report());
    assert_eq!(rig.recvs(b).len(), 1, "the receive is flushed");
}

/// Among many queue pairs, timers are taken together: that of the responses ends the queue pair,
/// and then that of the requests is served, which was taken out of the wheel before. A dead queue
/// pair waits for responses, and its timer goes on.
#[test]
fn two_timers_that_fire_together_end_a_queue_pair_once() {
    for at in 0..40 {
        let options = QpOptions { timeout: 8, retry_cnt: 2, ..QpOptions::default() };
        let (mut rig, a, b) = Rig::pair(RigOptions { crowd: 0, ..RigOptions::default() }, options);
        let (left, right) = (rig.region(a.node(), 8000), rig.region(b.node(), 8000));
        rig.post(b, &Work::read(right.at(0, 1000), left.at(0, 1000)));
        rig.run_for(100 * at);
        rig.post(a, &Work::read(left.at(1000, 1000), right.at(1000, 1000)));
        rig.run_until(|rig| rig.counters(a).tx_responses >= 1 && rig.counters(a).tx_requests >= 1, SECOND_NS)
            .unwrap();
        for qp in [a, b] {
            let up = rig.up(qp);
            rig.net.set_filter(up, drop_all(|_: &Passing<'_>| true));
        }
        rig.freeze(b.node(), true);
        rig.run_until(|rig| rig.state(a) == QpState::Err, SECOND_NS).unwrap();
        let before = rig.counters(a).response_timeouts;
        rig.run_for(2_000_000);
        let counters = rig.counters(a);
        assert_eq!((counters.retry_exceeded, counters.response_timeouts), (1, before), "posted at {at}");
        assert_eq!(
            rig.engine(a.node()).next_deadline(),
            None,
            "posted at {at}: a dead queue pair has no timer"
        );
    }
}

/// A READ of 2 GiB in packets of 256 bytes has 2^23 response packets, as many as all under way may
/// have. A READ before it is complete, and its READ-ACK is lost (or overtaken by the new request):
/// the responder refuses a valid request.
#[test]
fn the_longest_read_behind_another() {
    let options =
        QpOptions { pmtu: Pmtu::B256, max_rd_atomic: 4, max_dest_rd_atomic: 4, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let local = rig.region(a.node(), 1 << 31);
    let remote = rig.region(b.node(), 1 << 31);
    let up = rig.up(a);
    rig.net.set_filter(up, drop_numbers(0..1, |passing: &Passing<'_>| passing.is_read_ack()));
    rig.post(a, &Work::read(local.at(0, 100), remote.at(0, 100)));
    rig.post(a, &Work::read(local.all(), remote.all()));
    rig.run_for(20_000);
    assert_eq!([rig.state(a), rig.state(b)], [QpState::Rts; 2], "{:?}", rig.sends(a));
}
