use super::*;
use crate::port::test_frames::{flow, packet};
use crate::port::test_port::{TestPort, receive, send};
use core::net::{Ipv4Addr, Ipv6Addr};
use wire::encap::ROCE_UDP_PORT;
use wire::{Flow, Opcode};

const MAX_FRAME: usize = 256;
const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PEER: ([u8; 6], Ipv4Addr) = ([2, 0, 0, 0, 0, 9], Ipv4Addr::new(10, 0, 0, 9));
/// Queue pairs of engines 0 and 1 of two.
const QPNS: [u32; 2] = [0x12_3456, 0x92_3456];

type Ports = [Steered<TestPort>; 2];

fn ports_with(vlan: Option<u16>) -> Ports {
    let ports = vec![TestPort::new(MAX_FRAME), TestPort::new(MAX_FRAME)];
    let config = SteerConfig { ip: IpAddr::V4(US), vlan, udp_port: ROCE_UDP_PORT };
    let steered = Steered::over(ports, &config).expect("two").into_iter().map(|(_, port)| port);
    steered.collect::<Vec<_>>().try_into().expect("two")
}

fn ports() -> Ports {
    ports_with(None)
}

fn data(dest_qp: u32, psn: u32) -> Vec<u8> {
    packet(&flow(), dest_qp, Opcode::RcWriteOnly, psn, |_| ())
}

/// All that an engine gets until nothing comes any more.
fn receive_all(port: &mut Steered<TestPort>) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut silent = 0;
    while silent < 2 {
        let burst = receive(port);
        let is_over = burst.is_empty() && port.inner().arriving.is_empty();
        silent = if is_over { silent + 1 } else { 0 };
        frames.extend(burst);
    }
    frames
}

fn arp(operation: u8, target: Ipv4Addr) -> Vec<u8> {
    let to = if operation == 1 { [0xFF; 6] } else { OUR_MAC };
    let head = [&to[..], &PEER.0, &[8, 6, 0, 1, 8, 0, 6, 4, 0, operation]].concat();
    let mut frame = [&head[..], &PEER.0, &PEER.1.octets(), &OUR_MAC, &target.octets()].concat();
    frame.resize(60, 0);
    frame
}

#[test]
fn frames_for_another_engine_arrive_there_and_only_there() {
    let mut ports = ports();
    let mixed: Vec<_> = (0..100).map(|number| data(QPNS[number as usize % 2], number)).collect();
    let bytes: usize = mixed[0].len();
    ports[0].inner_mut().arriving.extend(mixed.clone());
    let got: [Vec<_>; 2] = ports.each_mut().map(receive_all);
    for (engine, got) in got.iter().enumerate() {
        let expected: Vec<_> = mixed.iter().skip(engine).step_by(2).cloned().collect();
        assert_eq!(*got, expected, "engine {engine}: its own, in order");
    }
    let stats = |rx_steered| PortStats {
        rx_frames: 50,
        rx_bytes: 50 * bytes as u64,
        rx_steered,
        ..PortStats::default()
    };
    assert_eq!(ports.each_ref().map(Port::stats), [stats(50), stats(0)]);
    assert_eq!([ports[0].take_passed_on(), ports[0].take_passed_on()], [50, 0]);
}

/// Behind a VLAN tag, over IPv6, and of opcodes that are not common.
#[test]
fn packets_of_every_form_are_steered() {
    let v6 = |host| IpAddr::V6(Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, host));
    let flows = [
        flow(),
        Flow { vlan: Some(5), ..flow() },
        Flow { src: v6(1), dst: v6(2), ..flow() },
        Flow { vlan: Some(5), src: v6(1), dst: v6(2), ..flow() },
    ];
    for flow in flows {
        for opcode in
            [Opcode::RcWriteOnly, Opcode::RcAck, Opcode::RcReadRequest, Opcode::RcReadResponseMiddle]
        {
            let mut ports = ports();
            let frame = packet(&flow, QPNS[1], opcode, 7, |_| ());
            ports[0].inner_mut().arriving.push_back(frame.clone());
            assert!(receive_all(&mut ports[0]).is_empty(), "{flow:?} {opcode:?}");
            assert_eq!(receive_all(&mut ports[1]), [frame], "{flow:?} {opcode:?}");
        }
    }
}

