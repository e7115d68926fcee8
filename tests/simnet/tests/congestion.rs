//! Queues that are too short: the transmit ring's, the switch's; marks, and what they do to the
//! window.

use datapath::qp::attr::CongestionAlgorithm;
use simnet::{LinkId, Message, Op, QpOptions, Rig, RigOptions, Transfer};

const LIMIT_NS: u64 = 1_000_000_000;
const ALL: [CongestionAlgorithm; 4] = [
    CongestionAlgorithm::Fixed,
    CongestionAlgorithm::Dctcp,
    CongestionAlgorithm::Swift,
    CongestionAlgorithm::Dcqcn,
];

fn writes(count: usize, len: usize) -> Vec<Message> {
    vec![Message::new(Op::Write, len); count]
}

#[test]
fn a_transmit_ring_of_two_frames_delays_but_loses_nothing() {
    for (tx_ring, len) in [(1, 2000), (2, 40_000), (2, 600_000), (3, 40_000)] {
        let mut options = RigOptions::default();
        options.port.tx_ring = tx_ring;
        let (mut rig, a, b) = Rig::pair(options, QpOptions { window: 512, ..QpOptions::default() });
        let mut transfers = [
            Transfer::new(&mut rig, a, b, writes(8, len), 1),
            Transfer::new(&mut rig, b, a, writes(8, len), 100),
        ];
        let outcome = Transfer::run_all(&mut transfers, &mut rig, LIMIT_NS);
        outcome.unwrap_or_else(|stuck| panic!("ring of {tx_ring}, {len} bytes: {stuck:?}"));
        let stats = rig.net.stats(rig.up(a));
        assert!(stats.queue_max <= tx_ring && stats.overflowed == 0);
        assert!(rig.counters(a).tx_ring_full > 0, "the ring was the limit");
    }
}

#[test]
fn acknowledgements_do_not_starve_behind_data_in_a_full_ring() {
    let mut options = RigOptions::default();
    options.port.tx_ring = 2;
    let (mut rig, a, b) = Rig::pair(options, QpOptions { window: 512, ..QpOptions::default() });
    let mut transfers = [
        Transfer::new(&mut rig, a, b, writes(8, 600_000), 1),
        Transfer::new(&mut rig, b, a, writes(8, 600_000), 100),
    ];
    Transfer::run_all(&mut transfers, &mut rig, LIMIT_NS).unwrap();
    for qp in [a, b] {
        let counters = rig.counters(qp);
        assert_eq!((counters.tx_retransmits, counters.rto_fired), (0, 0), "nothing was lost");
    }
}

/// `senders` nodes write to one whose downlink marks at 20 frames and drops at `queue`. Returns the
/// rig and the time.
fn incast(senders: usize, congestion: CongestionAlgorithm, queue: usize) -> (Rig, u64) {
    let mut options = RigOptions::default();
    options.port.down.mark_frames = Some(20);
    options.port.down.queue_frames_max = queue;
    let mut rig = Rig::new(options);
    let receiver = rig.add_node();
    let qp = QpOptions { window: 64, congestion, ..QpOptions::default() };
    let mut transfers: Vec<Transfer> = (0..senders as u64)
        .map(|number| {
            let sender = rig.add_node();
            let (a, b) = rig.connected(sender, receiver, qp);
            Transfer::new(&mut rig, a, b, writes(10, 50_000), 100 * number)
        })
        .collect();
    let took = Transfer::run_all(&mut transfers, &mut rig, LIMIT_NS).unwrap();
    (rig, took)
}

#[test]
fn dctcp_keeps_the_queue_short_and_the_link_busy() {
    let receiver = LinkId::Down(simnet::NodeId(0));
    let (rig, took) = incast(8, CongestionAlgorithm::Dctcp, 2000);
    let stats = rig.net.stats(receiver);
    assert!(stats.marked > 0, "the switch marked");
    assert_eq!(stats.overflowed, 0);
    let marked = rig.engine(simnet::NodeId(0)).core().counters().rx_ce_marked;
    assert_eq!(marked, stats.marked, "each mark is seen");
    let (fixed, _) = incast(8, CongestionAlgorithm::Fixed, 2000);
    let uncontrolled = fixed.net.stats(receiver).queue_max;
    assert!(uncontrolled > 400, "without control all windows stand in the queue: {uncontrolled}");
    // The first window of each sender arrives before any mark can have an effect.
    assert!(stats.queue_max < uncontrolled, "{} against {uncontrolled}", stats.queue_max);
    let ideal = stats.delivered_bytes * 80 / 1000;
    assert!(took < 2 * ideal, "{took} ns for {ideal} ns of bytes: the link must not starve");
}

#[test]
fn an_incast_that_overflows_the_queue_does_not_collapse() {
    for congestion in ALL {
        let (rig, took) = incast(16, congestion, 100);
        let stats = rig.net.stats(LinkId::Down(simnet::NodeId(0)));
        assert!(stats.overflowed > 0, "{congestion:?}: the queue was too short");
        let ideal = stats.delivered_bytes * 80 / 1000;
        // Without control everything that is lost is sent into the same full queue again.
        let most = if congestion == CongestionAlgorithm::Fixed { 5 } else { 4 };
        assert!(took < most * ideal, "{congestion:?}: {took} ns for {ideal} ns of bytes");
    }
}

#[test]
fn a_window_of_one_packet_under_marks_and_loss_goes_on() {
    for (seed, congestion) in (0..).zip(ALL.into_iter().cycle().take(8)) {
        let mut options = RigOptions::seeded(seed);
        // Everything is marked, always.
        options.port.up.mark_frames = Some(0);
        options.port.up.faults.loss_ppm = 50_000;
        let qp = QpOptions { congestion, ..QpOptions::default() };
        let (mut rig, a, b) = Rig::pair(options, qp);
        let mut transfers = [
            Transfer::new(&mut rig, a, b, writes(10, 30_000), 1),
            Transfer::new(&mut rig, b, a, writes(10, 30_000), 100),
        ];
        let outcome = Transfer::run_all(&mut transfers, &mut rig, LIMIT_NS);
        outcome.unwrap_or_else(|stuck| panic!("seed {seed}, {congestion:?}: {stuck:?}"));
    }
}

#[test]
fn lost_acks_hide_no_marks() {
    let run = |ack_loss_ppm| {
        let mut options = RigOptions::default();
        // A bottleneck of 10 Gb/s that marks from 20 packets on.
        options.port.down.ps_per_byte = 800;
        options.port.down.mark_frames = Some(20);
        options.port.down.queue_frames_max = 4000;
        let qp = QpOptions { window: 400, congestion: CongestionAlgorithm::Dctcp, ..QpOptions::default() };
        let (mut rig, a, b) = Rig::pair(options, qp);
        // The first windows, before anything can be known, stand in the queue whatever happens.
        Transfer::new(&mut rig, a, b, writes(20, 60_000), 1).run(&mut rig, LIMIT_NS).unwrap();
        rig.net.set_faults(rig.up(b), simnet::Faults::loss(ack_loss_ppm));
        rig.net.reset_queue_max(LinkId::Down(b.node()));
        Transfer::new(&mut rig, a, b, writes(60, 60_000), 100).run(&mut rig, LIMIT_NS).unwrap();
        rig.net.stats(LinkId::Down(b.node())).queue_max
    };
    let (clean, lossy) = (run(0), run(300_000));
    assert!(clean < 150, "{clean} packets in the queue with every ACK");
    assert!(lossy < 2 * clean, "{lossy} packets in the queue with a third of the ACKs lost, {clean} without");
}
