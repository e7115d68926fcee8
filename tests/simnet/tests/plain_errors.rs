//! Wire mode Plain: what is refused and how each side learns of it, states, and peers that lie.

use datapath::memory::Access;
use datapath::qp::attr::RecoveryPolicy;
use datapath::qp::state::QpState;
use datapath::queue::WcStatus;
use simnet::filter::{Kept, copy_to, drop_all, drop_numbers, hold};
use simnet::{
    Forger, FrameKind, Message, Op, Passing, Qp, QpOptions, Region, Rig, RigOptions, Rng, Span, Transfer,
    Work,
};
use wire::{Aeth, AtomicEth, Kind, NakCode, Opcode, Pmtu, Psn, Reth, Syndrome, Transport, WireMode};

const LIMIT_NS: u64 = 4_000_000_000;
const PSN: u32 = 0xFF_FFFC;

struct Bench {
    rig: Rig,
    a: Qp,
    b: Qp,
    source: Region,
    target: Region,
}

fn bench_with(options: QpOptions) -> Bench {
    let options = QpOptions {
        pmtu: Pmtu::B256,
        sq_psn: PSN,
        wire_mode: WireMode::Plain,
        recovery: RecoveryPolicy::GoBackN,
        ..options
    };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let (source, target) = (rig.region(a.node(), 8000), rig.region(b.node(), 8000));
    rig.fill(source.all(), 1);
    rig.fill(target.at(4000, 4000), 2);
    Bench { rig, a, b, source, target }
}

fn bench() -> Bench {
    bench_with(QpOptions { rnr_retry: 2, ..QpOptions::default() })
}

impl Bench {
    fn from(&self, start: usize, len: usize) -> Span {
        self.source.at(start, len)
    }

    fn to(&self, start: usize, len: usize) -> Span {
        self.target.at(start, len)
    }

    /// A WRITE and a READ that succeed, `bad`, and two more that are flushed.
    fn expect(&mut self, what: &str, bad: &Work, status: WcStatus) {
        let good = Work::write(self.from(0, 1000), self.to(0, 1000));
        let read = Work::read(self.from(4000, 900), self.to(4000, 900));
        let a = self.a;
        for work in [&good, &read, bad, &good, &read] {
            self.rig.post(a, work);
        }
        self.rig.run_until(|rig| rig.sends(a).len() == 5, LIMIT_NS).unwrap();
        let ends: Vec<_> = self.rig.sends(a).iter().map(|done| done.status).collect();
        let flushed = WcStatus::WrFlushErr;
        assert_eq!(ends, [WcStatus::Success, WcStatus::Success, status, flushed, flushed], "{what}");
        assert_eq!(self.rig.state(a), QpState::Err, "{what}");
        self.rig.verify(self.to(0, 1000), 1);
        self.rig.verify(self.from(4000, 900), 2);
        self.rig.verify_guards();
    }
}

#[test]
fn what_the_peer_refuses() {
    type Make = fn(&mut Bench) -> Work;
    let cases: [(&str, Make, WcStatus); 8] = [
        (
            "a key that is none",
            |x| Work::write(x.from(0, 700), x.to(0, 700)).to(0x1000, 0xFF_FF01),
            WcStatus::RemAccessErr,
        ),
        (
            "a WRITE beyond the region",
            |x| Work::write(x.from(0, 701), x.to(7300, 701)),
            WcStatus::RemAccessErr,
        ),
        ("a READ beyond the region", |x| Work::read(x.from(0, 701), x.to(7300, 701)), WcStatus::RemAccessErr),
        (
            "an atomic that is not aligned",
            |x| Work::fetch_add(x.from(0, 8), x.to(4, 8), 1),
            WcStatus::RemInvReqErr,
        ),
        (
            "an atomic on memory that may not be written",
            |x| {
                let pd = x.rig.pd(x.b.node());
                let own = x.rig.region_with(x.b.node(), 64, pd, Access::LOCAL_WRITE | Access::REMOTE_READ);
                Work::fetch_add(x.from(0, 8), own.at(0, 8), 1)
            },
            WcStatus::RemAccessErr,
        ),
        (
            "a SEND longer than its receive",
            |x| {
                let place = x.to(2000, 100);
                x.rig.post_recv(x.b, place);
                Work::send(x.from(0, 700))
            },
            WcStatus::RemInvReqErr,
        ),
        ("a SEND without a receive", |x| Work::send(x.from(0, 700)), WcStatus::RnrRetryExcErr),
        (
            "memory of ours that is none",
            |x| Work::write(x.from(0, 700), x.to(0, 700)).lkey(0xFF_FF01),
            WcStatus::LocProtErr,
        ),
    ];
    for (what, make, status) in cases {
        let mut bench = bench();
        let bad = make(&mut bench);
        bench.expect(what, &bad, status);
        let refused = !matches!(status, WcStatus::RnrRetryExcErr | WcStatus::LocProtErr);
        let state = if refused { QpState::Err } else { QpState::Rts };
        assert_eq!(bench.rig.state(bench.b), state, "{what}: the other end");
    }
}

