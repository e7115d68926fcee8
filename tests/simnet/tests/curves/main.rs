//! Congestion control over time (testing.md 11): limits are asserted, and `SRNIC_FIGURES=DIR` draws
//! the curves. They move a little with every change of the engine's turns, so they are no
//! snapshots; those of the controllers alone are, in cc-dctcp/tests/bottleneck.rs.

mod bottleneck;
mod controllers;
mod crowd;
mod drop_tail;
mod figure;
mod path;
mod random_loss;
mod workers;

use bottleneck::{Bottleneck, Sample, Scene, mean, table};
use datapath::qp::attr::{CongestionAlgorithm, CongestionTuning};
use wire::Pmtu;

/// Round trips on a rack.
const RTT_NS: u64 = 2_000;
/// Length of an interval there: 20 round trips.
const INTERVAL_NS: u64 = 40_000;
/// Swift's target there: the queue may be as long as two empty round trips.
const TARGET_NS: u32 = 6_000;

/// `count` flows of equal round trips, one of which starts every `every_ns`.
fn flows(count: u64, every_ns: u64) -> Vec<(u64, u64)> {
    (0..count).map(|number| (RTT_NS, number * every_ns)).collect()
}

fn scene(congestion: CongestionAlgorithm) -> Scene {
    let tuning = CongestionTuning { fabric_target_ns: TARGET_NS, ..CongestionTuning::default() };
    Scene { congestion, tuning, ..Scene::default() }
}

/// Draws and prints the samples; returns them and their mean over the second half.
fn record(name: &str, title: &str, samples: Vec<Sample>) -> (Vec<Sample>, Sample) {
    figure::draw(name, title, &samples);
    println!("{title}\n{}", table(&samples, 10));
    let settled = mean(&samples[samples.len() / 2..]);
    (samples, settled)
}

#[test]
fn two_flows_of_dctcp_converge() {
    let mut link = Bottleneck::new(&scene(CongestionAlgorithm::Dctcp), &flows(2, 400_000));
    let (_, settled) =
        record("dctcp_two_flows", "DCTCP: a second flow after 0.4 ms", link.curve(200, INTERVAL_NS));
    assert!(settled.jain() > 0.95, "{settled}");
    assert!(settled.utilisation() > 0.95, "{settled}");
    assert!(settled.queue <= 20 + 12, "K and what is under way when the first mark is seen: {settled}");
}

#[test]
fn sixteen_flows_of_dctcp_converge() {
    let mut link = Bottleneck::new(&scene(CongestionAlgorithm::Dctcp), &flows(16, 50_000));
    let (_, settled) =
        record("dctcp_sixteen_flows", "DCTCP: sixteen flows, one every 50 us", link.curve(100, INTERVAL_NS));
    assert!(settled.jain() > 0.95, "{settled}");
    assert!(settled.utilisation() > 0.95, "{settled}");
    assert!(settled.queue <= 20 + 2 * 16, "each flow adds a packet or two before it sees marks: {settled}");
}

#[test]
fn flows_of_swift_converge_at_their_target() {
    for (count, every_ns) in [(2, 400_000), (16, 50_000)] {
        let mut link = Bottleneck::new(&scene(CongestionAlgorithm::Swift), &flows(count, every_ns));
        let name = format!("swift_{count}_flows");
        let (_, settled) = record(&name, &format!("Swift: {count} flows"), link.curve(100, INTERVAL_NS));
        assert!(settled.jain() > 0.98, "{settled}");
        assert!(settled.utilisation() > 0.95, "{settled}");
        // Frames of 1,124 bytes in the time by which small windows may pass the target: 3 times 6
        // us.
        assert!(settled.queue <= 205, "{settled}");
        assert!(settled.queue >= 20, "it looks at delays, not at marks: {settled}");
    }
}

/// 64 senders start at once into a queue of 1000 frames: most of the first windows are lost, then
/// nothing is.
#[test]
fn an_incast_of_sixty_four_does_not_collapse() {
    use CongestionAlgorithm::{Dcqcn, Dctcp, Swift};
    for (congestion, name, queue_most) in [(Dctcp, "dctcp", 64), (Swift, "swift", 205), (Dcqcn, "dcqcn", 64)]
    {
        let scene = Scene { queue_frames: 1_000, ..scene(congestion) };
        let mut link = Bottleneck::new(&scene, &flows(64, 0));
        let name = format!("{name}_incast_of_64");
        let (samples, settled) =
            record(&name, &format!("{congestion:?}: incast of 64"), link.curve(100, INTERVAL_NS));
        assert!(samples[0].overflowed > 1_000, "the queue was too short: {}", samples[0].overflowed);
        assert_eq!(settled.overflowed, samples[50].overflowed, "{congestion:?}: losses go on");
        assert!(settled.utilisation() > 0.95, "{congestion:?}: {settled}");
        assert!(settled.jain() > 0.98, "{congestion:?}: {settled}");
        assert!(settled.queue <= queue_most, "{congestion:?}: {settled}");
    }
}

#[test]
fn dcqcn_keeps_the_queue_short_though_not_fair() {
    let mut link = Bottleneck::new(&scene(CongestionAlgorithm::Dcqcn), &flows(16, 50_000));
    let (_, settled) = record("dcqcn_sixteen_flows", "DCQCN: sixteen flows", link.curve(100, INTERVAL_NS));
    assert!(settled.utilisation() > 0.95, "{settled}");
    assert!(settled.queue <= 20 + 12, "{settled}");
}

/// CE_CNT is a running count: acknowledgements that are lost hide no marks.
#[test]
fn a_tenth_of_the_acknowledgements_lost_changes_neither_queue_nor_use() {
    let run = |ack_loss_ppm| {
        let scene = Scene { ack_loss_ppm, ..scene(CongestionAlgorithm::Dctcp) };
        let mut link = Bottleneck::new(&scene, &flows(2, 0));
        let samples = link.curve(100, INTERVAL_NS);
        let (made, seen) = link.marks();
        // A few are in the receiver's burst or on the wire.
        assert!(made - seen < 64, "{made} marks made, {seen} counted");
        mean(&samples[50..])
    };
    let (clean, lossy) = (run(0), run(100_000));
    assert!(clean.queue <= 20 + 12 && lossy.queue <= 64, "{clean}\n{lossy}");
    assert!(lossy.utilisation() > 0.9, "{lossy}");
}

/// A path of 2 us beside one of 1 ms on 40 Gb/s, where marks leave room for the long one (K about a
/// seventh of its bandwidth-delay product).
fn long_and_short(rtt_reference_ns: u32) -> Vec<Sample> {
    let tuning = CongestionTuning { rtt_reference_ns, ..CongestionTuning::default() };
    let scene =
        Scene { gbps: 40, mark_frames: 100, pmtu: Pmtu::B4096, window: 2_048, tuning, ..Scene::default() };
    Bottleneck::new(&scene, &[(RTT_NS, 0), (1_000_000, 0)]).curve(100, 1_000_000)
}

#[test]
fn fair_growth_lets_long_paths_live_beside_short_ones() {
    let title = "DCTCP on 40 Gb/s: 2 us beside 1 ms";
    let (_, unfair) = record("rtt_unfair", title, long_and_short(0));
    let title = "The same with RTT-fair growth, reference 200 us";
    let (_, fair) = record("rtt_fair", title, long_and_short(200_000));
    assert!(unfair.jain() < 0.55, "without, the short path takes all: {unfair}");
    assert!(fair.jain() > 0.8, "{fair}");
    assert!(fair.utilisation() > 0.95, "{fair}");
}
