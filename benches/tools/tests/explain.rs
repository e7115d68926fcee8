//! `srnic pcap --explain` over captures of runs whose faults are known, with a network in virtual
//! time that writes down what it does to each frame.

use datapath::qp::attr::{CongestionAlgorithm, RecoveryPolicy};
use simnet::filter::drop_numbers;
use simnet::{Capture, Faults, LinkId, Message, NodeId, Op, Qp, QpOptions, Rig, RigOptions, Rng, Transfer};
use srnic_tools::capture::explain::{Report, Rule, Stream, Traffic, Violation, What};
use srnic_tools::capture::{Explain, Frame, for_each};
use std::collections::BTreeMap;
use std::path::Path;
use wire::encap::ROCE_UDP_PORT;
use wire::{Kind, Opcode, Pmtu, Psn, WireMode};

const LIMIT_NS: u64 = 1_000_000_000;

/// A run, and all that the network saw of it.
struct Run {
    capture: Capture,
    a: NodeId,
    b: NodeId,
}

fn options() -> QpOptions {
    QpOptions { pmtu: Pmtu::B256, sq_psn: 0xFF_FFF8, window: 64, ..QpOptions::default() }
}

/// Messages from one node to another over links with faults, and the capture of both.
fn run(seed: u64, ops: &[Op], prepare: impl FnOnce(&mut Rig, Qp, Qp)) -> Run {
    let (mut rig, a, b) = Rig::pair(RigOptions::seeded(seed), options());
    rig.net.capture();
    prepare(&mut rig, a, b);
    let messages = Message::mix_of(ops, &mut Rng::new(seed), 100, 6000);
    Transfer::new(&mut rig, a, b, messages, 1).run(&mut rig, LIMIT_NS).expect("it ends");
    rig.run_until_quiet(LIMIT_NS).expect("it becomes quiet");
    Run { capture: rig.net.take_capture().expect("it was begun"), a: a.node(), b: b.node() }
}

impl Run {
    /// The explanation of the captures of these nodes.
    fn explain(&self, nodes: &[NodeId]) -> Report {
        let mut explain = Explain::new(ROCE_UDP_PORT);
        for node in nodes {
            explain.begin();
            for captured in self.capture.of(*node) {
                add(&mut explain, captured.at.0, &captured.frame);
            }
        }
        explain.report()
    }

    /// What really happened to the packets of `kinds` that `from` sent.
    fn truth(&self, from: NodeId, kinds: &[Kind]) -> Truth {
        let mut truth = Truth::default();
        let mut sent: BTreeMap<u32, Vec<bool>> = BTreeMap::new();
        for fate in self.capture.fates.iter().filter(|fate| fate.link == LinkId::Up(from)) {
            let packet = simnet::frame::packet(&fate.frame).expect("engines send packets");
            let psn = packet.psn().get();
            if !kinds.contains(&packet.opcode().kind()) {
                continue;
            }
            if fate.fate == "duplicated" {
                truth.duplicated.push(psn);
                continue;
            }
            let lost = matches!(fate.fate, "lost" | "burst" | "filtered" | "overflow" | "truncated");
            let before = sent.entry(psn).or_default();
            if !before.is_empty() {
                let arrived = before.contains(&false);
                if arrived { &mut truth.needless } else { &mut truth.needed }.push(psn);
            }
            before.push(lost);
            if lost {
                truth.lost.push(psn);
            }
        }
        truth.sort();
        truth
    }
}

fn add(explain: &mut Explain, at_ns: u64, bytes: &[u8]) {
    let len = u32::try_from(bytes.len()).expect("a short frame");
    explain.add(Frame { bytes, len, at_ns: Some(at_ns) });
}

/// PSNs by what happened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Truth {
    lost: Vec<u32>,
    duplicated: Vec<u32>,
    needed: Vec<u32>,
    needless: Vec<u32>,
}

impl Truth {
    fn of(stream: &Stream) -> Self {
        let psns = |what| stream.events.iter().filter(|one| one.what == what).map(|one| one.psn).collect();
        let mut told = Self {
            lost: psns(What::Lost),
            duplicated: psns(What::Duplicated),
            needed: psns(What::Needed),
            needless: psns(What::Needless),
        };
        told.sort();
        told
    }

    fn sort(&mut self) {
        for psns in [&mut self.lost, &mut self.duplicated, &mut self.needed, &mut self.needless] {
            psns.sort_unstable();
        }
    }
}