#[test]
fn a_region_that_ends_while_it_is_read() {
    let Bench { mut rig, a, b, .. } = bench();
    // More than a turn sends.
    let (here, there) = (rig.region(a.node(), 60_000), rig.region(b.node(), 60_000));
    rig.post(a, &Work::read(here.all(), there.all()));
    rig.run_until(|rig| rig.counters(b).tx_responses >= 3, LIMIT_NS).unwrap();
    assert!(rig.deregister(there));
    rig.run_until(|rig| !rig.sends(a).is_empty(), LIMIT_NS).unwrap();
    assert_eq!(rig.sends(a)[0].status, WcStatus::RemAccessErr);
    assert_eq!([a, b].map(|qp| rig.state(qp)), [QpState::Err; 2]);
}

/// A READ is complete, its region ends, and a copy of its request comes late: nobody misses
/// anything (swarm seed 413736).
#[test]
fn a_late_copy_of_a_read_whose_region_has_ended() {
    let Bench { mut rig, a, b, source, target } = bench();
    let gone = rig.region(b.node(), 900);
    rig.fill(gone.all(), 3);
    let (up, copies) = (rig.up(a), Kept::default());
    rig.net.set_filter(up, copy_to(&copies, |passing| passing.kind() == FrameKind::Data));
    rig.post(a, &Work::read(source.at(0, 900), gone.all()));
    rig.run_until(|rig| rig.sends(a).len() == 1, LIMIT_NS).unwrap();
    assert!(rig.deregister(gone));
    rig.net.clear_filter(up);
    copies.take().into_iter().for_each(|frame| rig.net.inject(rig.now(), up, frame));
    rig.run_until_quiet(LIMIT_NS).unwrap();
    assert_eq!((rig.counters(b).rx_duplicates, rig.counters(b).tx_error_naks), (1, 1), "{}", rig.report());
    rig.post(a, &Work::read(source.at(1000, 900), target.at(4000, 900)));
    rig.run_until(|rig| rig.sends(a).len() == 2, LIMIT_NS).unwrap();
    assert!(rig.sends(a).iter().all(|done| done.status == WcStatus::Success), "{:?}", rig.sends(a));
    assert_eq!([a, b].map(|qp| rig.state(qp)), [QpState::Rts; 2]);
    rig.verify(source.at(0, 900), 3);
    rig.verify(source.at(1000, 900), 2);
}

/// The response was sent, and some of it lost; the region ended meanwhile. Who asks again hears so,
/// also if that is lost, too.
#[test]
fn a_region_that_ends_before_what_was_lost_of_it_is_asked_for_again() {
    for lost in 0..4 {
        for naks_lost in 0..3 {
            let Bench { mut rig, a, b, source, .. } = bench();
            let gone = rig.region(b.node(), 900);
            let up = rig.up(b);
            let response = |passing: &Passing<'_>| {
                passing.packet.is_some_and(|packet| packet.opcode().kind() == Kind::ReadResponse)
            };
            rig.net.set_filter(up, drop_numbers(lost..1000, response));
            rig.post(a, &Work::read(source.at(0, 900), gone.all()));
            rig.run_until(|rig| rig.counters(b).tx_responses == 4, LIMIT_NS).unwrap();
            assert!(rig.deregister(gone));
            rig.net
                .set_filter(up, drop_numbers(0..naks_lost, |passing| passing.kind() == FrameKind::ErrorNak));
            rig.run_until(|rig| rig.sends(a).len() == 1, LIMIT_NS).unwrap();
            assert_eq!(rig.sends(a)[0].status, WcStatus::RemAccessErr, "from {lost} on, {naks_lost} NAKs");
            assert_eq!(rig.counters(b).resp_remote_access_errors, naks_lost + 1);
            rig.run_until_quiet(LIMIT_NS).unwrap();
            rig.verify_guards();
        }
    }
}

