//! Which requests wait for those before them (protocol.md 1.6, "Ordering"): of all pairs over a
//! long link, only those that a fence orders.

use datapath::memory::{Access, WindowType};
use datapath::qp::attr::{CongestionAlgorithm, RecoveryPolicy};
use datapath::queue::{WcOpcode, WcStatus};
use simnet::filter::drop_all;
use simnet::{Qp, QpOptions, Region, Rig, RigOptions, Work};
use std::cell::Cell;
use std::rc::Rc;
use wire::{Opcode, WireMode};

/// There and back.
const ROUND_TRIP_NS: u64 = 1_000_000;
const LIMIT_NS: u64 = 1_000_000_000;
const RIGHTS: Access = Access::REMOTE_WRITE.union(Access::REMOTE_READ);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Send,
    SendWithInv,
    Write,
    Read,
    CompareSwap,
    FetchAdd,
    BindWindow,
    LocalInv,
}

use Kind::*;

const KINDS: [Kind; 8] = [Send, SendWithInv, Write, Read, CompareSwap, FetchAdd, BindWindow, LocalInv];

impl Kind {
    const fn is_local(self) -> bool {
        matches!(self, BindWindow | LocalInv)
    }

    const fn has_response(self) -> bool {
        matches!(self, Read | CompareSwap | FetchAdd)
    }

    const fn completes_as(self) -> WcOpcode {
        match self {
            Send | SendWithInv => WcOpcode::Send,
            Write => WcOpcode::RdmaWrite,
            Read => WcOpcode::RdmaRead,
            CompareSwap => WcOpcode::CompSwap,
            FetchAdd => WcOpcode::FetchAdd,
            BindWindow => WcOpcode::BindMw,
            LocalInv => WcOpcode::LocalInv,
        }
    }
}

/// Two queue pairs, and windows of both sides: of each pair the first is bound.
struct Bench {
    rig: Rig,
    a: Qp,
    own: Region,
    theirs: Region,
    /// Keys of bound windows of `a`, and of `b`.
    bound: [Vec<u32>; 2],
    /// Keys of windows of `a` that are not bound.
    unbound: Vec<u32>,
}

impl Bench {
    fn new(mode: WireMode) -> Self {
        let mut options = RigOptions::default();
        options.port.up.propagation_ns = ROUND_TRIP_NS / 4;
        options.port.down.propagation_ns = ROUND_TRIP_NS / 4;
        let recovery = match mode {
            WireMode::Srnic => RecoveryPolicy::default(),
            WireMode::Plain => RecoveryPolicy::GoBackN,
        };
        let congestion = CongestionAlgorithm::Fixed;
        let qp_options = QpOptions { wire_mode: mode, recovery, congestion, ..QpOptions::default() };
        let (mut rig, a, b) = Rig::pair(options, qp_options);
        let pds = [a, b].map(|qp| rig.pd(qp.node()));
        let access = Access::LOCAL_WRITE | Access::MW_BIND | RIGHTS | Access::REMOTE_ATOMIC;
        let own = rig.region_with(a.node(), 4096, pds[0], access);
        let theirs = rig.region_with(b.node(), 4096, pds[1], access);
        let mut bench = Self { rig, a, own, theirs, bound: [Vec::new(), Vec::new()], unbound: Vec::new() };
        for (side, (qp, region)) in [(a, own), (b, theirs)].into_iter().enumerate() {
            for _ in 0..3 {
                let key = bench.window(qp);
                bench.rig.post(qp, &Work::bind(key, next(key), region.all(), RIGHTS));
                bench.bound[side].push(next(key));
            }
        }
        bench.unbound = (0..2).map(|_| bench.window(a)).collect();
        bench.rig.run_until_quiet(LIMIT_NS).unwrap();
        (0..4).for_each(|_| {
            bench.rig.post_recv(b, theirs.all());
        });
        for qp in [a, b] {
            bench.rig.take_completions(qp);
        }
        bench
    }

    fn window(&mut self, qp: Qp) -> u32 {
        let pd = self.rig.pd(qp.node());
        self.rig.engine_mut(qp.node()).core_mut().memory_mut().allocate_window(pd, WindowType::Two).unwrap().0
    }

