//! A short swarm, and the seeds that found something once (testing.md 12).

use srnic_tests::swarm::{Campaign, Plan, run};

/// Seeds of the short swarm; `cargo xtask sim` plays more.
const SHORT: u64 = if cfg!(debug_assertions) { 100 } else { 1000 };

/// Seeds that failed once, what they found, and one a line.
const FOUND: &str = include_str!("seeds.txt");

#[test]
fn a_short_swarm_holds() {
    let totals = Campaign { first: 1, count: SHORT, jobs: 2 }.run(|_| {}).unwrap();
    assert_eq!(totals.seeds, SHORT);
    assert!(totals.operations > 50 * SHORT, "{totals:?}");
    assert!(totals.faults > 5 * SHORT, "{totals:?}");
}

fn found() -> impl Iterator<Item = u64> {
    let lines = FOUND.lines().filter(|line| !line.starts_with('#'));
    let seeds = lines.map(|line| line.split_whitespace().next().expect("a line begins with a seed"));
    seeds.map(|seed| seed.parse().expect("a seed is a number"))
}

#[test]
fn what_found_a_bug_once_stays_found() {
    for seed in found() {
        run(seed).unwrap();
        assert!(!Plan::draw(seed).to_string().contains("B1408"), "{seed} has a path MTU that came later");
    }
}

#[test]
fn a_seed_gives_one_history() {
    for seed in [1, 2, 3] {
        assert_eq!(run(seed).unwrap(), run(seed).unwrap(), "seed {seed}");
    }
    let forward = Campaign { first: 1, count: 8, jobs: 1 }.run(|_| {}).unwrap();
    let threads = Campaign { first: 1, count: 8, jobs: 3 }.run(|_| {}).unwrap();
    assert_eq!(forward, threads, "the order in which threads finish does not matter");
    let others = Campaign { first: 2, count: 8, jobs: 1 }.run(|_| {}).unwrap();
    assert_ne!(forward.hash, others.hash);
}

#[test]
fn the_seeds_together_draw_everything() {
    let plans: Vec<String> = (1..=400).map(|seed| Plan::draw(seed).to_string()).collect();
    let wanted = [
        "GoBackN",
        "SelectiveRepeat",
        "Dctcp",
        "Fixed",
        "B256",
        "B1408",
        "B4096",
        "lethal",
        "1 defects",
        "Reset {",
        "Err {",
        "Some(Pause",
        "ipv6: true",
        "vlan: Some",
        "Freeze(",
        "black_hole: true",
        "Capture(",
        "tx_ring: 2,",
        "recovery_contexts: 1,",
        "window_max: 4,",
        "pair 0 on nodes [1, 1]",
        "tidy, ",
        "LoseData(",
        "Some(Withdrawal { flow: 0, source: true",
        "Some(Withdrawal { flow: 1, source: false",
        "None, replaced",
        "max_dest_rd_atomic: 1,",
        "max_dest_rd_atomic: 128,",
        "READs and atomics [0, 1",
        "wire_mode: Plain",
        "WriteOrder(ORDERED_OVERLAP)",
        "WriteOrder(STRICT_PLACEMENT)",
        "WriteOrder(ORDERED_OVERLAP | STRICT_PLACEMENT)",
        "shared receives [true, true]",
        "SharedReceivesPlan { slots: 2,",
        "cramped",
        "windows [Some(One), None]",
        "windows [Some(Two), Some(Two)]",
        "invalidated",
        "ended in use",
        "rx_ring: 32,",
        "host_marks_ns: 5000,",
        "host_rates: Some",
        "Host(NodeId(0), HostModel { frame_ns: 4000",
    ];
    for what in wanted {
        assert!(plans.iter().any(|plan| plan.contains(what)), "no seed draws {what}");
    }
}
