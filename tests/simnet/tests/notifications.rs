//! Congestion notifications of wire mode Plain: marks make the receiver send them, rarely, and the
//! sender's controller hears.

use datapath::qp::attr::{CongestionAlgorithm, RecoveryPolicy};
use datapath::qp::state::QpState;
use simnet::filter::drop_all;
use simnet::{Forger, LinkId, Message, NodeId, Op, QpOptions, Rig, RigOptions, Transfer, Work};
use wire::{Opcode, Psn, WireMode};

const LIMIT_NS: u64 = 1_000_000_000;
/// Least time between two notifications of a queue pair's (protocol.md 1.8).
const INTERVAL_NS: u64 = 50_000;

fn plain(congestion: CongestionAlgorithm) -> QpOptions {
    QpOptions {
        window: 64,
        congestion,
        wire_mode: WireMode::Plain,
        recovery: RecoveryPolicy::GoBackN,
        ..QpOptions::default()
    }
}

/// Queues of the incast's switch: marks from so many frames on, and room for so many.
const MARKS_AT: usize = 20;
const ROOM: usize = 2000;

/// Eight nodes write to one over a link that marks. Returns the rig, its senders, and how long it
/// took.
fn incast(options: QpOptions) -> (Rig, Vec<NodeId>, u64) {
    let mut rig_options = RigOptions::default();
    rig_options.port.down.mark_frames = Some(MARKS_AT);
    rig_options.port.down.queue_frames_max = ROOM;
    let mut rig = Rig::new(rig_options);
    let receiver = rig.add_node();
    let senders: Vec<NodeId> = (0..8).map(|_| rig.add_node()).collect();
    let mut transfers: Vec<Transfer> = (0..)
        .zip(&senders)
        .map(|(number, &sender)| {
            let (a, b) = rig.connected(sender, receiver, options);
            Transfer::new(&mut rig, a, b, vec![Message::new(Op::Write, 50_000); 20], 100 * number)
        })
        .collect();
    let took = Transfer::run_all(&mut transfers, &mut rig, LIMIT_NS).unwrap();
    (rig, senders, took)
}

#[test]
fn marks_become_notifications_and_those_a_shorter_queue() {
    let receiver = NodeId(0);
    let (rig, senders, took) = incast(plain(CongestionAlgorithm::Dcqcn));
    let counters = rig.engine(receiver).core().counters();
    let stats = rig.net.stats(LinkId::Down(receiver));
    assert!(stats.marked > 0 && counters.rx_ce_marked == stats.marked, "each mark is seen");
    let most = 8 * (took / INTERVAL_NS + 1);
    assert!((8..=most).contains(&counters.tx_cnps), "{} notifications in {took} ns", counters.tx_cnps);
    assert!(counters.tx_cnps < stats.marked / 10, "one speaks for many marks");
    let heard: u64 = senders.iter().map(|&sender| rig.engine(sender).core().counters().rx_cnps).sum();
    assert_eq!(heard, counters.tx_cnps);

    let (fixed, ..) = incast(plain(CongestionAlgorithm::Fixed));
    let [late, uncontrolled] = [&rig, &fixed].map(|rig| rig.net.stats(LinkId::Down(receiver)));
    assert!(late.marked < uncontrolled.marked / 2, "{} of {} marks", late.marked, uncontrolled.marked);
    let ideal = late.delivered_bytes * 80 / 1000;
    assert!(took < 2 * ideal, "{took} ns for {ideal} ns of bytes: the link must not starve");
}

