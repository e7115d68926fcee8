//! Whole runs: every flow ends, every packet is somewhere, and a run repeats exactly.

use datapath::qp::attr::RecoveryPolicy;
use srnic_fabric::clock::Ps;
use srnic_fabric::fabric::{Config, Fabric};
use srnic_fabric::file;
use srnic_fabric::host::HostConfig;
use srnic_fabric::host::engine::EngineHostConfig;
use srnic_fabric::link::{Link, Node};
use srnic_fabric::pfc::PfcConfig;
use srnic_fabric::plan::{Changes, Plan};
use srnic_fabric::scheme::Scheme;
use srnic_fabric::switch::{Marks, SwitchConfig};
use srnic_fabric::topology::FatTree;
use srnic_fabric::workload::{Flow, Sizes, Workload, arrivals};

const SIZES: Sizes = Sizes::CACHE_FOLLOWER;
const LONG: Ps = Ps::from_ns(1_000_000_000);

fn config(hosts: u32, seed: u64) -> Config {
    Config {
        topology: FatTree::of_hosts(hosts).expect("a size of the figure").into(),
        host: HostConfig::Engine(EngineHostConfig::default()),
        switch: SwitchConfig::DEFAULT,
        loss: 0.0,
        flow_max: SIZES.largest(),
        seed,
    }
}

/// Flows of `micros` microseconds at 70 % load.
fn loaded(config: Config, micros: u64) -> Fabric {
    let workload = [Workload::Poisson { sizes: SIZES, load: 0.7 }];
    let (topology, seed) = (config.topology.clone(), config.seed);
    let until = Ps::from_ns(micros * 1000);
    Fabric::new(config, 1, |host| arrivals(&workload, seed, &topology, host, until)).expect("hosts")
}

fn count(fabric: &Fabric, of: fn(&datapath::counters::Counters) -> u64) -> u64 {
    fabric.hosts().map(|host| of(host.engine().expect("an engine").engine.core().counters())).sum()
}

/// What hosts sent arrived, was dropped at a switch, or is on its way.
fn assert_conserved(fabric: &Fabric) {
    let sent: u64 = fabric.hosts().map(|host| host.frames().0).sum();
    let received: u64 = fabric.hosts().map(|host| host.frames().1).sum();
    let dropped = fabric.switch_stats().dropped;
    let lost: u64 = fabric.links().iter().map(|link| u64::from(link.lost)).sum();
    assert_eq!(sent, received + dropped + lost + fabric.in_flight() as u64);
}

#[test]
fn every_flow_ends_and_every_packet_is_somewhere() {
    let mut fabric = loaded(config(64, 1), 300);
    for stop in [50, 100, 200] {
        assert!(fabric.run(Ps::from_ns(stop * 1000)).expect("runs"));
        assert_conserved(&fabric);
    }
    assert!(!fabric.run(LONG).expect("runs"), "nothing is left to happen");
    assert_conserved(&fabric);
    assert_conserved_at_every_port(&fabric);
    assert_eq!((fabric.unfinished(), fabric.in_flight()), (0, 0));
    assert!(fabric.flows.len() > 100);
    assert!(fabric.flows.iter().all(|flow| flow.failed.is_none() && flow.done.is_some()));
    assert_eq!(count(&fabric, |counters| counters.drop_icrc), 0);
}

/// What a node sent into each of its links, switches have passed on or dropped, and hosts have
/// received. Nothing must be in flight.
fn assert_conserved_at_every_port(fabric: &Fabric) {
    let (topology, links) = (&fabric.config().topology, fabric.links());
    let sum = |of: fn(&Link) -> Node, node, frames: fn(&Link) -> u32| -> u64 {
        links.iter().filter(|link| of(link) == node).map(|link| u64::from(frames(link))).sum()
    };
    let out = |node| sum(|link| link.from, node, |link| link.frames);
    let into = |node| sum(|link| link.to, node, |link| link.frames - link.lost);
    for switch in 0..topology.switches() {
        let (node, stats) = (Node::Switch(switch), fabric.stats_of(switch));
        assert_eq!(into(node), stats.passed + stats.dropped, "into switch {switch}");
        assert_eq!(out(node), stats.passed, "out of switch {switch}");
    }
    for (host, number) in fabric.hosts().zip(0..) {
        let ((sent, received), node) = (host.frames(), Node::Host(number));
        assert_eq!(out(node), sent, "from host {number}");
        assert_eq!(into(node), received, "to host {number}");
    }
}

/// Lossless Ethernet with little memory pauses links all the time, drops nothing, and every flow
/// ends well; without headroom it drops.
#[test]
fn a_lossless_network_drops_nothing() {
    let run = |headroom_short| {
        let mut config = config(64, 2);
        let pfc = PfcConfig { pool: 300_000, headroom_short, ..PfcConfig::DEFAULT };
        config.switch = SwitchConfig { pfc: Some(pfc), marks: Marks::above(u64::MAX), ..config.switch };
        let mut fabric = loaded(config, 200);
        fabric.run(LONG).expect("runs");
        assert_conserved(&fabric);
        assert_conserved_at_every_port(&fabric);
        assert_eq!(fabric.unfinished(), 0);
        assert!(fabric.flows.iter().all(|flow| flow.failed.is_none()));
        fabric.switch_stats()
    };
    let stats = run(0);
    assert!(stats.pauses > 100 && stats.dropped == 0, "{stats:?}");
    assert!(run(1 << 20).dropped > 0);
}

