//! Hosts that are too slow for what they are sent: a receive ring that fills and drops, and what
//! tells senders before it does (protocol.md 2.2, docs/adr/0074).

use core::cell::RefCell;
use datapath::engine::QpLimit;
use datapath::qp::attr::{CongestionAlgorithm, CongestionTuning, RecoveryPolicy};
use datapath::queue::QueueCaps;
use datapath::sched::HostRateConfig;
use simnet::{
    HostModel, LinkConfig, LinkId, NodeId, PortOptions, Qp, QpOptions, Region, Rig, RigOptions, Work,
};
use std::rc::Rc;
use wire::srnic::ACK_DELAY_UNIT_NS;
use wire::{Ackx, Aeth, Bth, Meta, Pmtu, icrc};

const RECEIVER: NodeId = NodeId(0);
const MESSAGE: usize = 64 << 10;
/// How often programs look at their queues, in nanoseconds.
const STEP_NS: u64 = 20_000;
/// A third of 100 Gb/s: a frame of 4 KiB takes 335 ns on the link.
const SLOW: HostModel = HostModel { frame_ns: 1_000, byte_ps: 0, atomic_ns: 0 };
const FAST: HostModel = HostModel { frame_ns: 100, byte_ps: 0, atomic_ns: 0 };
/// Where an acknowledgement has ACKX, and in it ACK_DELAY.
const ACKX: usize = 14 + 20 + 8 + Bth::LEN + Aeth::LEN + Meta::LEN;
const ACK_DELAY: usize = ACKX + Ackx::LEN - 2;

/// What is tried.
#[derive(Clone, Copy)]
struct Case {
    senders: usize,
    rates: Option<HostRateConfig>,
    marks_ns: u32,
    congestion: CongestionAlgorithm,
    tuning: CongestionTuning,
    recovery: RecoveryPolicy,
    /// The receiver tells nothing of its delay.
    mute: bool,
    /// It READs, and the others respond.
    reads: bool,
}

impl Case {
    const WITHOUT: Self = Self {
        senders: 8,
        rates: None,
        marks_ns: 0,
        congestion: CongestionAlgorithm::Fixed,
        tuning: CongestionTuning::DEFAULT,
        recovery: RecoveryPolicy::SelectiveRepeat,
        mute: false,
        reads: false,
    };
    const RATES: Self = Self { rates: Some(HostRateConfig::DEFAULT), ..Self::WITHOUT };
}

struct Sender {
    node: NodeId,
    /// Where its work is posted: its own queue pair, or that of the receiver.
    qp: Qp,
    source: Region,
    target: Region,
}

/// Senders whose links have 100 Gb/s together, and a receiver behind a link of as much.
struct World {
    rig: Rig,
    senders: Vec<Sender>,
    reads: bool,
    /// What acknowledgements of the receiver say of its delay, in nanoseconds.
    delays: Rc<RefCell<Vec<u32>>>,
}

impl World {
    fn new(case: Case) -> Self {
        let up = LinkConfig { ps_per_byte: 80 * case.senders as u64, ..LinkConfig::default() };
        let port = PortOptions { up, tx_ring: 64, rx_ring: 512, ..PortOptions::default() };
        let mut rig = Rig::new(RigOptions {
            port,
            host: FAST,
            host_rates: case.rates,
            host_marks_ns: case.marks_ns,
            ..RigOptions::default()
        });
        rig.net.keep_recent(0);
        rig.add_node();
        // Acknowledgements take no time, and what the receiver says of itself is written down.
        *rig.net.link_mut(LinkId::Up(RECEIVER)) = LinkConfig::default();
        let delays = Rc::new(RefCell::new(Vec::new()));
        let (said, mute) = (Rc::clone(&delays), case.mute);
        rig.net.set_rewrite(LinkId::Up(RECEIVER), Box::new(move |frame| note_delay(frame, &said, mute)));
        rig.set_auto_poll(false);
        let senders = (0..case.senders).map(|_| sender(&mut rig, &case)).collect();
        Self { rig, senders, reads: case.reads, delays }
    }

    /// All send for so long; returns the bytes that each completed.
    fn run(&mut self, ns: u64) -> Vec<u64> {
        let before = self.completed();
        for _ in 0..ns / STEP_NS {
            for Sender { qp, source, target, .. } in &self.senders {
                let (from, to) = (source.at(0, MESSAGE), target.at(0, MESSAGE));
                let work = if self.reads { Work::read(to, from) } else { Work::write(from, to) }.unsignaled();
                while self.rig.try_post(*qp, &work).is_ok() {}
            }
            self.rig.run_for(STEP_NS);
        }
        self.completed().iter().zip(before).map(|(after, before)| after - before).collect()
    }

    fn completed(&self) -> Vec<u64> {
        let of = |sender: &Sender| {
            let reports = self.rig.engine(sender.qp.node()).core().reports(self.rig.now());
            let qpn = self.rig.qpn(sender.qp);
            let completed = reports.iter().find(|report| report.qpn == qpn).expect("it exists").completed;
            u64::from(completed) * MESSAGE as u64
        };
        self.senders.iter().map(of).collect()
    }

