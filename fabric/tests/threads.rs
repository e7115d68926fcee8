//! Any number of threads, and any stops, give the results that one thread gives.

use srnic_fabric::clock::Ps;
use srnic_fabric::fabric::{Config, Fabric};
use srnic_fabric::file;
use srnic_fabric::host::HostConfig;
use srnic_fabric::plan::{Changes, Plan};
use srnic_fabric::scheme::Scheme;
use srnic_fabric::summary::Row;
use srnic_fabric::topology::FatTree;
use srnic_fabric::workload::Workload;

const LONG: Ps = Ps::from_ns(1_000_000_000);

/// What a run amounts to, and how many events happened.
fn play(plan: &Plan, config: Config, threads: usize) -> (Row, u64) {
    let mut fabric = plan.fabric(config, threads).expect("hosts");
    let rates = plan.play(&mut fabric, |fabric| {
        assert_conserved(fabric);
        true
    });
    assert_eq!(fabric.in_flight(), 0);
    (plan.sum_up(&fabric, &rates.expect("runs")), fabric.events())
}

/// What hosts sent arrived, was dropped at a switch, was lost or is on its way, also from one
/// thread to another.
fn assert_conserved(fabric: &Fabric) {
    let (sent, received) =
        fabric.hosts().map(|host| host.frames()).fold((0, 0), |sum, host| (sum.0 + host.0, sum.1 + host.1));
    let lost: u64 = fabric.links().iter().map(|link| u64::from(link.lost)).sum();
    assert_eq!(sent, received + fabric.switch_stats().dropped + lost + fabric.in_flight() as u64);
}

/// The run by one thread, after others were held to it.
fn the_same_by_all(plan: &Plan, config: &Config) -> Row {
    let one = play(plan, config.clone(), 1);
    assert_eq!((one.0.summary.unfinished, one.0.summary.failed), (0, 0));
    for threads in [2, 3, 4] {
        assert_eq!(play(plan, config.clone(), threads), one, "{}: {threads} threads", plan.scheme.name());
    }
    one.0
}

fn figure(scheme: Scheme, changes: Changes) -> Plan {
    let tree = FatTree::of_hosts(64).expect("a size of the figure");
    let time = Ps::from_ns(40_000);
    Plan { time, warm_up: Ps(0), changes, ..Plan::new(scheme, tree) }
}

/// The engine and a model, over switches that drop, links that lose, and packets that are sprayed.
#[test]
fn threads_change_nothing() {
    let changes =
        Changes { pool: Some(150_000), mark: Some(1 << 40), loss: 0.001, spray: true, ..Changes::default() };
    for scheme in [Scheme::Srnic, Scheme::Irn] {
        let plan = figure(scheme, changes);
        let row = the_same_by_all(&plan, &plan.config());
        assert!(row.switches.dropped > 0 && row.lost > 0, "{row:?}");
    }
}

/// PAUSE frames cross from thread to thread, too.
#[test]
fn threads_change_nothing_in_a_lossless_network() {
    for scheme in [Scheme::Cx6, Scheme::SrnicPfc] {
        let plan = figure(scheme, Changes { pool: Some(150_000), ..Changes::default() });
        let row = the_same_by_all(&plan, &plan.config());
        assert!(row.switches.pauses > 0 && row.switches.dropped == 0, "{row:?}");
    }
}

/// Sixty flows to one host at once, most of which have to wait for a queue pair.
#[test]
fn threads_change_nothing_for_flows_that_wait() {
    let mut plan = file::plan(include_str!("../networks/incast.toml")).expect("a plan");
    plan.workloads =
        vec![Workload::Incast { to: 0, senders: 60, bytes: 50_000, every: Ps::from_ns(100_000) }];
    (plan.time, plan.warm_up) = (Ps::from_ns(100_000), Ps(0));
    let mut config = plan.config();
    if let HostConfig::Engine(host) = &mut config.host {
        host.max_qps = 7;
    }
    let row = the_same_by_all(&plan, &config);
    assert_eq!(row.summary.flows, 60);
    assert_ne!(play(&plan, plan.config(), 2).0.hash, row.hash, "with enough queue pairs none waits");
}

/// Where a run stops on its way, and who looks at it then, changes nothing.
#[test]
fn stops_change_nothing() {
    let plan = figure(Scheme::Srnic, Changes::default());
    let hash = |threads, step: Ps| {
        let (mut fabric, mut until) = (plan.fabric(plan.config(), threads).expect("hosts"), Ps(0));
        loop {
            until = until + step;
            if !fabric.run(until).expect("runs") {
                return (fabric.hash(), fabric.events());
            }
            assert_conserved(&fabric);
        }
    };
    let whole = hash(1, LONG);
    for threads in [1, 2] {
        assert_eq!(hash(threads, Ps(777_777)), whole, "{threads} threads");
    }
}