#[test]
fn what_names_no_other_engine_stays_where_it_came_in() {
    let short = data(QPNS[0], 1)[..40].to_vec();
    let elsewhere = packet(&Flow { dst_port: 80, ..flow() }, QPNS[0], Opcode::RcWriteOnly, 1, |_| ());
    // Queue pair 1 is one of each engine; nobody has 0 and 0xFFFFFF, but they are engine 1's to
    // refuse.
    for frame in [data(QPNS[1], 1), data(1, 1), data(0, 1), short, elsewhere, vec![1; 60]] {
        let mut ports = ports();
        ports[1].inner_mut().arriving.push_back(frame.clone());
        assert_eq!(receive_all(&mut ports[1]), [frame]);
        assert!(receive_all(&mut ports[0]).is_empty());
    }
}

/// A question is answered once; who says where it is says it to all.
#[test]
fn an_announcement_reaches_every_engine_and_a_question_one() {
    let tagged = |frame: Vec<u8>| [&frame[..12], &[0x81, 0, 0, 5], &frame[12..]].concat();
    let someone = Ipv4Addr::new(10, 0, 0, 77);
    for (vlan, frame, reaches_all) in [
        (None, arp(2, US), true),
        (None, arp(1, US), false),
        // Not for us to answer, but where its sender is counts.
        (None, arp(1, someone), true),
        (Some(5), tagged(arp(2, US)), true),
        (Some(6), tagged(arp(2, US)), false),
        (None, tagged(arp(2, US)), false),
    ] {
        for comes_in in [0, 1] {
            let mut ports = ports_with(vlan);
            ports[comes_in].inner_mut().arriving.push_back(frame.clone());
            assert_eq!(receive_all(&mut ports[comes_in]), std::slice::from_ref(&frame));
            assert_eq!(receive_all(&mut ports[1 - comes_in]).len(), usize::from(reaches_all), "{frame:?}");
        }
    }
}

#[test]
fn a_full_inbox_drops_and_counts_until_it_is_emptied() {
    let mut ports = ports();
    let mut room = 0;
    for round in 0..2 {
        let before = ports[0].stats();
        ports[0].inner_mut().arriving.extend((0..2_000).map(|psn| data(QPNS[1], psn)));
        assert!(receive_all(&mut ports[0]).is_empty());
        let after = ports[0].stats();
        let (steered, missed) = (after.rx_steered - before.rx_steered, after.rx_missed - before.rx_missed);
        assert_eq!((steered + missed, after.rx_frames), (2_000, 0));
        assert!(steered >= 512 && missed > 0, "{steered} and {missed}");
        let expected: Vec<_> =
            (0..u32::try_from(steered).expect("few")).map(|psn| data(QPNS[1], psn)).collect();
        assert_eq!(receive_all(&mut ports[1]), expected, "the first ones are kept");
        assert!(round == 0 || room == steered, "all buffers came back");
        room = steered;
    }
}

#[test]
fn neither_the_port_nor_the_inbox_waits_for_the_other() {
    let mut ports = ports();
    let (own, steered) = (data(QPNS[0], 0), data(QPNS[0], 1));
    ports[0].inner_mut().arriving.extend(vec![own.clone(); 3 * RX_BURST]);
    ports[1].inner_mut().arriving.extend(vec![steered.clone(); 3 * RX_BURST]);
    receive_all(&mut ports[1]);
    let bursts: Vec<_> = (0..6).map(|_| receive(&mut ports[0])).collect();
    assert!(
        bursts.iter().all(|burst| burst.len() == RX_BURST && burst.iter().all(|frame| *frame == burst[0]))
    );
    let from_port = bursts.iter().filter(|burst| burst[0] == own).count();
    assert_eq!((from_port, bursts[0][0] != bursts[1][0]), (3, true));
}