/// The only stream of this kind with packets.
fn stream(report: &Report, traffic: Traffic) -> &Stream {
    assert_eq!(report.connections.len(), 1, "{report}");
    let streams = &report.connections[0].streams;
    let mut found = streams.iter().filter(|stream| stream.traffic == traffic);
    let stream = found.next().unwrap_or_else(|| panic!("{traffic:?} in {report}"));
    assert!(found.next().is_none(), "{report}");
    stream
}

const REQUESTS: [Kind; 4] = [Kind::Send, Kind::Write, Kind::ReadRequest, Kind::Atomic];
const RESPONSES: [Kind; 2] = [Kind::ReadResponse, Kind::AtomicAck];

fn assert_clean(report: &Report) {
    assert_eq!(report.violations().next(), None, "{report}");
}

#[test]
fn where_nothing_happened_nothing_is_told() {
    let run = run(1, &Op::WITH_RESPONSES, |_, _, _| {});
    for nodes in [&[run.a, run.b][..], &[run.b, run.a], &[run.a], &[run.b]] {
        let report = run.explain(nodes);
        assert_clean(&report);
        assert!(report.connections[0].back.is_some());
        for traffic in [Traffic::Requests, Traffic::Responses] {
            let stream = stream(&report, traffic);
            assert_eq!(stream.events, [], "{report}");
            assert!(stream.packets > 50 && stream.acks > 0 && stream.round_trip.is_some(), "{report}");
        }
    }
}

#[test]
fn with_both_ends_every_drop_duplicate_and_needless_resend_is_told_right() {
    let mut sums = [0; 4];
    let faults = [
        Faults::loss(30_000),
        Faults { duplicate_ppm: 30_000, ..Faults::default() },
        Faults::reordering(30_000, 20_000),
        Faults { burst_ppm: 5000, burst_frames_max: 8, ..Faults::default() },
        Faults { truncate_ppm: 20_000, ..Faults::default() },
        Faults {
            loss_ppm: 10_000,
            duplicate_ppm: 10_000,
            reorder_ppm: 10_000,
            reorder_ns_max: 5000,
            ..Faults::default()
        },
    ];
    for (seed, faults) in (0..10).flat_map(|seed| faults.map(|faults| (seed, faults))) {
        let run = run(seed, &Op::WITH_RESPONSES, |rig, a, b| {
            rig.net.set_faults(rig.up(a), faults);
            rig.net.set_faults(rig.up(b), faults);
        });
        for nodes in [[run.a, run.b], [run.b, run.a]] {
            let report = run.explain(&nodes);
            assert_clean(&report);
            for (traffic, from, kinds) in
                [(Traffic::Requests, run.a, &REQUESTS[..]), (Traffic::Responses, run.b, &RESPONSES)]
            {
                let truth = run.truth(from, kinds);
                let told = Truth::of(stream(&report, traffic));
                assert_eq!(told, truth, "{traffic:?}, seed {seed}, {faults:?}: {report}");
                for (sum, psns) in
                    sums.iter_mut().zip([&truth.lost, &truth.duplicated, &truth.needed, &truth.needless])
                {
                    *sum += psns.len();
                }
            }
        }
    }
    assert!(sums.iter().all(|sum| *sum > 100), "the runs have something to tell: {sums:?}");
}

#[test]
fn the_senders_capture_alone_tells_what_its_peer_lacked() {
    let mut lost = 0;
    for seed in 0..10 {
        let run = run(seed, &Op::ALL, |rig, a, _| rig.net.set_faults(rig.up(a), Faults::loss(30_000)));
        let report = run.explain(&[run.a]);
        assert_clean(&report);
        let (truth, told) = (run.truth(run.a, &REQUESTS), Truth::of(stream(&report, Traffic::Requests)));
        assert_eq!(told, truth, "seed {seed}: {report}");
        lost += truth.lost.len();
    }
    assert!(lost > 50, "{lost}");
}

#[test]
fn the_receivers_capture_alone_tells_which_packets_were_lost() {
    for seed in 0..10 {
        let run = run(seed, &Op::ALL, |rig, a, _| rig.net.set_faults(rig.up(a), Faults::loss(20_000)));
        let report = run.explain(&[run.b]);
        assert_clean(&report);
        let mut truth = run.truth(run.a, &REQUESTS).lost;
        // Of what was lost twice it can know one loss only.
        truth.dedup();
        let told = Truth::of(stream(&report, Traffic::Requests)).lost;
        assert!(told.iter().all(|psn| truth.contains(psn)), "seed {seed}: {told:?} of {truth:?}: {report}");
        assert!(told.len() * 10 >= truth.len() * 8, "seed {seed}: {told:?} of {truth:?}: {report}");
    }
}