#[test]
fn a_notification_is_as_the_standard_has_it() {
    let mut options = RigOptions::default();
    options.port.up.mark_frames = Some(0);
    let (mut rig, a, b) = Rig::pair(options, plain(CongestionAlgorithm::Dcqcn));
    let (qpn, link) = (rig.qpn(a), rig.up(b));
    rig.net.set_filter(
        link,
        drop_all(move |passing| {
            let packet = passing.packet.expect("a RoCE packet");
            if packet.opcode() == Opcode::Cnp {
                assert_eq!((packet.dest_qp(), packet.psn(), packet.pkey()), (qpn, Psn::new(0), 0xFFFF));
                assert!(packet.becn() && !packet.fecn() && !packet.ack_req() && packet.tver() == 0);
                assert_eq!(packet.payload(), [0; 16]);
            }
            false
        }),
    );
    Transfer::new(&mut rig, a, b, vec![Message::new(Op::Write, 5000)], 1).run(&mut rig, LIMIT_NS).unwrap();
    rig.run_for(INTERVAL_NS);
    assert_eq!((rig.counters(b).tx_cnps, rig.counters(a).rx_cnps), (1, 1));
    assert_eq!(
        (rig.counters(a).tx_cnps, rig.counters(b).rx_cnps),
        (0, 0),
        "of acknowledgements there are none"
    );
}

/// Responses too: the requester notifies the responder. An SRNIC queue pair echoes marks in its
/// acknowledgements instead.
#[test]
fn responses_are_notified_of_and_the_srnic_dialect_knows_no_notifications() {
    for (mode, expected) in [(WireMode::Plain, true), (WireMode::Srnic, false)] {
        let mut options = RigOptions::default();
        options.port.up.mark_frames = Some(0);
        let qp = QpOptions { wire_mode: mode, ..plain(CongestionAlgorithm::Dcqcn) };
        let (mut rig, a, b) = Rig::pair(options, qp);
        let (here, there) = (rig.region(a.node(), 5000), rig.region(b.node(), 5000));
        rig.post(a, &Work::read(here.all(), there.all()));
        rig.run_until(|rig| !rig.sends(a).is_empty(), LIMIT_NS).unwrap();
        rig.run_for(INTERVAL_NS);
        assert_eq!(rig.counters(a).tx_cnps > 0, expected, "{mode:?}: of the response");
        assert_eq!(rig.counters(b).rx_cnps, rig.counters(a).tx_cnps, "{mode:?}");
        assert_eq!(rig.counters(b).tx_cnps > 0, expected, "{mode:?}: of the request");
    }
}

#[test]
fn a_lost_notification_is_followed_by_another() {
    let mut options = RigOptions::default();
    options.port.up.mark_frames = Some(0);
    let (mut rig, a, b) = Rig::pair(options, plain(CongestionAlgorithm::Dcqcn));
    let mut lost = 0;
    let link = rig.up(b);
    rig.net.set_filter(
        link,
        drop_all(move |passing| {
            let is = passing.packet.is_some_and(|packet| packet.opcode() == Opcode::Cnp) && lost < 2;
            lost += u32::from(is);
            is
        }),
    );
    Transfer::new(&mut rig, a, b, vec![Message::new(Op::Write, 50_000); 100], 1)
        .run(&mut rig, LIMIT_NS)
        .unwrap();
    assert!(rig.counters(a).rx_cnps > 0, "{:?}", rig.counters(b));
    assert_eq!(rig.counters(a).rx_cnps, rig.counters(b).tx_cnps - 2);
}

#[test]
fn what_is_no_notification_for_a_sender_is_dropped_and_counted() {
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), plain(CongestionAlgorithm::Dcqcn));
    let forger = Forger::new(&rig, a, b);
    let mut repr = forger.repr(WireMode::Plain, Opcode::Cnp, Psn::new(0));
    let mut send = |rig: &mut Rig, becn: bool| {
        repr.bth.becn = becn;
        let now = rig.now();
        rig.net.deliver(now, b.node(), forger.frame(&repr, &[0; 16]));
        rig.run_for(10_000);
    };
    send(&mut rig, false);
    assert_eq!((rig.counters(b).drop_malformed, rig.counters(b).rx_cnps), (1, 0));
    send(&mut rig, true);
    assert_eq!(rig.counters(b).rx_cnps, 1);
    rig.to_state(b, QpState::Err);
    let before = rig.counters(b).drop_qp_state;
    send(&mut rig, true);
    assert_eq!((rig.counters(b).drop_qp_state, rig.counters(b).rx_cnps), (before + 1, 1));
}