#[test]
fn a_peer_that_is_gone() {
    let mut bench = bench_with(QpOptions { timeout: 8, retry_cnt: 3, ..QpOptions::default() });
    let (a, up) = (bench.a, bench.rig.up(bench.b));
    bench.rig.net.set_filter(up, drop_all(|_| true));
    let work = Work::read(bench.from(0, 600), bench.to(4000, 600));
    bench.rig.post(a, &work);
    bench.rig.run_until(|rig| !rig.sends(a).is_empty(), LIMIT_NS).unwrap();
    assert_eq!(bench.rig.sends(a)[0].status, WcStatus::RetryExcErr);
    assert_eq!(bench.rig.counters(a).retry_exceeded, 1);
}

#[test]
fn a_queue_pair_that_was_reset_lives_again() {
    let mut bench = bench();
    let (a, b) = (bench.a, bench.b);
    let bad = Work::write(bench.from(0, 10), bench.to(0, 10)).to(1, 1);
    bench.expect("a key that is none", &bad, WcStatus::RemAccessErr);
    bench.rig.reset(a);
    bench.rig.reset(b);
    bench.rig.take_completions(a);
    bench.rig.take_completions(b);
    bench.rig.reconnect(a, 17, b, 99);
    let messages = Message::mix_of(&Op::WITH_RESPONSES, &mut Rng::new(3), 60, 3000);
    Transfer::new(&mut bench.rig, a, b, messages.clone(), 1).run(&mut bench.rig, LIMIT_NS).unwrap();
    Transfer::new(&mut bench.rig, b, a, messages, 500).run(&mut bench.rig, LIMIT_NS).unwrap();
}

#[test]
fn what_has_begun_is_finished_in_sqd_even_if_it_is_lost() {
    let mut bench = bench();
    let (a, b) = (bench.a, bench.b);
    let mut left = 2;
    let up = bench.rig.up(b);
    bench.rig.net.set_filter(
        up,
        drop_all(move |_| {
            left -= i32::from(left > 0);
            left > 0
        }),
    );
    for _ in 0..3 {
        let work = Work::write(bench.from(0, 2000), bench.to(0, 2000));
        bench.rig.post(a, &work);
    }
    bench.rig.run_until(|rig| rig.counters(a).tx_requests >= 24, LIMIT_NS).unwrap();
    bench.rig.to_state(a, QpState::Sqd);
    bench.rig.run_until(|rig| rig.sends(a).len() == 3, LIMIT_NS).unwrap();
    assert!(bench.rig.sends(a).iter().all(|done| done.status == WcStatus::Success));
}

#[test]
fn a_fence_waits_for_the_reads_before_it() {
    let mut bench = bench();
    let (a, b) = (bench.a, bench.b);
    let up = bench.rig.up(b);
    let response = |passing: &Passing<'_>| {
        passing.packet.is_some_and(|packet| packet.opcode().kind() == Kind::ReadResponse)
    };
    bench.rig.net.set_filter(up, simnet::filter::hold(response));
    let read = Work::read(bench.from(0, 100), bench.to(4000, 100));
    let write = Work::write(bench.from(2000, 100), bench.to(0, 100)).fenced();
    bench.rig.post(a, &read);
    bench.rig.post(a, &write);
    bench.rig.run_until(|rig| rig.net.held() > 0, LIMIT_NS).unwrap();
    bench.rig.run_for(20_000);
    assert_eq!(bench.rig.counters(a).tx_requests, 1, "the WRITE waits");
    bench.rig.net.clear_filter(up);
    let now = bench.rig.now();
    bench.rig.net.release_held(now);
    bench.rig.run_until(|rig| rig.sends(a).len() == 2, LIMIT_NS).unwrap();
}

