//! What is refused, and how each side learns of it.

use datapath::memory::Access;
use datapath::qp::state::QpState;
use datapath::queue::{PostError, WcStatus};
use simnet::filter::drop_psn;
use simnet::{Faults, FrameKind, Passing, Qp, QpOptions, Region, Rig, RigOptions, Span, Verdict, Work};
use wire::{Pmtu, Psn};

const LIMIT_NS: u64 = 100_000_000;
const PSN: u32 = 0xFF_FFFC;

struct Bench {
    rig: Rig,
    a: Qp,
    b: Qp,
    source: Region,
    target: Region,
}

fn bench(options: QpOptions) -> Bench {
    let options = QpOptions { pmtu: Pmtu::B256, sq_psn: PSN, ..options };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let (source, target) = (rig.region(a.node(), 8000), rig.region(b.node(), 8000));
    rig.fill(source.all(), 1);
    Bench { rig, a, b, source, target }
}

/// Makes a request that will fail.
type Make = fn(&mut Bench) -> Work;

/// Two good WRITEs, the bad request, two more. Returns the wr_id of the bad one.
fn post_around(bench: &mut Bench, bad: &Work) -> u64 {
    let Bench { rig, a, source, target, .. } = bench;
    rig.write(*a, source.at(0, 1000), target.at(0, 1000));
    rig.write(*a, source.at(0, 500), target.at(1000, 500));
    let failing = rig.post(*a, bad);
    rig.write(*a, source.at(0, 1000), target.at(4000, 1000));
    rig.send(*a, source.at(0, 1000));
    failing
}

/// The requests before the bad one succeed, it fails with `status`, those behind it are flushed;
/// all in order.
fn expect_ends(bench: &mut Bench, failing: u64, status: WcStatus) {
    let Bench { rig, a, target, .. } = bench;
    rig.run_until(|rig| rig.sends(*a).len() == 5, LIMIT_NS).unwrap();
    let ends: Vec<_> = rig.sends(*a).iter().map(|done| (done.wr_id, done.status)).collect();
    let expected = [
        (failing - 2, WcStatus::Success),
        (failing - 1, WcStatus::Success),
        (failing, status),
        (failing + 1, WcStatus::WrFlushErr),
        (failing + 2, WcStatus::WrFlushErr),
    ];
    assert_eq!(ends, expected);
    assert_eq!(rig.state(*a), QpState::Err);
    rig.verify(target.at(0, 1000), 1);
    rig.verify(target.at(1000, 500), 1);
    rig.verify_untouched(target.at(1500, 2500));
    rig.verify_guards();
}

#[test]
fn what_a_peer_may_not_write() {
    let cases: [(&str, Make); 8] = [
        ("unknown rkey", |bench| {
            Work::write(bench.source.at(0, 700), bench.target.at(2000, 700)).to(0x10_0000, 0x00FF_FF01)
        }),
        ("stale key byte", |bench| {
            let (addr, key) = (bench.target.iova, bench.target.key ^ 0x7F);
            Work::write(bench.source.at(0, 700), bench.target.all()).to(addr, key)
        }),
        ("one byte behind the end", |bench| Work::write(bench.source.at(0, 701), bench.target.at(7300, 701))),
        ("one byte before the start", |bench| {
            let (addr, key) = (bench.target.iova - 1, bench.target.key);
            Work::write(bench.source.at(0, 700), bench.target.all()).to(addr, key)
        }),
        ("wraps the address space", |bench| {
            Work::write(bench.source.at(0, 700), bench.target.all()).to(u64::MAX - 99, bench.target.key)
        }),
        ("a region that only its owner may write", |bench| {
            let pd = bench.rig.pd(bench.b.node());
            let own = bench.rig.region_with(bench.b.node(), 1000, pd, Access::LOCAL_WRITE);
            Work::write(bench.source.at(0, 700), own.all())
        }),
        ("another protection domain", |bench| {
            let node = bench.b.node();
            let pd = bench.rig.engine_mut(node).core_mut().allocate_pd();
            let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
            let other = bench.rig.region_with(node, 1000, pd, access);
            Work::write(bench.source.at(0, 700), other.all())
        }),
        ("deregistered", |bench| {
            let node = bench.b.node();
            let gone = bench.rig.region(node, 1000);
            assert!(bench.rig.deregister(gone));
            Work::write(bench.source.at(0, 700), gone.all())
        }),
    ];
    for (what, make) in cases {
        println!("{what}");
        let mut bench = bench(QpOptions::default());
        let receive = bench.rig.post_recv(bench.b, bench.target.at(6000, 1000));
        let bad = make(&mut bench);
        let failing = post_around(&mut bench, &bad);
        expect_ends(&mut bench, failing, WcStatus::RemAccessErr);
        let Bench { rig, b, .. } = &mut bench;
        assert_eq!(rig.state(*b), QpState::Err, "{what}: the responder's queue pair ends too");
        let flushed: Vec<_> = rig.recvs(*b).iter().map(|done| (done.wr_id, done.status)).collect();
        assert_eq!(flushed, [(receive, WcStatus::WrFlushErr)], "{what}: its receive was not used");
        assert_eq!(rig.events(b.node()).len(), 1, "{what}");
    }
}

