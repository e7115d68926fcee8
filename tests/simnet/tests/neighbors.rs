//! ARP, neighbor discovery and ICMP on the wire.

use datapath::port::Port;
use etherparse::{Icmpv4Type, PacketBuilder, SlicedPacket, TransportSlice};
use simnet::{Faults, LinkId, Message, Op, PortOptions, QpOptions, Rig, RigOptions, Transfer};
use std::net::IpAddr;

const LIMIT_NS: u64 = 1_000_000_000;

#[test]
fn the_peers_address_is_resolved_at_connect() {
    for ipv6 in [false, true] {
        let options = QpOptions { resolve: true, ..QpOptions::default() };
        let (mut rig, a, b) = Rig::pair(RigOptions { ipv6, ..RigOptions::default() }, options);
        let messages = vec![Message::new(Op::Write, 3000), Message::new(Op::Send, 10)];
        Transfer::new(&mut rig, a, b, messages, 1).run(&mut rig, LIMIT_NS).unwrap();
        assert!(rig.net.stats(LinkId::Up(a.node())).sent_by.other > 0, "a question went out");
    }
}

#[test]
fn resolution_survives_loss() {
    for seed in 0..20 {
        let mut rig = Rig::new(RigOptions { ipv6: seed % 2 == 1, ..RigOptions::seeded(seed / 2) });
        let (left, right) = (rig.add_node(), rig.add_node());
        rig.net.set_faults_of(left, Faults::loss(200_000), Faults::loss(200_000));
        let (a, b) = rig.connected(left, right, QpOptions { resolve: true, ..QpOptions::default() });
        Transfer::new(&mut rig, a, b, vec![Message::new(Op::Write, 3000)], 1)
            .run(&mut rig, LIMIT_NS)
            .unwrap();
    }
}

#[test]
fn a_ping_is_answered() {
    let mut rig = Rig::new(RigOptions::default());
    let node = rig.add_node();
    let (host, mut port) = rig.net.add_port(&PortOptions::default());
    let (IpAddr::V4(engine_ip), host_mac) = (rig.ip(node), port.caps().mac) else { unreachable!() };
    let host_ip = [10, 0, 0, 99];
    let mut request = Vec::new();
    PacketBuilder::ethernet2(host_mac, rig.net.mac(node))
        .ipv4(host_ip, engine_ip.octets(), 64)
        .icmpv4_echo_request(0x1234, 1)
        .write(&mut request, b"is anybody there?")
        .unwrap();
    assert!(port.send(&request));
    rig.net.exchange(rig.now(), host);
    rig.run_until_quiet(LIMIT_NS).unwrap();
    let frames = port.receive();
    let reply =
        frames.iter().filter_map(|frame| SlicedPacket::from_ethernet(frame).ok()).find_map(|packet| {
            match packet.transport {
                Some(TransportSlice::Icmpv4(icmp)) => Some((icmp.icmp_type(), icmp.payload().to_vec())),
                _ => None,
            }
        });
    let Some((Icmpv4Type::EchoReply(echo), payload)) = reply else { panic!("no echo reply in {frames:?}") };
    assert_eq!((echo.id, echo.seq, payload.as_slice()), (0x1234, 1, b"is anybody there?".as_slice()));
}