    fn missed(&self) -> u64 {
        self.rig.net.stats(LinkId::Down(RECEIVER)).missed
    }

    /// The rates of the senders, in bytes a second; 0: no limit.
    fn rates(&self) -> Vec<u64> {
        let rate = |sender: &Sender| {
            let hosts = self.rig.engine(sender.node).core().hosts();
            hosts.first().and_then(|host| host.bytes_per_s).unwrap_or(0)
        };
        self.senders.iter().map(rate).collect()
    }
}

fn sender(rig: &mut Rig, case: &Case) -> Sender {
    let node = rig.add_node();
    let caps = QueueCaps { max_send_wr: 64, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline: 0 };
    let options = QpOptions {
        pmtu: Pmtu::B4096,
        window: 256,
        caps,
        cq_entries: 64,
        congestion: case.congestion,
        congestion_tuning: case.tuning,
        recovery: case.recovery,
        ..QpOptions::default()
    };
    let (theirs, ours) = rig.connected(node, RECEIVER, options);
    Sender {
        node,
        qp: if case.reads { ours } else { theirs },
        source: rig.region(node, MESSAGE),
        target: rig.region(RECEIVER, MESSAGE),
    }
}

/// Writes down what an acknowledgement says of the host's delay; or makes it say nothing.
fn note_delay(frame: &mut [u8], said: &RefCell<Vec<u32>>, mute: bool) {
    let is_ack = frame.get(14 + 20 + 8) == Some(&(wire::Opcode::RcAck as u8));
    if let Some(field) = frame.get_mut(ACK_DELAY..ACK_DELAY + 2).filter(|_| is_ack) {
        said.borrow_mut().push(u32::from(u16::from_be_bytes([field[0], field[1]])) * ACK_DELAY_UNIT_NS);
        if mute {
            field.fill(0);
            icrc::seal(&mut frame[14..]);
        }
    }
}

fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|share| *share as f64).sum();
    let squares: f64 = shares.iter().map(|share| (*share as f64).powi(2)).sum();
    sum * sum / (shares.len() as f64 * squares)
}

/// What a case did while the receiver was slow: bytes a second, frames that found the ring full,
/// and the mean of the delays that were told.
#[derive(Debug)]
struct Outcome {
    goodput: f64,
    missed: u64,
    delay_ns: f64,
    jain: f64,
}

fn slow(case: Case) -> Outcome {
    let mut world = World::new(case);
    world.run(500_000);
    world.rig.set_host(RECEIVER, SLOW);
    // Rates of senders that began unequal come to be alike slowly.
    world.run(if case.rates.is_some() && !case.mute { 60_000_000 } else { 20_000_000 });
    let before = world.missed();
    world.delays.borrow_mut().clear();
    let ns = 10_000_000;
    let sent = world.run(ns);
    let delays = world.delays.borrow();
    let delay_ns = delays.iter().map(|ns| f64::from(*ns)).sum::<f64>() / delays.len() as f64;
    let goodput = sent.iter().sum::<u64>() as f64 * 1e9 / ns as f64;
    let missed = world.missed() - before;
    let outcome = Outcome { goodput, missed, delay_ns, jain: jain(&sent) };
    println!("{outcome:?} {:?}", world.rates());
    outcome
}

/// RHCC: what a host that is three times too slow loses without rates, and takes with them.
#[test]
fn a_slow_host_is_sent_to_at_a_rate_that_it_takes() {
    let (without, with) = (slow(Case::WITHOUT), slow(Case::RATES));
    assert!(without.missed > 5_000, "without, it loses much: {without:?}");
    assert!(with.missed * 20 <= without.missed, "{with:?} {without:?}");
    assert!(with.goodput >= 1.5 * without.goodput, "{with:?} {without:?}");
    let target = f64::from(HostRateConfig::DEFAULT.target_ns);
    assert!((with.delay_ns - target).abs() <= 0.2 * target, "{with:?}");
    assert!(with.jain >= 0.95, "{with:?}");
    // It is the delay that acknowledgements tell of, and nothing else.
    let mute = slow(Case { mute: true, ..Case::RATES });
    assert!(mute.missed > without.missed / 2 && mute.goodput < 1.2 * without.goodput, "{mute:?}");
}

/// Goodput in the 20 ms after the host has become slow, in bytes a second.
fn at_first(case: Case) -> f64 {
    let mut world = World::new(case);
    world.run(500_000);
    world.rig.set_host(RECEIVER, SLOW);
    let sent: u64 = world.run(20_000_000).iter().sum();
    let goodput = sent as f64 / 0.02;
    println!(
        "{:?}, rates {}: {goodput} at first, {} lost",
        case.recovery,
        case.rates.is_some(),
        world.missed()
    );
    goodput
}

