use super::*;
use etherparse::{Icmpv4Type, NetSlice, PacketBuilder, SlicedPacket, TransportSlice};

/// A ping of the peer, made by another implementation.
fn ping(dst_mac: [u8; 6], dst_ip: Ipv4Addr, data: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(PEER_MAC, dst_mac)
        .ipv4(PEER_IP.octets(), dst_ip.octets(), 17)
        .icmpv4_echo_request(0x1234, 0x0007);
    let mut frame = Vec::with_capacity(builder.size(data.len()));
    builder.write(&mut frame, data).unwrap();
    frame
}

/// Checks that `frame` is the pong to a [`ping`] and returns its data.
fn pong(frame: &[u8]) -> Vec<u8> {
    let parsed = SlicedPacket::from_ethernet(frame).unwrap();
    let ethernet = parsed.link.as_ref().unwrap().to_header().unwrap().ethernet2().unwrap();
    assert_eq!((ethernet.source, ethernet.destination), (OUR_MAC, PEER_MAC));
    let Some(NetSlice::Ipv4(ip)) = &parsed.net else { panic!("{parsed:?}") };
    assert_eq!((ip.header().source(), ip.header().destination()), (OUR_IP.octets(), PEER_IP.octets()));
    assert_eq!(ip.header().header_checksum(), ip.header().to_header().calc_header_checksum());
    assert_eq!(ip.header().ttl(), 64);
    let Some(TransportSlice::Icmpv4(icmp)) = &parsed.transport else { panic!("{parsed:?}") };
    let Icmpv4Type::EchoReply(echo) = icmp.icmp_type() else { panic!("{icmp:?}") };
    assert_eq!((echo.id, echo.seq), (0x1234, 7));
    assert_eq!(icmp.checksum(), icmp.icmp_type().calc_checksum(icmp.payload()));
    icmp.payload().to_vec()
}

#[test]
fn pings_are_answered_up_to_the_limit() {
    let mut neighbor = neighbor();
    for len in [0, 1, 18, 19, 56, ECHO_DATA_MAX] {
        let data: Vec<u8> = (0..=250).cycle().take(len).collect();
        assert_eq!(neighbor.handle_frame(Time::ZERO, &ping(OUR_MAC, OUR_IP, &data)), Handled::Consumed);
        let frame = transmit(&mut neighbor, Time::ZERO).unwrap();
        assert_eq!(frame.len(), (14 + 20 + 8 + len).max(60));
        assert_eq!(pong(&frame), data);
    }
    let stats = neighbor.stats();
    assert_eq!((stats.echo_requests_rx, stats.replies_tx), (6, 6));
}

/// A ping and its pong, byte by byte.
#[test]
fn the_pong_is_right_to_the_byte() {
    let mut neighbor = neighbor();
    let ping = [
        2, 0, 0, 0, 0, 0x0A, 2, 0, 0, 0, 0, 0x0B, 0x08, 0x00, 0x45, 0x00, 0x00, 0x20, 0xBE, 0xEF, 0x40, 0x00,
        0x40, 0x01, 0x67, 0xEB, 10, 0, 0, 2, 10, 0, 0, 1, 8, 0, 0x48, 0x27, 0x12, 0x34, 0x00, 0x07, 0xDE,
        0xAD, 0xBE, 0xEF,
    ];
    let pong = [
        2, 0, 0, 0, 0, 0x0B, 2, 0, 0, 0, 0, 0x0A, 0x08, 0x00, 0x45, 0x00, 0x00, 0x20, 0x00, 0x00, 0x40, 0x00,
        0x40, 0x01, 0x26, 0xDB, 10, 0, 0, 1, 10, 0, 0, 2, 0, 0, 0x50, 0x27, 0x12, 0x34, 0x00, 0x07, 0xDE,
        0xAD, 0xBE, 0xEF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(neighbor.handle_frame(Time::ZERO, &ping), Handled::Consumed);
    assert_eq!(neighbor.stats().malformed_rx, 0);
    assert_eq!(transmit(&mut neighbor, Time::ZERO).as_deref(), Some(&pong[..]));
}

#[test]
fn longer_pings_are_dropped_and_counted() {
    let mut neighbor = neighbor();
    let frame = ping(OUR_MAC, OUR_IP, &[0; ECHO_DATA_MAX + 1]);
    assert_eq!(neighbor.handle_frame(Time::ZERO, &frame), Handled::Consumed);
    assert_eq!(neighbor.stats().oversize, 1);
    assert!(!neighbor.has_output());
}

#[test]
fn pings_for_others_or_for_all_are_left_alone() {
    let mut neighbor = neighbor();
    for frame in [
        ping(OUR_MAC, Ipv4Addr::new(10, 0, 0, 9), &[]),
        ping(OUR_MAC, Ipv4Addr::new(10, 0, 0, 255), &[]),
        ping([2, 0, 0, 0, 0, 9], OUR_IP, &[]),
        ping([0xFF; 6], OUR_IP, &[]),
    ] {
        assert_eq!(neighbor.handle_frame(Time::ZERO, &frame), Handled::Ignored);
    }
    assert!(!neighbor.has_output());
}

#[test]
fn a_pong_is_consumed_without_an_answer() {
    let mut neighbor = neighbor();
    let builder = PacketBuilder::ethernet2(PEER_MAC, OUR_MAC)
        .ipv4(PEER_IP.octets(), OUR_IP.octets(), 17)
        .icmpv4_echo_reply(1, 2);
    let mut frame = Vec::new();
    builder.write(&mut frame, &[]).unwrap();
    assert_eq!(neighbor.handle_frame(Time::ZERO, &frame), Handled::Consumed);
    assert_eq!(neighbor.stats().icmp_other_rx, 1);
    assert!(!neighbor.has_output());
}

#[test]
fn other_packets_to_us_are_not_for_this_module() {
    let mut neighbor = neighbor();
    let builder = PacketBuilder::ethernet2(PEER_MAC, OUR_MAC)
        .ipv4(PEER_IP.octets(), OUR_IP.octets(), 17)
        .udp(4791, 4791);
    let mut frame = Vec::new();
    builder.write(&mut frame, &[0; 32]).unwrap();
    assert_eq!(neighbor.handle_frame(Time::ZERO, &frame), Handled::Ignored);
    assert_eq!(*neighbor.stats(), NeighborStats::default());
}

#[test]
fn a_flood_of_pings_is_bounded_by_the_queue() {
    let mut neighbor = neighbor();
    let room = u8::try_from(REPLY_QUEUE).unwrap();
    for round in 1..=3 {
        for sequence in 0..=room {
            neighbor.handle_frame(Time::ZERO, &ping(OUR_MAC, OUR_IP, &[sequence]));
        }
        assert_eq!(neighbor.stats().reply_queue_full, round);
        for sequence in 0..room {
            assert_eq!(pong(&transmit(&mut neighbor, Time::ZERO).unwrap()), [sequence]);
        }
        assert_eq!(transmit(&mut neighbor, Time::ZERO), None);
    }
}

#[test]
fn a_pong_longer_than_the_slot_is_dropped_and_the_next_one_goes() {
    let mut neighbor = neighbor();
    neighbor.handle_frame(Time::ZERO, &ping(OUR_MAC, OUR_IP, &[0; 200]));
    neighbor.handle_frame(Time::ZERO, &ping(OUR_MAC, OUR_IP, &[1; 4]));
    let mut slot = [0; 100];
    let len = neighbor.poll_transmit(Time::ZERO, &mut slot).unwrap();
    assert_eq!(pong(&slot[..len]), [1; 4]);
    assert_eq!(neighbor.stats().oversize, 1);
}