#[test]
fn reordering_is_no_loss_and_duplicates_are_no_resends() {
    for seed in 0..5 {
        let faults = Faults { duplicate_ppm: 50_000, ..Faults::reordering(50_000, 2000) };
        let run = run(seed, &Op::ALL, |rig, a, _| rig.net.set_faults(rig.up(a), faults));
        let stream_of = |nodes: &[NodeId]| stream(&run.explain(nodes), Traffic::Requests).clone();
        let both = stream_of(&[run.a, run.b]);
        assert_eq!(both.count(What::Lost), 0, "{both:?}");
        assert!(both.count(What::Reordered) > 0, "{both:?}");
        let receiver = stream_of(&[run.b]);
        assert!(receiver.count(What::Duplicated) > 0, "{receiver:?}");
    }
}

#[test]
fn acknowledgements_that_were_lost_are_counted() {
    let run = run(3, &[Op::Write], |rig, _, b| rig.net.set_filter(rig.up(b), drop_numbers(2..5, |_| true)));
    let report = run.explain(&[run.a, run.b]);
    assert_eq!(stream(&report, Traffic::Requests).acks_lost, Some(3), "{report}");
    assert_eq!(stream(&run.explain(&[run.a]), Traffic::Requests).acks_lost, None);
}

#[test]
fn what_came_before_its_receive_was_refused_and_not_lost() {
    let (mut rig, a, b) = Rig::pair(RigOptions::seeded(7), QpOptions { min_rnr_timer: 1, ..options() });
    rig.net.capture();
    let messages = vec![Message::new(Op::Send, 200); 20];
    let mut transfer = Transfer::new(&mut rig, a, b, messages, 1).with_slow_receiver(1, 30_000);
    transfer.run(&mut rig, LIMIT_NS).expect("it ends");
    let run = Run { capture: rig.net.take_capture().expect("begun"), a: a.node(), b: b.node() };
    for nodes in [&[run.a, run.b][..], &[run.a], &[run.b]] {
        let report = run.explain(nodes);
        assert_clean(&report);
        let stream = stream(&report, Traffic::Requests);
        assert!(stream.rnr_naks > 5 && stream.rnr_wait_ns >= 10_000 * stream.rnr_naks, "{report}");
        assert!(stream.count(What::Refused) > 5, "{report}");
        assert_eq!(stream.count(What::Lost), 0, "{report}");
    }
}

#[test]
fn marks_are_counted_where_they_are_seen_and_where_they_are_reported() {
    let run =
        run(5, &[Op::Write], |rig, _, b| rig.net.link_mut(LinkId::Down(b.node())).mark_frames = Some(0));
    let report = run.explain(&[run.a, run.b]);
    let stream = stream(&report, Traffic::Requests);
    assert!(stream.marked == stream.packets && stream.marks_reported > 0, "{report}");
    let sender = run.explain(&[run.a]);
    assert_eq!(sender.connections[0].streams[0].marked, 0, "{sender}");
}

/// Sections of the rules that the sender's capture breaks if one packet of it, the tenth that
/// `choose` accepts, is changed.
fn planted(choose: impl Fn(&wire::Repr) -> bool, plant: impl Fn(&mut wire::Repr)) -> Vec<&'static str> {
    broken(choose, plant).1.iter().map(|one| one.rule.section()).collect()
}

/// The number of the frame that is changed so, and the rules that are broken then.
fn broken(choose: impl Fn(&wire::Repr) -> bool, plant: impl Fn(&mut wire::Repr)) -> (u64, Vec<Violation>) {
    let run = run(9, &Op::WITH_RESPONSES, |_, _, _| {});
    let mut explain = Explain::new(ROCE_UDP_PORT);
    let (mut count, mut changed) = (0, 0);
    for (captured, number) in run.capture.of(run.a).zip(1..) {
        let mut frame = captured.frame.clone();
        let packet = simnet::frame::packet(&frame).expect("engines send packets");
        if choose(&wire::Repr::parse(&packet)) {
            count += 1;
            if count == 10 {
                rewrite(&mut frame, &plant);
                changed = number;
            }
        }
        add(&mut explain, captured.at.0, &frame);
    }
    assert!(count >= 10, "{count}");
    (changed, explain.report().violations().cloned().collect())
}

