use super::*;

/// A request of ours, byte by byte.
#[test]
fn a_request_is_broadcast_and_padded() {
    let mut neighbor = neighbor();
    assert_eq!(neighbor.resolve(Time(5), IpAddr::V4(PEER_IP)), Resolution::Pending);
    let mut expected = vec![
        0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0, 0, 0x0A, 0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1, 2, 0,
        0, 0, 0, 0x0A, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2,
    ];
    expected.resize(60, 0);
    assert_eq!(transmit(&mut neighbor, Time(5)), Some(expected));
    assert_eq!(transmit(&mut neighbor, Time(5)), None);
    assert_eq!(neighbor.stats().requests_tx, 1);
}

/// The reply to a request that the Linux kernel sends: Ethernet broadcast, target address zero.
#[test]
fn a_request_for_us_is_answered_to_its_sender() {
    let mut neighbor = neighbor();
    let request = [
        0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0, 0, 0x0B, 0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1, 2, 0,
        0, 0, 0, 0x0B, 10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1,
    ];
    assert_eq!(neighbor.handle_frame(Time::ZERO, &request), Handled::Consumed);
    assert!(neighbor.has_output());
    let mut expected = vec![
        2, 0, 0, 0, 0, 0x0B, 2, 0, 0, 0, 0, 0x0A, 0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 0x0A,
        10, 0, 0, 1, 2, 0, 0, 0, 0, 0x0B, 10, 0, 0, 2,
    ];
    expected.resize(60, 0);
    assert_eq!(transmit(&mut neighbor, Time::ZERO), Some(expected));
    assert!(!neighbor.has_output());
    let stats = neighbor.stats();
    assert_eq!((stats.requests_rx, stats.replies_tx), (1, 1));
}

#[test]
fn another_parser_reads_our_reply() {
    let mut neighbor = neighbor();
    let ask = arp([0xFF; 6], 1, (PEER_MAC, PEER_IP), ([0; 6], OUR_IP));
    neighbor.handle_frame(Time::ZERO, &ask);
    let frame = transmit(&mut neighbor, Time::ZERO).unwrap();
    let parsed = etherparse::SlicedPacket::from_ethernet(&frame).unwrap();
    let Some(etherparse::NetSlice::Arp(arp)) = parsed.net else { panic!("{parsed:?}") };
    assert_eq!(arp.operation(), etherparse::ArpOperation::REPLY);
    assert_eq!((arp.sender_hw_addr(), arp.sender_protocol_addr()), (&OUR_MAC[..], &OUR_IP.octets()[..]));
    assert_eq!((arp.target_hw_addr(), arp.target_protocol_addr()), (&PEER_MAC[..], &PEER_IP.octets()[..]));
}

#[test]
fn requests_for_others_are_not_answered() {
    let mut neighbor = neighbor();
    let other = Ipv4Addr::new(10, 0, 0, 9);
    let frame = arp([0xFF; 6], 1, (PEER_MAC, PEER_IP), ([0; 6], other));
    assert_eq!(neighbor.handle_frame(Time::ZERO, &frame), Handled::Consumed);
    let to_another_host = arp([2, 0, 0, 0, 0, 9], 1, (PEER_MAC, PEER_IP), ([0; 6], OUR_IP));
    assert_eq!(neighbor.handle_frame(Time::ZERO, &to_another_host), Handled::Ignored);
    assert_eq!(transmit(&mut neighbor, Time::ZERO), None);
    assert_eq!(neighbor.stats().requests_rx, 0);
}

/// RFC 5227: a host that is about to take an address asks without one of its own.
#[test]
fn a_probe_is_answered_and_not_learned() {
    let mut neighbor = neighbor();
    let probe = arp([0xFF; 6], 1, (PEER_MAC, Ipv4Addr::UNSPECIFIED), ([0; 6], OUR_IP));
    assert_eq!(neighbor.handle_frame(Time::ZERO, &probe), Handled::Consumed);
    let reply = transmit(&mut neighbor, Time::ZERO).unwrap();
    assert_eq!(reply[..6], PEER_MAC);
    assert_eq!(reply[38..42], [0, 0, 0, 0]);
}