/// A host that becomes slow finds all windows open. And whoever repairs by go-back-N, as RHCC's
/// NICs do, never comes back from that without rates.
#[test]
fn with_rates_a_host_that_becomes_slow_gets_twice_as_much() {
    let (without, with) = (at_first(Case::WITHOUT), at_first(Case::RATES));
    assert!(with >= 2.0 * without, "{with} and {without}");
    let go_back = Case { recovery: RecoveryPolicy::GoBackN, ..Case::WITHOUT };
    let (without, with) = (slow(go_back), slow(Case { rates: Case::RATES.rates, ..go_back }));
    assert!(
        with.goodput >= 2.0 * without.goodput && with.missed * 20 <= without.missed,
        "{with:?} {without:?}"
    );
}

/// Several senders see one delay: what each adds makes their rates alike.
#[test]
fn without_an_additive_term_rates_stay_as_unequal_as_they_were() {
    let rates = HostRateConfig { step_bytes_per_s: 0, ..HostRateConfig::DEFAULT };
    let unequal = slow(Case { rates: Some(rates), ..Case::WITHOUT });
    assert!(unequal.jain < 0.8, "{unequal:?}");
}

/// Forty steps, each as long as the delay that is aimed at and a turn of the host.
#[test]
fn a_host_that_is_fast_again_gets_what_it_takes_after_forty_steps() {
    let mut world = World::new(Case::RATES);
    world.rig.set_host(RECEIVER, SLOW);
    world.run(60_000_000);
    let slow = world.run(5_000_000).iter().sum::<u64>();
    assert!(world.rates().iter().all(|rate| *rate > 0), "{:?}", world.rates());
    world.rig.set_host(RECEIVER, FAST);
    world.run(40 * u64::from(HostRateConfig::DEFAULT.target_ns));
    let fast = world.run(5_000_000).iter().sum::<u64>();
    println!("{slow} while slow, {fast} when fast again");
    assert!(fast as f64 > 0.95 * 12.5e9 * 0.005 * 4096.0 / 4200.0, "{fast}");
    world.run(20_000_000);
    assert_eq!(world.rates(), [0; 8], "no rate is left");
}

/// The responses to a host's READs come at a rate that it takes, too.
#[test]
fn responses_to_a_slow_host_are_sent_at_a_rate() {
    let reads = Case { reads: true, ..Case::WITHOUT };
    let (without, with) = (slow(reads), slow(Case { rates: Case::RATES.rates, ..reads }));
    assert!(without.missed > 500, "{without:?}");
    assert!(with.missed * 20 <= without.missed && with.goodput > without.goodput, "{with:?} {without:?}");
}

/// DCTCP listens to marks, whoever makes them.
#[test]
fn a_host_that_falls_behind_marks_what_comes() {
    let dctcp = Case { congestion: CongestionAlgorithm::Dctcp, ..Case::WITHOUT };
    let (without, with) = (slow(dctcp), slow(Case { marks_ns: 20_000, ..dctcp }));
    assert!(without.missed > 300, "{without:?}");
    assert!(with.missed * 20 <= without.missed, "{with:?} {without:?}");
    assert!(with.jain >= 0.95 && with.goodput > 1.2 * without.goodput, "{with:?} {without:?}");
    assert!(with.delay_ns < 60_000.0 && without.delay_ns > 500_000.0, "{with:?} {without:?}");
}

/// What is marked says so, at both ends; a host that keeps up marks nothing.
#[test]
fn marks_say_whose_they_are() {
    let case = Case { congestion: CongestionAlgorithm::Dctcp, marks_ns: 20_000, ..Case::WITHOUT };
    let mut world = World::new(case);
    world.run(2_000_000);
    let marked = |world: &World| world.rig.engine(RECEIVER).core().counters().rx_host_marked;
    assert_eq!(marked(&world), 0, "it keeps up");
    world.rig.set_host(RECEIVER, SLOW);
    world.run(5_000_000);
    assert!(marked(&world) > 100);
    for sender in &world.senders {
        let core = world.rig.engine(sender.node).core();
        assert!(core.counters().rx_acks_host > 0 && core.counters().rx_ce_marked == 0);
    }
    let limits = world.senders.iter().flat_map(|sender| {
        let core = world.rig.engine(sender.node).core();
        core.reports(world.rig.now()).into_iter().map(|report| report.limit)
    });
    assert!(limits.into_iter().any(|limit| limit == QpLimit::PeerHost));
}

/// The window of Swift for the host, which ACK_DELAY tells apart from the network.
#[test]
fn swift_keeps_the_delay_of_a_slow_host_near_its_target() {
    let swift = Case { congestion: CongestionAlgorithm::Swift, ..Case::WITHOUT };
    let told = slow(swift);
    let target = f64::from(CongestionTuning::DEFAULT.host_target_ns);
    assert!((told.delay_ns - target).abs() <= 0.25 * target && told.missed == 0, "{told:?}");
    // Without it all of the delay counts as the network's, whose target is a quarter.
    let mute = slow(Case { mute: true, ..swift });
    assert!(mute.delay_ns < 0.75 * told.delay_ns && mute.goodput < 0.95 * told.goodput, "{mute:?} {told:?}");
}