/// Queue pairs of two engines of one device talk to each other: the engine asks the port before it
/// takes a frame itself.
#[test]
fn a_frame_of_our_own_is_passed_on_if_it_is_anothers() {
    let mut ports = ports();
    assert!(!ports[0].pass_on(&data(QPNS[0], 1)) && !ports[0].pass_on(&arp(2, US)));
    assert!(ports[0].pass_on(&data(QPNS[1], 2)));
    assert_eq!(
        receive_all(&mut ports[1]),
        [arp(2, US), data(QPNS[1], 2)],
        "who says where it is says it to all"
    );
    assert_eq!((ports[0].stats().rx_steered, ports[0].stats().rx_frames), (1, 0));
    assert!(!TestPort::new(MAX_FRAME).pass_on(&data(QPNS[1], 2)), "any other port has one engine");
}

/// What is for the members of a multicast group goes to all engines, from the wire and from one of
/// them.
#[test]
fn a_frame_to_a_group_is_for_every_engine() {
    let mut ports = ports();
    for number in 0..2 {
        let frame = data(MULTICAST_QPN, 7);
        ports[number].inner_mut().arriving.push_back(frame.clone());
        assert_eq!(receive_all(&mut ports[number]), core::slice::from_ref(&frame));
        assert_eq!(receive_all(&mut ports[1 - number]), core::slice::from_ref(&frame));
        assert!(!ports[number].pass_on(&frame), "it is for the sender's engine, too");
        assert_eq!(receive_all(&mut ports[1 - number]), [frame]);
        assert!(receive_all(&mut ports[number]).is_empty());
    }
}

#[test]
fn what_is_sent_goes_out_at_the_own_port() {
    let mut ports = ports();
    let frame = data(QPNS[1], 3);
    assert!(send(&mut ports[0], &frame));
    ports[0].tx_flush();
    assert_eq!((ports[0].inner().wire.len(), ports[1].inner().wire.len()), (1, 0));
}

#[test]
fn a_device_has_one_to_eight_engines() {
    let config = SteerConfig { ip: IpAddr::V4(US), vlan: None, udp_port: ROCE_UDP_PORT };
    let over = |count: usize| Steered::over((0..count).map(|_| TestPort::new(64)).collect(), &config);
    assert!(over(0).is_none() && over(9).is_none());
    let engines = over(8).expect("possible");
    assert!(engines.iter().enumerate().all(|(index, (engine, _))| usize::from(engine.index()) == index));
}

/// Two threads that hand each other frames: all arrive, whole and in order.
#[test]
fn threads_hand_each_other_frames() {
    const FRAMES: u32 = 5_000;
    let ports = ports();
    let send = |other: usize| move |psn| data(QPNS[other], psn);
    let done = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for (engine, mut port) in ports.into_iter().enumerate() {
            let (make, done) = (send(1 - engine), &done);
            scope.spawn(move || {
                let (mut sent, mut expected) = (0, 0);
                let start = std::time::Instant::now();
                while expected < FRAMES || done.load(std::sync::atomic::Ordering::Relaxed) < 2 {
                    // As much as there is room for, so that none is dropped.
                    let nothing_waits = port.inner().arriving.is_empty();
                    if sent < FRAMES && nothing_waits && port.inboxes[1 - engine].has_room(RX_BURST) {
                        port.inner_mut().arriving.extend((sent..sent + 20).map(&make));
                        sent += 20;
                    }
                    for frame in receive(&mut port) {
                        assert_eq!(frame, data(QPNS[engine], expected));
                        expected += 1;
                        if expected == FRAMES {
                            done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        }
                    }
                    assert!(start.elapsed().as_secs() < 60, "{expected} of {FRAMES} arrived");
                    std::thread::yield_now();
                }
                assert_eq!(port.stats().rx_missed, 0);
            });
        }
    });
}