/// Departures that are computed when a packet is admitted, and those that happen as events because
/// a link might be paused, are the same ones.
#[test]
fn links_that_can_be_paused_and_are_not_change_nothing() {
    let hash = |pfc| {
        let mut config = config(64, 3);
        config.switch = SwitchConfig { pool: 1 << 40, pfc, ..config.switch };
        let mut fabric = loaded(config, 200);
        fabric.run(LONG).expect("runs");
        let stats = fabric.switch_stats();
        assert!((stats.dropped, stats.pauses) == (0, 0) && stats.marked > 100, "{stats:?}");
        fabric.hash()
    };
    assert_eq!(hash(None), hash(Some(PfcConfig { pool: 1 << 40, ..PfcConfig::DEFAULT })));
}

/// Switches with little memory drop, and still every flow ends well.
#[test]
fn drops_are_repaired() {
    let mut config = config(16, 2);
    config.switch.pool = 200_000;
    config.switch.marks = Marks::above(u64::MAX);
    let mut fabric = loaded(config, 400);
    fabric.run(LONG).expect("runs");
    assert!(fabric.switch_stats().dropped > 100, "{:?}", fabric.switch_stats());
    assert_conserved(&fabric);
    assert_conserved_at_every_port(&fabric);
    assert_eq!(fabric.unfinished(), 0);
    assert!(fabric.flows.iter().all(|flow| flow.failed.is_none()));
}

#[test]
fn a_run_repeats_exactly() {
    let hash = |seed| {
        let mut fabric = loaded(config(16, seed), 200);
        fabric.run(LONG).expect("runs");
        fabric.hash()
    };
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
    // Debug and release builds, and all machines, have this one.
    assert_eq!(format!("{:016x}", hash(1)), "6c902f30a4d9b39e");
}

/// What links lose is counted and sent again, whether a flow is one WRITE or many; go-back-N sends
/// more again.
#[test]
fn links_lose_what_they_are_told_to() {
    let text = include_str!("../networks/figure-11.toml");
    let run = |loss, recovery| {
        let mut plan = file::plan(text).expect("a plan");
        plan.workloads =
            vec![Workload::Flows(vec![(0, Flow { at: Ps(0), to: 1, bytes: 4_000_000, workload: 0 })])];
        plan.changes = Changes { loss, recovery: Some(recovery), ..plan.changes };
        let mut fabric = plan.fabric(plan.config(), 1).expect("hosts");
        let rates = plan.play(&mut fabric, |_| true).expect("runs");
        assert_conserved(&fabric);
        assert_conserved_at_every_port(&fabric);
        let row = plan.sum_up(&fabric, &rates);
        assert_eq!((row.summary.unfinished, row.summary.failed), (0, 0));
        (row.lost, row.summary.flow_gbps)
    };
    let (selective, lossless) = (RecoveryPolicy::SelectiveRepeat, run(0.0, RecoveryPolicy::SelectiveRepeat));
    assert_eq!(lossless.0, 0);
    let (lost, gbps) = run(0.01, selective);
    // Of some 4,000 packets and fewer acknowledgements 40 to 80 are expected, give or take 9.
    assert!((20..110).contains(&lost), "{lost}");
    let again = run(0.01, RecoveryPolicy::GoBackN).1;
    assert!(gbps > 0.8 * lossless.1 && again < 0.8 * gbps, "{} {gbps} {again}", lossless.1);
}

/// Every scheme brings every flow to its end, also where switches with little memory drop or pause,
/// and every packet is somewhere.
#[test]
fn schemes_repair_what_is_lost() {
    for scheme in Scheme::ALL {
        let plan = Plan {
            changes: Changes { pool: Some(150_000), mark: Some(1 << 40), ..Changes::default() },
            time: Ps::from_ns(200_000),
            ..Plan::new(scheme, FatTree::of_hosts(16).expect("a size of the figure"))
        };
        let mut fabric = plan.fabric(plan.config(), 1).expect("hosts");
        let rates = plan.play(&mut fabric, |_| true).expect("runs");
        let (row, what) = (plan.sum_up(&fabric, &rates), scheme.name());
        assert_eq!((row.summary.unfinished, row.summary.failed), (0, 0), "{what}");
        let lossless = plan.config().switch.pfc.is_some();
        assert_eq!(row.switches.dropped == 0, lossless, "{what}: {:?}", row.switches);
        assert_eq!(row.switches.pauses > 0, lossless, "{what}: {:?}", row.switches);
        assert_conserved(&fabric);
        assert_conserved_at_every_port(&fabric);
    }
}