/// Changes the headers of a packet, and seals it again.
fn rewrite(frame: &mut [u8], plant: &impl Fn(&mut wire::Repr)) {
    let datagram = wire::Datagram::parse(frame, ROCE_UDP_PORT).expect("a packet");
    let transport = datagram.transport.clone();
    let mut repr = wire::Repr::parse(&wire::Packet::parse(&frame[transport.clone()]).expect("a packet"));
    plant(&mut repr);
    repr.emit(&mut frame[transport.clone()]);
    wire::icrc::seal(&mut frame[datagram.l3_offset..transport.end]);
}

#[test]
fn a_planted_violation_is_named_by_its_section() {
    type Change = fn(&mut wire::Repr);
    let is_data = |repr: &wire::Repr| REQUESTS.contains(&repr.bth.opcode.kind());
    assert_eq!(planted(is_data, |_| {}), [""; 0], "as it was, it keeps all rules");
    let of_data: [(&str, Change); 4] = [
        ("1.2", |repr| repr.resv7 = 1),
        ("1.6", |repr| repr.bth.psn = Psn::new(0xFF_FFFA)),
        ("2.2", |repr| repr.meta.as_mut().expect("of the dialect").msn = wire::Msn::new(0x7777)),
        ("2.2", |repr| repr.meta.as_mut().expect("of the dialect").offset ^= 0x4000),
    ];
    for (section, plant) in of_data {
        let broken = planted(is_data, plant);
        assert!(broken.contains(&section), "{section}: {broken:?}");
    }
    let of_opcode = |opcode| move |repr: &wire::Repr| repr.bth.opcode == opcode;
    let of_opcodes: [(&str, Opcode, Change); 4] = [
        ("1.6", Opcode::RcWriteMiddle, |repr| repr.bth.opcode = Opcode::RcWriteFirst),
        ("2.2", Opcode::RcWriteMiddle, |repr| repr.reth.as_mut().expect("it has").va += 8),
        ("2.2", Opcode::RcSendMiddle, |repr| {
            let ssnw = repr.ssnw.as_mut().expect("it has");
            ssnw.ssn = ssnw.ssn.next();
        }),
        ("2.4", Opcode::RcReadRequest, |repr| {
            let rdw = repr.rdw.as_mut().expect("it has");
            rdw.rpsn_start = rdw.rpsn_start.next();
        }),
    ];
    for (section, opcode, plant) in of_opcodes {
        let broken = planted(of_opcode(opcode), plant);
        assert!(!broken.is_empty() && broken.iter().all(|one| *one == section), "{opcode:?}: {broken:?}");
    }
    let is_ack = |repr: &wire::Repr| {
        repr.bth.opcode == Opcode::RcAck
            && repr.ackx.is_some_and(|ackx| !ackx.flags.contains(wire::AckFlags::RESPONSE_STREAM))
    };
    let of_acks: [(&str, Change); 3] = [
        ("1.5", |repr| repr.aeth.as_mut().expect("it has").syndrome = wire::Syndrome::Reserved(0x80)),
        ("2.2", |repr| repr.ackx.as_mut().expect("it has").flags |= wire::AckFlags::SACK_VALID),
        ("2.4", |repr| repr.bth.psn = repr.bth.psn.add(4000)),
    ];
    for (section, plant) in of_acks {
        assert_eq!(planted(is_ack, plant), [section]);
    }
}

/// The rules that a WRITE of 1,500 bytes breaks, if its first packet has `grown` bytes more.
fn of_two_packets(options: QpOptions, grown: u16) -> Vec<Rule> {
    let (mut rig, a, b) = Rig::pair(RigOptions::seeded(4), options);
    rig.net.capture();
    Transfer::new(&mut rig, a, b, vec![Message::new(Op::Write, 1500)], 1)
        .run(&mut rig, LIMIT_NS)
        .expect("it ends");
    let mut explain = Explain::new(ROCE_UDP_PORT);
    for captured in rig.net.take_capture().expect("it was begun").of(a.node()) {
        let mut frame = captured.frame.clone();
        let first = simnet::frame::packet(&frame).expect("engines send packets").opcode();
        if first == Opcode::RcWriteFirst {
            grow(&mut frame, grown);
        }
        add(&mut explain, captured.at.0, &frame);
    }
    explain.report().violations().map(|one| one.rule).collect()
}