/// Any packet of the dialect with any PSN near the present: whatever it does to the connection, it
/// stays inside it.
#[test]
fn a_peer_that_sends_anything_at_all() {
    for seed in 0..300 {
        let mut bench = bench();
        let (a, b) = (bench.a, bench.b);
        let pd = bench.rig.pd(b.node());
        let secret = bench.rig.region_with(b.node(), 4096, pd, Access::LOCAL_WRITE);
        bench.rig.fill(secret.all(), 99);
        let mut rng = Rng::new(seed);
        let forger = Forger::new(&bench.rig, a, b);
        let types: Vec<Opcode> =
            Opcode::ALL.iter().copied().filter(|opcode| opcode.transport() == Transport::Rc).collect();
        for _ in 0..4 {
            let place = bench.to(0, 256);
            bench.rig.post_recv(b, place);
        }
        let own = Work::read(bench.target.at(0, 600), bench.source.at(0, 600));
        bench.rig.post(b, &own);
        for _ in 0..40 {
            let opcode = types[rng.index(types.len())];
            let psn = Psn::new(PSN).add(u32::try_from(rng.below(12)).unwrap()).sub(4);
            let mut repr = forger.repr(WireMode::Plain, opcode, psn);
            let region = if rng.below(3) == 0 { secret } else { bench.target };
            let (va, rkey) = (region.iova + 8 * rng.below(600), region.key);
            let dma_len = u32::try_from(rng.below(1200)).unwrap();
            repr.reth = repr.reth.map(|_| Reth { va, rkey, dma_len });
            repr.atomic_eth = repr.atomic_eth.map(|_| AtomicEth { va, rkey, swap_add: 1, compare: 0 });
            let syndromes = [
                Syndrome::ACK,
                Syndrome::RnrNak { timer: 1 },
                Syndrome::Nak(NakCode::PsnSequence),
                Syndrome::Reserved(0xFF),
            ];
            repr.aeth = repr.aeth.map(|_| Aeth { syndrome: syndromes[rng.index(4)], msn: 0 });
            let len = [0, 1, 64, 255, 256][rng.index(5)];
            let frame = forger.frame(&repr, &vec![0xEE; len]);
            let now = bench.rig.now();
            bench.rig.net.deliver(now, b.node(), frame);
            bench.rig.run_for(1000);
        }
        bench.rig.run_for(2_000_000);
        bench.rig.verify(secret.all(), 99);
        bench.rig.verify_guards();
    }
}

/// Two WRITEs are late. The peer asks for them, and the memory of the second one has gone: it is
/// not sent again, and fails. Then both come, and the peer acknowledges them together: the first
/// one is done.
#[test]
fn what_the_peer_has_is_done_although_it_has_more_than_was_sent_again() {
    let mut bench = bench();
    let (a, up, down) = (bench.a, bench.rig.up(bench.a), bench.rig.up(bench.b));
    let gone = bench.rig.region(a.node(), 100);
    bench.rig.net.set_filter(up, hold(|passing| passing.data_psn().is_some()));
    bench.rig.post(a, &Work::write(bench.from(0, 100), bench.to(0, 100)));
    bench.rig.post(a, &Work::write(gone.all(), bench.to(1000, 100)));
    bench.rig.run_until(|rig| rig.counters(a).tx_requests == 2, LIMIT_NS).unwrap();
    bench.rig.net.set_filter(up, drop_all(|passing| passing.data_psn() == Some(Psn::new(PSN))));
    bench.rig.post(a, &Work::write(bench.from(200, 100), bench.to(2000, 100)));
    assert!(bench.rig.deregister(gone));
    bench.rig.run_until(|rig| rig.counters(a).rx_nacks == 1, LIMIT_NS).unwrap();
    // Of the two only the second one is acknowledged, and the first with it.
    let first = Psn::new(PSN);
    bench.rig.net.set_filter(
        down,
        drop_all(move |passing| passing.packet.is_some_and(|packet| packet.psn() == first)),
    );
    let now = bench.rig.now();
    bench.rig.net.release_held(now);
    bench.rig.run_until(|rig| rig.sends(a).len() == 3, LIMIT_NS).unwrap();
    let ends: Vec<_> = bench.rig.sends(a).iter().map(|done| done.status).collect();
    assert_eq!(ends, [WcStatus::Success, WcStatus::LocProtErr, WcStatus::WrFlushErr]);
}
