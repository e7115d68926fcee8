//! Many queue pairs of one engine share its turns.

use datapath::qp::attr::CongestionAlgorithm;
use datapath::sched::SchedulerConfig;
use simnet::{NodeId, PortOptions, Qp, QpOptions, Region, Rig, RigOptions};
use wire::Pmtu;

const LIMIT_NS: u64 = 1_000_000_000;
/// Of each queue pair, where all have the same to do.
const WRITES: usize = 128;

/// `count` queue pairs from one node to another, and memory for each side.
fn many(count: usize, congestion: CongestionAlgorithm) -> (Rig, Vec<Qp>, Region, Region) {
    let mut rig = Rig::new(RigOptions { max_qps: 512, ..RigOptions::default() });
    let (left, right) = (rig.add_node(), rig.add_node());
    let options = QpOptions { window: 32, congestion, cq_entries: 8192, ..QpOptions::default() };
    let qps = (0..count).map(|_| rig.connected(left, right, options).0).collect();
    let (source, target) = (rig.region(left, 1 << 20), rig.region(right, 1 << 20));
    (rig, qps, source, target)
}

/// Jain's index: 1 if all have the same, 1/n if one has everything.
fn jain(shares: &[u64]) -> f64 {
    let sum: u64 = shares.iter().sum();
    let squares: u64 = shares.iter().map(|share| share * share).sum();
    (sum as f64).powi(2) / (shares.len() as f64 * squares as f64)
}

#[test]
fn three_hundred_queue_pairs_get_equal_shares() {
    for congestion in [CongestionAlgorithm::Fixed, CongestionAlgorithm::Dctcp] {
        let (mut rig, qps, source, target) = many(300, congestion);
        for qp in &qps {
            for _ in 0..WRITES {
                rig.write(*qp, source.at(0, 4000), target.at(0, 4000));
            }
        }
        // 300 x 128 x 4 KB take about 13 ms on the wire: look in the middle, when each has had some
        // ten turns and one more or less does not matter. Polling 600 queues every step takes
        // longer than all else.
        rig.set_auto_poll(false);
        rig.run_for(6_000_000);
        rig.poll();
        let shares: Vec<u64> = qps.iter().map(|qp| rig.sends(*qp).len() as u64).collect();
        let index = jain(&shares);
        assert!(shares.iter().sum::<u64>() > 6000, "{congestion:?}: the link is busy: {shares:?}");
        assert!(index >= 0.99, "{congestion:?}: Jain's index is {index:.4}: {shares:?}");
        rig.run_for(20_000_000);
        rig.poll();
        assert!(qps.iter().all(|qp| rig.sends(*qp).len() == WRITES), "{congestion:?}: all end");
    }
}

#[test]
fn an_elephant_does_not_tread_on_mice() {
    let (mut rig, qps, source, target) = many(101, CongestionAlgorithm::Fixed);
    let (elephant, mice) = (qps[0], &qps[1..]);
    for _ in 0..50 {
        rig.write(elephant, source.all(), target.all());
    }
    rig.run_for(50_000);
    let mut worst_ns = 0;
    for (mouse, round) in (0..8).flat_map(|round| mice.iter().map(move |mouse| (*mouse, round))) {
        rig.write(mouse, source.at(0, 64), target.at(0, 64));
        let took = rig.run_until(|rig| rig.sends(mouse).len() == round + 1, LIMIT_NS).unwrap();
        worst_ns = worst_ns.max(took);
    }
    assert!(rig.sends(elephant).len() < 50, "the elephant was there all along");
    // Its window of 32 packets takes 3 us on the wire, one round trip 2 us and more, by the same
    // amount.
    assert!(worst_ns < 15_000, "a mouse waited {worst_ns} ns");
}

#[test]
fn all_mice_at_once_behind_an_elephant() {
    let (mut rig, qps, source, target) = many(301, CongestionAlgorithm::Fixed);
    rig.write(qps[0], source.all(), target.all());
    rig.run_for(20_000);
    for mouse in &qps[1..] {
        rig.write(*mouse, source.at(0, 64), target.at(0, 64));
    }
    let all = |rig: &mut Rig| qps[1..].iter().all(|mouse| rig.sends(*mouse).len() == 1);
    let took = rig.run_until(all, LIMIT_NS).unwrap();
    assert!(took < 50_000, "three hundred mice took {took} ns");
    assert_eq!(rig.engine(NodeId(0)).core().counters().tx_retransmits, 0);
}

/// Where the port is the bottleneck, every turn of the engine ends with a full port: the queue pair
/// whose turn was cut short is put to the front, and has a whole turn again. As long as its window
/// does not close, nobody else has any.
#[test]
fn a_full_port_does_not_give_everything_to_one() {
    for scheduler in
        [SchedulerConfig::RoundRobin, SchedulerConfig::Weighted, SchedulerConfig::DeficitRoundRobin]
    {
        let port = PortOptions { tx_ring: 64, ..PortOptions::default() };
        let mut rig = Rig::new(RigOptions { port, scheduler, ..RigOptions::default() });
        let (left, right) = (rig.add_node(), rig.add_node());
        let options = QpOptions {
            window: 512,
            congestion: CongestionAlgorithm::Fixed,
            pmtu: Pmtu::B4096,
            ..QpOptions::default()
        };
        let qps: Vec<_> = (0..4).map(|_| rig.connected(left, right, options).0).collect();
        let (source, target) = (rig.region(left, 1 << 20), rig.region(right, 1 << 20));
        for qp in &qps {
            for _ in 0..10 {
                rig.write(*qp, source.all(), target.all());
            }
        }
        // 40 MiB take 3.6 ms on the wire.
        rig.run_for(1_800_000);
        let shares: Vec<_> = qps.iter().map(|qp| rig.sends(*qp).len()).collect();
        assert!(
            shares.iter().all(|share| *share >= 3),
            "{scheduler:?}: of 10 each, half of the time: {shares:?}"
        );
    }
}