/// Adds bytes to the payload of a packet over IPv4, and seals it again.
fn grow(frame: &mut Vec<u8>, by: u16) {
    let datagram = wire::Datagram::parse(frame, ROCE_UDP_PORT).expect("a packet");
    let (l3, transport) = (datagram.l3_offset, datagram.transport.clone());
    frame.splice(transport.end - 4..transport.end - 4, core::iter::repeat_n(0, by.into()));
    for len_at in [l3 + 2, transport.start - 4] {
        let len = u16::from_be_bytes([frame[len_at], frame[len_at + 1]]) + by;
        frame[len_at..len_at + 2].copy_from_slice(&len.to_be_bytes());
    }
    // The checksum of a header without options (RFC 1071).
    frame[l3 + 10..l3 + 12].fill(0);
    let words =
        frame[l3..l3 + 20].chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xFFFF) + (sum >> 16);
    frame[l3 + 10..l3 + 12].copy_from_slice(&(!(sum + (sum >> 16))).to_be_bytes()[2..]);
    wire::icrc::seal(&mut frame[l3..transport.end + usize::from(by)]);
}

/// A full packet has a path MTU that its dialect has: 1,408 bytes are one of SRNIC's alone.
#[test]
fn a_full_packet_has_a_path_mtu_of_its_dialect() {
    let srnic = QpOptions { pmtu: Pmtu::B1408, window: 64, ..QpOptions::default() };
    assert_eq!(of_two_packets(srnic, 0), []);
    let plain = QpOptions {
        pmtu: Pmtu::B1024,
        wire_mode: WireMode::Plain,
        recovery: RecoveryPolicy::GoBackN,
        congestion: CongestionAlgorithm::Dcqcn,
        ..srnic
    };
    assert_eq!(of_two_packets(plain, 0), []);
    assert_eq!(of_two_packets(plain, 1408 - 1024), [Rule::Length]);
}

/// A packet with a PSN far ahead: it is named, and not the first of its stream.
#[test]
fn a_window_that_is_too_large_is_that_of_the_packet_that_made_it_so() {
    let is_data = |repr: &wire::Repr| REQUESTS.contains(&repr.bth.opcode.kind());
    let (changed, violations) = broken(is_data, |repr| repr.bth.psn = repr.bth.psn.add(20_000));
    let named: Vec<u64> =
        violations.iter().filter(|one| one.rule == Rule::Window).map(|one| one.frame).collect();
    assert!(changed > 1);
    assert_eq!(named, [changed]);
}

