//! The slow path behind the rings of a thread: late, stalled, and in real time.

use simnet::{Faults, Message, Op, Qp, QpOptions, Rig, RigOptions, SlowPathDriver, Transfer};

const LIMIT_NS: u64 = 2_000_000_000;
const MS: u64 = 1_000_000;

fn options(slow_path: SlowPathDriver, seed: u64) -> RigOptions {
    RigOptions { slow_path, turn_cost_ns: 500, ..RigOptions::seeded(seed) }
}

fn lossy_both_ways(rig: &mut Rig, ends: [Qp; 2]) {
    let faults = Faults { reorder_ns_max: 5_000, reorder_ppm: 5_000, ..Faults::loss(20_000) };
    for end in ends {
        rig.net.set_faults(rig.up(end), faults);
    }
}

/// Transfers in both directions over a network that loses and reorders; at the end nobody keeps
/// anything.
fn transfer_both_ways(slow_path: SlowPathDriver, seed: u64) -> Rig {
    let (mut rig, a, b) = Rig::pair(options(slow_path, seed), QpOptions::default());
    lossy_both_ways(&mut rig, [a, b]);
    let messages = || vec![Message::new(Op::Write, 3000); 300];
    let mut transfers = [
        Transfer::new(&mut rig, a, b, messages(), seed),
        Transfer::new(&mut rig, b, a, messages(), seed + 1000),
    ];
    Transfer::run_all(&mut transfers, &mut rig, LIMIT_NS)
        .unwrap_or_else(|stuck| panic!("{slow_path:?}: {stuck:?}"));
    rig.net.heal();
    rig.run_until_quiet(LIMIT_NS).unwrap();
    for node in [a.node(), b.node()] {
        let stats = rig.engine(node).core().slow_path_stats();
        assert!(stats.records > 100, "{stats:?}");
        assert_eq!((stats.receivers_open, stats.senders_open), (0, 0), "{slow_path:?}: {stats:?}");
        let contexts = rig.engine(node).core().free_recovery_contexts();
        assert_eq!(contexts, RigOptions::default().recovery_contexts as usize);
    }
    rig
}

#[test]
fn decisions_may_come_late() {
    for (seed, every_ns) in [(1, 1), (2, 2_000), (3, 10_000), (4, 60_000)] {
        transfer_both_ways(SlowPathDriver::Late(every_ns), seed);
    }
}

#[test]
fn behind_rings_that_are_served_every_turn_it_resends_as_little() {
    for driver in [SlowPathDriver::Stepped, SlowPathDriver::Late(1)] {
        let rig = transfer_both_ways(driver, 5);
        let resent = rig.qps().map(|qp| rig.counters(qp).tx_retransmits).sum::<u64>();
        let lost = rig.qps().map(|qp| rig.net.stats(rig.up(qp)).data_lost()).sum::<u64>();
        assert!(lost > 10 && resent < 2 * lost, "{driver:?}: {resent} for {lost}");
    }
}

#[test]
fn a_thread_recovers_what_is_lost() {
    for seed in 1..=3 {
        transfer_both_ways(SlowPathDriver::Thread, seed);
    }
}

#[test]
fn a_stalled_slow_path_loses_nothing_and_holds_up_nobody_else() {
    let (mut rig, a, b) = Rig::pair(options(SlowPathDriver::Late(1_000), 7), QpOptions::default());
    // Its own pair of nodes would prove little: the others share both engines, and their control
    // queues.
    let others: Vec<(Qp, Qp)> =
        (0..3).map(|_| rig.connected(a.node(), b.node(), QpOptions::default())).collect();
    for node in [a.node(), b.node()] {
        rig.set_slow_path_period(node, 100 * MS);
    }
    rig.net.set_faults(rig.up(a), Faults::loss(20_000));
    let mut lossy = Transfer::new(&mut rig, a, b, vec![Message::new(Op::Write, 5_000); 200], 1);
    rig.run_until(
        |rig| {
            lossy.step(rig);
            rig.counters(b).recoveries > 0
        },
        MS,
    )
    .expect("something is lost at once");
    rig.net.heal();
    let mut clean: Vec<Transfer> = others
        .iter()
        .map(|&(from, to)| Transfer::new(&mut rig, from, to, vec![Message::new(Op::Write, 20_000); 20], 50))
        .collect();
    let took = Transfer::run_all(&mut clean, &mut rig, 50 * MS).expect("the other queue pairs go on");
    assert!(took < 5 * MS, "{took} ns");
    rig.run_for(60 * MS);
    lossy.step(&mut rig);
    assert!(!lossy.is_finished(&rig), "nobody has told the sender what it lost");
    let counters = *rig.counters(b);
    assert_eq!(
        counters.records_lost, 0,
        "what has no room is dropped before it is acknowledged: {counters:?}"
    );
    lossy.run(&mut rig, 200 * MS).expect("nothing was lost for good");
    rig.run_until_quiet(LIMIT_NS).unwrap();
    for node in [a.node(), b.node()] {
        let stats = rig.engine(node).core().slow_path_stats();
        assert_eq!((stats.untracked, stats.records_refused), (0, 0), "there was room for all: {stats:?}");
    }
}