    /// The `nth` request that is posted, of this kind.
    fn work(&self, kind: Kind, nth: usize) -> Work {
        let (own, theirs) = (self.own.at(64 * nth, 8), self.theirs.at(64 * nth, 8));
        match kind {
            Send => Work::send(own),
            SendWithInv => Work::send(own).invalidating(self.bound[1][nth]),
            Write => Work::write(own, theirs),
            Read => Work::read(own, theirs),
            CompareSwap => Work::compare_swap(own, theirs, 0, 1),
            FetchAdd => Work::fetch_add(own, theirs, 1),
            BindWindow => Work::bind(self.unbound[nth], next(self.unbound[nth]), self.own.all(), RIGHTS),
            LocalInv => Work::local_inv(self.bound[0][nth]),
        }
    }

    /// Posts two requests at once and, if `followed`, a WRITE behind them, so that it shows when
    /// the second one began. Says how long all took.
    fn run(&mut self, (first, second): (Kind, Kind), fenced: bool, followed: bool) -> u64 {
        let second_work = self.work(second, 1);
        let second_work = if fenced { second_work.fenced() } else { second_work };
        let behind = followed.then(|| (Write, self.work(Write, 2)));
        let works: Vec<_> =
            [(first, self.work(first, 0)), (second, second_work)].into_iter().chain(behind).collect();
        let start = self.rig.now();
        for (_, work) in &works {
            self.rig.post(self.a, work);
        }
        let a = self.a;
        self.rig.run_until(|rig| rig.sends(a).len() == works.len(), LIMIT_NS).unwrap();
        let took = self.rig.now().since(start);
        let said: Vec<_> = self.rig.sends(a).iter().map(|done| (done.status, done.opcode)).collect();
        let expected: Vec<_> =
            works.iter().map(|(kind, _)| (WcStatus::Success, kind.completes_as())).collect();
        assert_eq!(said, expected, "{first:?}, {second:?}");
        took
    }
}

const fn next(key: u32) -> u32 {
    key & !0xFF | (key + 1) & 0xFF
}

/// A fence orders a request behind READs and atomics (IBTA 10.8.3.3), a LOCAL_INV behind everything
/// (10.6.5.1).
const fn must_wait(first: Kind, second: Kind, fenced: bool) -> bool {
    fenced && !first.is_local() && (first.has_response() || matches!(second, LocalInv))
}

/// Round trips until all requests are done.
const fn round_trips((first, second): (Kind, Kind), fenced: bool, followed: bool) -> u64 {
    let second_begins = must_wait(first, second, fenced) as u64;
    let rest = followed || !second.is_local();
    let of_first = !first.is_local() as u64;
    let of_rest = second_begins + rest as u64;
    if of_first > of_rest { of_first } else { of_rest }
}

#[test]
fn only_what_a_fence_orders_waits_for_a_round_trip() {
    let pairs = KINDS.into_iter().flat_map(|first| KINDS.map(|second| (first, second)));
    for pair in pairs {
        for case in 0..8 {
            let [plain, fenced, followed] = [1, 2, 4].map(|bit| case & bit != 0);
            let mode = if plain { WireMode::Plain } else { WireMode::Srnic };
            let took = Bench::new(mode).run(pair, fenced, followed);
            let trips = round_trips(pair, fenced, followed);
            assert!(
                (trips * ROUND_TRIP_NS..trips * ROUND_TRIP_NS + ROUND_TRIP_NS / 4).contains(&took),
                "{mode:?}: {pair:?}, fenced {fenced}, followed {followed}: {took} ns, not {trips} round trips"
            );
        }
    }
}

/// What a fenced LOCAL_INV waits for is an acknowledgement, and a Plain peer need not send one that
/// nobody asked for.
#[test]
fn a_plain_request_before_a_local_one_asks_for_its_acknowledgement() {
    let mut bench = Bench::new(WireMode::Plain);
    let asked = Rc::new(Cell::new(None));
    let (seen, link) = (Rc::clone(&asked), bench.rig.up(bench.a));
    bench.rig.net.set_filter(
        link,
        drop_all(move |passing| {
            let packet = passing.packet.expect("a RoCE packet");
            // Tail probes follow, which always ask.
            if packet.opcode() == Opcode::RcSendOnly && seen.get().is_none() {
                seen.set(Some(packet.ack_req()));
            }
            false
        }),
    );
    bench.run((Send, LocalInv), true, true);
    assert_eq!(asked.get(), Some(true));
}