/// The time between CNPs is looked at where they are sent, each fault has its own words, and a copy
/// that the network made is none.
#[test]
fn notifications_are_judged_where_they_are_sent() {
    let mut rig_options = RigOptions::seeded(1);
    rig_options.port.down.mark_frames = Some(0);
    let plain = QpOptions {
        window: 64,
        congestion: CongestionAlgorithm::Dcqcn,
        wire_mode: WireMode::Plain,
        recovery: RecoveryPolicy::GoBackN,
        ..QpOptions::default()
    };
    let (mut rig, a, b) = Rig::pair(rig_options, plain);
    rig.net.capture();
    let messages = vec![Message::new(Op::Write, 50_000); 20];
    Transfer::new(&mut rig, a, b, messages, 1).run(&mut rig, LIMIT_NS).expect("it ends");
    let run = Run { capture: rig.net.take_capture().expect("begun"), a: a.node(), b: b.node() };
    // The second one comes so long after the first, and is changed; with a copy or without.
    let told = |node: NodeId, after_ns: Option<u64>, plant: fn(&mut wire::Repr), copy: bool| {
        let mut explain = Explain::new(ROCE_UDP_PORT);
        let mut sent = Vec::new();
        for captured in run.capture.of(node) {
            let (mut frame, mut at_ns) = (captured.frame.clone(), captured.at.0);
            let is_cnp = |frame: &[u8]| {
                simnet::frame::packet(frame).is_some_and(|packet| packet.opcode() == Opcode::Cnp)
            };
            if is_cnp(&frame) {
                if let ([first], Some(after_ns)) = (sent.as_slice(), after_ns) {
                    at_ns = first + after_ns;
                }
                if sent.len() == 1 {
                    rewrite(&mut frame, &plant);
                }
                sent.push(at_ns);
                if copy {
                    add(&mut explain, at_ns + 10, &frame);
                }
            }
            add(&mut explain, at_ns, &frame);
        }
        assert!(sent.len() > 3, "{}", sent.len());
        explain.report().violations().map(|one| one.text.clone()).collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    for node in [run.a, run.b] {
        assert_eq!(told(node, None, |_| {}, false), none);
        assert_eq!(told(node, None, |_| {}, true), none, "copies");
        assert_eq!(told(node, None, |repr| repr.bth.becn = false, false), ["a CNP without BECN"]);
        assert_eq!(told(node, None, |repr| repr.bth.psn = Psn::new(7), false), ["a CNP has PSN 7, not 0"]);
    }
    let soon = ["a CNP 20 us after another one; there must be 50 between"];
    assert_eq!(told(run.b, Some(20_000), |_| {}, false), soon);
    assert_eq!(told(run.a, Some(20_000), |_| {}, false), none, "a queue held the first one back");
}

/// The explanation of a capture of Linux soft-RoCE.
fn soft_roce(name: &str) -> Report {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/rxe").join(name);
    let file = std::fs::read(path).expect("the capture");
    let mut explain = Explain::new(ROCE_UDP_PORT);
    for_each(&file, |frame| explain.add(frame)).expect("it is whole");
    explain.report()
}

#[test]
fn soft_roce_keeps_the_rules_and_loses_nothing_without_loss() {
    // Its timers sent some again. INDEX.txt has them, too: a 41st message of four packets, where 20
    // pings and 20 pongs would be 40; and 22 of one, each of them acknowledged.
    for (name, connections, needless) in [
        ("rc_atomic_cas.pcap", 1, 0),
        ("rc_atomic_faa.pcap", 1, 0),
        ("rc_pingpong.pcap", 1, 4),
        ("rc_read_bw.pcap", 1, 0),
        ("rc_read_lat.pcap", 1, 0),
        ("rc_send_bw.pcap", 1, 0),
        ("rc_write_bw.pcap", 1, 0),
        ("rc_write_lat.pcap", 1, 2),
        ("uc_pingpong.pcap", 2, 0),
        ("ud_pingpong.pcap", 2, 0),
    ] {
        let report = soft_roce(name);
        assert_clean(&report);
        assert_eq!(report.connections.len(), connections, "{name}: {report}");
        let events = report.connections.iter().flat_map(|one| &one.streams).flat_map(|one| &one.events);
        let events: Vec<What> = events.map(|event| event.what).collect();
        assert_eq!(events, vec![What::Needless; needless], "{name}: {report}");
    }
}

#[test]
fn soft_roce_with_loss_sends_again_from_the_gap_on() {
    let report = soft_roce("rc_pingpong_loss5.pcap");
    assert_clean(&report);
    let requests: Vec<&Stream> =
        report.connections.iter().flat_map(|one| &one.streams).filter(|one| one.nacks > 0).collect();
    let sum = |what| requests.iter().map(|one| one.count(what)).sum::<usize>();
    assert!(sum(What::Lost) > 5 && sum(What::Refused) > 0, "{report}");
    let unready = soft_roce("rc_rnr.pcap");
    assert_clean(&unready);
    assert_eq!(
        unready.connections.iter().flat_map(|one| &one.streams).map(|one| one.rnr_naks).sum::<u64>(),
        93
    );
}

#[test]
fn no_packet_does_harm_whatever_it_says() {
    let mut rng = Rng::new(77);
    for seed in 0..4 {
        let faults = Faults { loss_ppm: 20_000, duplicate_ppm: 20_000, ..Faults::reordering(20_000, 9000) };
        let run = run(seed, &Op::WITH_RESPONSES, |rig, a, _| rig.net.set_faults(rig.up(a), faults));
        for _ in 0..20 {
            let mut explain = Explain::new(ROCE_UDP_PORT);
            for node in [run.a, run.b] {
                explain.begin();
                for captured in run.capture.of(node) {
                    let mut frame = captured.frame.clone();
                    if rng.below(20) == 0 && frame.len() > 90 {
                        // In the headers of the transport.
                        frame[42 + rng.index(40)] = u8::try_from(rng.below(256)).expect("a byte");
                        let end = frame.len();
                        wire::icrc::seal(&mut frame[14..end]);
                    }
                    let at_ns = if rng.below(200) == 0 { u64::MAX } else { captured.at.0 };
                    add(&mut explain, at_ns, &frame);
                }
            }
            assert!(!explain.report().to_string().is_empty());
        }
    }
}