#[test]
fn a_queue_pair_that_allows_no_writes() {
    let mut rig = Rig::new(RigOptions::default());
    let (left, right) = (rig.add_node(), rig.add_node());
    let options = QpOptions { pmtu: Pmtu::B256, sq_psn: PSN, ..QpOptions::default() };
    let a = rig.create_qp(left, options);
    let b = rig.create_qp(right, QpOptions { access: Access::LOCAL_WRITE, ..options });
    rig.connect(a, b);
    let (source, target) = (rig.region(left, 1000), rig.region(right, 1000));
    rig.write(a, source.all(), target.all());
    rig.run_until(|rig| rig.sends(a).len() == 1, LIMIT_NS).unwrap();
    assert_eq!(rig.sends(a)[0].status, WcStatus::RemInvReqErr, "unsupported operation: NAK 0x61");
    rig.verify_untouched(target.all());
}

#[test]
fn a_send_longer_than_its_receive() {
    for len in [501, 512, 513, 4000] {
        let mut bench = bench(QpOptions::default());
        let small = bench.rig.post_recv(bench.b, bench.target.at(2000, 500));
        let unused = bench.rig.post_recv(bench.b, bench.target.at(3000, 500));
        let bad = Work::send(bench.source.at(0, len));
        let failing = post_around(&mut bench, &bad);
        let Bench { rig, a, b, target, .. } = &mut bench;
        rig.run_until(|rig| rig.sends(*a).len() == 5 && rig.recvs(*b).len() == 2, LIMIT_NS).unwrap();
        let there: Vec<_> = rig.recvs(*b).iter().map(|done| (done.wr_id, done.status)).collect();
        assert_eq!(there, [(small, WcStatus::LocLenErr), (unused, WcStatus::WrFlushErr)], "{len}");
        let here = rig.sends(*a)[2];
        assert_eq!((here.wr_id, here.status), (failing, WcStatus::RemInvReqErr), "{len}");
        assert_eq!(rig.sends(*a)[1].status, WcStatus::Success);
        rig.verify_untouched(target.at(2500, 1500));
        rig.verify_guards();
    }
}

#[test]
fn a_local_key_that_is_wrong() {
    let cases: [(&str, Make); 3] = [
        ("unknown lkey", |bench| Work::send(bench.source.at(0, 700)).lkey(0x00FF_FF01)),
        ("behind the end", |bench| Work::write(bench.source.at(7900, 101), bench.target.at(2000, 700))),
        ("another protection domain", |bench| {
            let node = bench.a.node();
            let pd = bench.rig.engine_mut(node).core_mut().allocate_pd();
            let other = bench.rig.region_with(node, 1000, pd, Access::LOCAL_WRITE);
            Work::write(other.at(0, 700), bench.target.at(2000, 700))
        }),
    ];
    for (what, make) in cases {
        println!("{what}");
        let mut bench = bench(QpOptions::default());
        let bad = make(&mut bench);
        let failing = post_around(&mut bench, &bad);
        expect_ends(&mut bench, failing, WcStatus::LocProtErr);
        let Bench { rig, b, .. } = &bench;
        assert_eq!(rig.state(*b), QpState::Rts, "{what}: the peer never saw it");
    }
}

#[test]
fn a_source_that_goes_while_its_packet_is_lost_waits_for_its_turn_to_fail() {
    // Packet 0 is of the first WRITE, packet 6 of the one whose source goes.
    let mut bench = bench(QpOptions::default());
    let gone = bench.rig.region(bench.a.node(), 700);
    let link = bench.rig.up(bench.a);
    let lost = [Psn::new(PSN), Psn::new(PSN).add(6)];
    let mut left = [2, 1];
    bench.rig.net.set_filter(
        link,
        Box::new(move |passing: &Passing<'_>| {
            let index = lost.iter().position(|psn| passing.data_psn() == Some(*psn));
            match index {
                Some(index) if left[index] > 0 => {
                    left[index] -= 1;
                    Verdict::Drop
                }
                _ => Verdict::Pass,
            }
        }),
    );
    let bad = Work::write(gone.all(), bench.target.at(2000, 700));
    let failing = post_around(&mut bench, &bad);
    bench.rig.run_for(1000);
    bench.rig.deregister(gone);
    expect_ends(&mut bench, failing, WcStatus::LocProtErr);
}

#[test]
fn a_receive_whose_local_key_is_wrong() {
    let mut bench = bench(QpOptions::default());
    let node = bench.b.node();
    let gone = bench.rig.region(node, 2000);
    bench.rig.deregister(gone);
    let bad_receive = bench.rig.post_recv(bench.b, gone.all());
    let bad = Work::send(bench.source.at(0, 700));
    let failing = post_around(&mut bench, &bad);
    expect_ends(&mut bench, failing, WcStatus::RemOpErr);
    let done = bench.rig.recvs(bench.b)[0];
    assert_eq!((done.wr_id, done.status), (bad_receive, WcStatus::LocProtErr));
}