#[test]
fn unasked_announcements_make_no_entry() {
    let mut neighbor = neighbor();
    for operation in [1, 2] {
        let announcement = arp([0xFF; 6], operation, (PEER_MAC, PEER_IP), ([0; 6], PEER_IP));
        assert_eq!(neighbor.handle_frame(Time::ZERO, &announcement), Handled::Consumed);
    }
    neighbor.handle_frame(Time::ZERO, &peer_reply());
    assert_eq!(neighbor.resolve(Time::ZERO, IpAddr::V4(PEER_IP)), Resolution::Pending);
}

#[test]
fn announcements_update_an_entry() {
    let mut neighbor = neighbor();
    neighbor.resolve(Time::ZERO, IpAddr::V4(PEER_IP));
    neighbor.handle_frame(Time::ZERO, &peer_reply());
    let moved = [2, 0, 0, 0, 0, 0x0C];
    neighbor.handle_frame(Time(1), &arp([0xFF; 6], 1, (moved, PEER_IP), ([0; 6], PEER_IP)));
    assert_eq!(neighbor.resolve(Time(1), IpAddr::V4(PEER_IP)), Resolution::Known(moved));
}

#[test]
fn whoever_claims_our_address_is_counted_and_not_believed() {
    let mut neighbor = neighbor();
    for (operation, told) in [(1, Some(AddressConflict { mac: PEER_MAC, ours: true })), (2, None)] {
        let claim = arp([0xFF; 6], operation, (PEER_MAC, OUR_IP), ([0; 6], OUR_IP));
        assert_eq!(neighbor.handle_frame(Time::ZERO, &claim), Handled::Disputed(told));
    }
    let echo_of_ours = arp([0xFF; 6], 1, (OUR_MAC, OUR_IP), ([0; 6], PEER_IP));
    neighbor.handle_frame(Time::ZERO, &echo_of_ours);
    assert_eq!(neighbor.stats().conflicts, 2);
    assert_eq!(neighbor.resolve(Time::ZERO, IpAddr::V4(OUR_IP)), Resolution::Known(OUR_MAC));
    let defence = arp([0xFF; 6], 1, (OUR_MAC, OUR_IP), ([0; 6], OUR_IP));
    assert_eq!(transmit(&mut neighbor, Time::ZERO), Some(defence));
    assert_eq!(transmit(&mut neighbor, Time::ZERO), None);
}

#[test]
fn a_vlan_is_spoken_and_understood() {
    let mut neighbor = Neighbor::new(&NeighborConfig { vlan: Some(5), ..config() });
    let request = arp([0xFF; 6], 1, (PEER_MAC, PEER_IP), ([0; 6], OUR_IP));
    let tagged = |tag: [u8; 4]| {
        let mut frame = request.clone();
        frame.splice(12..12, tag);
        frame
    };
    for other in [request.clone(), tagged([0x81, 0, 0, 6]), tagged([0x81, 0, 0, 0])] {
        assert_eq!(neighbor.handle_frame(Time::ZERO, &other), Handled::Ignored);
    }
    // Priority 7 does not matter.
    assert_eq!(neighbor.handle_frame(Time::ZERO, &tagged([0x81, 0, 0xE0, 5])), Handled::Consumed);
    let reply = transmit(&mut neighbor, Time::ZERO).unwrap();
    assert_eq!(reply[12..18], [0x81, 0, 0, 5, 0x08, 0x06]);
    assert_eq!(reply.len(), 60);
}

#[test]
fn a_priority_tag_counts_as_untagged() {
    let mut neighbor = neighbor();
    let mut request = arp([0xFF; 6], 1, (PEER_MAC, PEER_IP), ([0; 6], OUR_IP));
    request.splice(12..12, [0x81, 0, 0xE0, 0]);
    assert_eq!(neighbor.handle_frame(Time::ZERO, &request), Handled::Consumed);
    assert_eq!(transmit(&mut neighbor, Time::ZERO).unwrap()[12..14], [0x08, 0x06]);
}