#[test]
fn errors_while_something_before_is_missing() {
    // Packets: 4 of the first WRITE, 2 of the second, 3 of the bad one, 4 and 4 behind.
    for lost in 0..9 {
        for (name, reverse_loss) in [("clean", 0), ("lossy", 200_000)] {
            let mut bench = bench(QpOptions::default());
            let link = bench.rig.up(bench.a);
            bench.rig.net.set_filter(link, drop_psn(Psn::new(PSN).add(lost), 2));
            let back = bench.rig.up(bench.b);
            bench.rig.net.set_faults(back, Faults::loss(reverse_loss));
            let bad = Work::write(bench.source.at(0, 700), bench.target.at(2000, 700)).to(0, 0x00FF_FF01);
            let failing = post_around(&mut bench, &bad);
            println!("packet {lost}, {name}");
            expect_ends(&mut bench, failing, WcStatus::RemAccessErr);
        }
    }
}

#[test]
fn a_lost_error_nak_is_sent_again() {
    let mut bench = bench(QpOptions::default());
    let link = bench.rig.up(bench.b);
    let nak = |passing: &simnet::Passing<'_>| passing.kind() == FrameKind::ErrorNak;
    bench.rig.net.set_filter(link, simnet::filter::drop_numbers(0..6, nak));
    let bad = Work::write(bench.source.at(0, 700), bench.target.at(2000, 700)).to(0, 0x00FF_FF01);
    let failing = post_around(&mut bench, &bad);
    expect_ends(&mut bench, failing, WcStatus::RemAccessErr);
    assert_eq!(bench.rig.net.stats(link).filtered, 6);
}

#[test]
fn in_err_everything_posted_is_flushed_and_packets_are_dropped() {
    let Bench { mut rig, a, b, source, target } = bench(QpOptions::default());
    let receives = [rig.post_recv(b, target.at(0, 100)), rig.post_recv(b, target.at(0, 100))];
    rig.to_err(b);
    let late = rig.post_recv(b, target.at(0, 100));
    let send = rig.write(b, target.at(0, 10), source.at(0, 10));
    rig.run_until(|rig| rig.recvs(b).len() == 3 && rig.sends(b).len() == 1, LIMIT_NS).unwrap();
    let flushed: Vec<_> = rig.recvs(b).iter().map(|done| (done.wr_id, done.status)).collect();
    let status = WcStatus::WrFlushErr;
    assert_eq!(flushed, [(receives[0], status), (receives[1], status), (late, status)]);
    assert_eq!((rig.sends(b)[0].wr_id, rig.sends(b)[0].status), (send, status));
    rig.write(a, source.at(0, 100), target.at(0, 100));
    rig.run_until(|rig| rig.sends(a).len() == 1, 3_000_000_000).unwrap();
    assert_eq!(rig.sends(a)[0].status, WcStatus::RetryExcErr, "packets to ERR are dropped silently");
    rig.verify_untouched(target.all());
}

#[test]
fn states_that_take_no_posts() {
    let mut rig = Rig::new(RigOptions::default());
    let (left, right) = (rig.add_node(), rig.add_node());
    let (a, b) = (rig.create_qp(left, QpOptions::default()), rig.create_qp(right, QpOptions::default()));
    let source = rig.region(left, 100);
    let refused = |outcome| matches!(outcome, Err(PostError::WrongState { .. }));
    let all: &[Span] = &[source.all()];
    assert!(refused(rig.try_post_recv(a, all)), "RESET takes no receives");
    rig.to_init(a);
    assert!(rig.try_post_recv(a, all).is_ok(), "INIT takes receives");
    assert!(refused(rig.try_post(a, &Work::send(source.all()))), "INIT takes no sends");
    rig.to_init(b);
    rig.to_rtr(a, b);
    assert!(refused(rig.try_post(a, &Work::send(source.all()))), "RTR takes no sends");
    rig.to_rts(a);
    assert!(rig.try_post(a, &Work::send(source.all())).is_ok());
}

#[test]
fn a_full_completion_queue_ends_the_queue_pair() {
    let Bench { mut rig, a, source, target, .. } = bench(QpOptions { cq_entries: 4, ..QpOptions::default() });
    rig.set_auto_poll(false);
    for _ in 0..8 {
        rig.write(a, source.at(0, 10), target.at(0, 10));
    }
    rig.run_until(|rig| rig.state(a) == QpState::Err, LIMIT_NS).unwrap();
    rig.poll();
    assert!(rig.sends(a).len() >= 4);
    assert!(rig.sends(a)[..4].iter().all(|done| done.status == WcStatus::Success));
    let overrun = |event: &datapath::engine::AsyncEvent| matches!(event, datapath::engine::AsyncEvent::CqOverrun { qpn, .. } if *qpn == rig.qpn(a));
    assert!(rig.events(a.node()).iter().any(overrun));
}
