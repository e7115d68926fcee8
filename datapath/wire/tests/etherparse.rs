//! Another parser agrees with us on every field of Ethernet, VLAN, IP and UDP, both ways.

use std::net::IpAddr;

use etherparse::{
    EtherType, LinkSlice, NetSlice, PacketBuilder, SlicedPacket, TransportSlice, UdpHeader, VlanId, VlanSlice,
};
use proptest::prelude::*;
use wire::encap::seal_udp;
use wire::{Datagram, Ecn, EncapError, Flow, Template};

fn any_flow() -> impl Strategy<Value = Flow> {
    let addresses = prop_oneof![
        any::<[[u8; 4]; 2]>().prop_map(|pair| pair.map(IpAddr::from)),
        any::<[[u8; 16]; 2]>().prop_map(|pair| pair.map(IpAddr::from)),
    ];
    let vlan = prop::option::of(any::<u16>());
    let ecn = prop::sample::select(vec![Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce]);
    (any::<[[u8; 6]; 2]>(), vlan, addresses, any::<[u16; 2]>(), 0..64u8, ecn, any::<u8>()).prop_map(
        |([src_mac, dst_mac], vlan, [src, dst], [src_port, dst_port], dscp, ecn, ttl)| Flow {
            src_mac,
            dst_mac,
            vlan,
            src,
            dst,
            src_port,
            dst_port,
            dscp,
            ecn,
            ttl,
        },
    )
}

/// Checks every field of `frame` as etherparse reads it.
fn check_emitted(frame: &[u8], flow: &Flow, transport_len: usize) -> Result<(), TestCaseError> {
    let sliced =
        SlicedPacket::from_ethernet(frame).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let Some(LinkSlice::Ethernet2(ethernet)) = &sliced.link else { panic!("no Ethernet") };
    prop_assert_eq!((ethernet.source(), ethernet.destination()), (flow.src_mac, flow.dst_mac));
    let tci = sliced.vlan().map(|vlan| {
        let VlanSlice::SingleVlan(tag) = vlan else { panic!("two tags") };
        u16::from(tag.priority_code_point().value()) << 13
            | u16::from(tag.drop_eligible_indicator()) << 12
            | tag.vlan_identifier().value()
    });
    prop_assert_eq!(tci, flow.vlan);
    check_ip(&sliced, flow, transport_len)?;
    let Some(TransportSlice::Udp(udp)) = sliced.transport else { panic!("no UDP") };
    prop_assert_eq!((udp.source_port(), udp.destination_port()), (flow.src_port, flow.dst_port));
    prop_assert_eq!((usize::from(udp.length()), udp.checksum()), (8 + transport_len, 0));
    Ok(())
}

fn check_ip(sliced: &SlicedPacket<'_>, flow: &Flow, transport_len: usize) -> Result<(), TestCaseError> {
    match sliced.net.as_ref() {
        Some(NetSlice::Ipv4(ip)) => {
            let ip = ip.header();
            prop_assert_eq!(IpAddr::from(ip.source_addr()), flow.src);
            prop_assert_eq!(IpAddr::from(ip.destination_addr()), flow.dst);
            prop_assert_eq!((ip.dcp().value(), ip.ecn().value()), (flow.dscp, flow.ecn as u8));
            prop_assert_eq!((ip.ttl(), ip.dont_fragment(), ip.more_fragments()), (flow.ttl, true, false));
            prop_assert_eq!((ip.ihl(), usize::from(ip.total_len())), (5, 28 + transport_len));
            prop_assert_eq!(ip.header_checksum(), ip.to_header().calc_header_checksum());
        }
        Some(NetSlice::Ipv6(ip)) => {
            let ip = ip.header();
            prop_assert_eq!(IpAddr::from(ip.source_addr()), flow.src);
            prop_assert_eq!(IpAddr::from(ip.destination_addr()), flow.dst);
            prop_assert_eq!(ip.traffic_class(), flow.dscp << 2 | flow.ecn as u8);
            prop_assert_eq!((ip.hop_limit(), ip.flow_label().value()), (flow.ttl, 0));
            prop_assert_eq!(usize::from(ip.payload_length()), 8 + transport_len);
        }
        other => prop_assert!(false, "{other:?}"),
    }
    Ok(())
}

/// The frame that etherparse builds for this flow; its IPv4 identification and UDP checksum are not
/// ours.
fn built_by_etherparse(flow: &Flow, transport: &[u8]) -> Vec<u8> {
    let link = PacketBuilder::ethernet2(flow.src_mac, flow.dst_mac);
    let tos = flow.dscp << 2 | flow.ecn as u8;
    let ip: etherparse::IpHeaders = match (flow.src, flow.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut ip = etherparse::Ipv4Header::new(
                0,
                flow.ttl,
                etherparse::ip_number::UDP,
                src.octets(),
                dst.octets(),
            )
            .unwrap();
            ip.dscp = flow.dscp.try_into().unwrap();
            ip.ecn = etherparse::IpEcn::try_new(flow.ecn as u8).unwrap();
            etherparse::IpHeaders::Ipv4(ip, etherparse::Ipv4Extensions::default())
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let ip = etherparse::Ipv6Header {
                traffic_class: tos,
                hop_limit: flow.ttl,
                source: src.octets(),
                destination: dst.octets(),
                ..Default::default()
            };
            etherparse::IpHeaders::Ipv6(ip, etherparse::Ipv6Extensions::default())
        }
        _ => unreachable!("one family"),
    };
    let mut frame = Vec::new();
    let vlan = flow.vlan.map(|tci| VlanId::try_new(tci & 0x0FFF).unwrap());
    match vlan {
        Some(vlan) => {
            link.single_vlan(vlan).ip(ip).udp(flow.src_port, flow.dst_port).write(&mut frame, transport)
        }
        None => link.ip(ip).udp(flow.src_port, flow.dst_port).write(&mut frame, transport),
    }
    .unwrap();
    frame
}

proptest! {
    #[test]
    fn etherparse_reads_what_the_template_emits(flow in any_flow(), transport_len in 0..4200usize) {
        let template = Template::new(&flow).unwrap();
        let mut frame = vec![0xEE; template.len() + transport_len];
        template.emit(&mut frame, transport_len);
        check_emitted(&frame, &flow, transport_len)?;
    }

    #[test]
    fn we_read_what_etherparse_builds(flow in any_flow(), transport in prop::collection::vec(any::<u8>(), 0..100)) {
        let frame = built_by_etherparse(&flow, &transport);
        let datagram = Datagram::parse(&frame, flow.dst_port).unwrap();
        prop_assert_eq!((datagram.src_mac, datagram.dst_mac), (flow.src_mac, flow.dst_mac));
        prop_assert_eq!(datagram.vlan, flow.vlan.map(|tci| tci & 0x0FFF).filter(|&vid| vid != 0));
        prop_assert_eq!((datagram.src, datagram.dst), (flow.src, flow.dst));
        prop_assert_eq!((datagram.src_port, datagram.ecn), (flow.src_port, flow.ecn));
        prop_assert_eq!(&frame[datagram.transport], &transport[..]);
        prop_assert_eq!(Datagram::parse(&frame, flow.dst_port ^ 1), Err(EncapError::NotRoce));
    }

    #[test]
    fn etherparse_agrees_with_the_udp_checksum(
        flow in any_flow(),
        transport in prop::collection::vec(any::<u8>(), 16..200),
    ) {
        let template = Template::new(&flow).unwrap();
        let mut frame = vec![0; template.len()];
        frame.extend(transport);
        let transport_len = frame.len() - template.len();
        template.emit(&mut frame, transport_len);
        wire::icrc::seal(&mut frame[template.l3_offset()..]);
        prop_assert!(seal_udp(&mut frame[template.l3_offset()..]));
        prop_assert!(wire::icrc::verify(&frame[template.l3_offset()..]));

        let (header, payload) = frame[template.len() - 8..].split_at(8);
        let (udp, _) = UdpHeader::from_slice(header).unwrap();
        let expected = match (flow.src, flow.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                udp.calc_checksum_ipv4_raw(src.octets(), dst.octets(), payload)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                udp.calc_checksum_ipv6_raw(src.octets(), dst.octets(), payload)
            }
            _ => unreachable!("one family"),
        };
        prop_assert_eq!(udp.checksum, expected.unwrap());
    }

    /// On arbitrary changes: whatever we accept, etherparse accepts as the same UDP datagram.
    #[test]
    fn we_accept_nothing_that_etherparse_refuses(
        flow in any_flow(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut frame = built_by_etherparse(&flow, &[0; 20]);
        for (at, bits) in flips {
            let at = at.index(frame.len());
            frame[at] ^= bits;
        }
        if let Ok(datagram) = Datagram::parse(&frame, flow.dst_port) {
            let sliced = SlicedPacket::from_ethernet(&frame).map_err(|e| TestCaseError::fail(e.to_string()))?;
            let Some(TransportSlice::Udp(udp)) = sliced.transport else {
                return Err(TestCaseError::fail("no UDP"));
            };
            prop_assert_eq!(udp.payload(), &frame[datagram.transport]);
            prop_assert_eq!((udp.source_port(), udp.destination_port()), (datagram.src_port, flow.dst_port));
        }
    }
}

#[test]
fn a_second_tag_is_not_ours() {
    let mut frame = Vec::new();
    let tag = |id| VlanId::try_new(id).unwrap();
    PacketBuilder::ethernet2([1; 6], [2; 6])
        .double_vlan(tag(5), tag(6))
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        .udp(1, 4791)
        .write(&mut frame, &[0; 20])
        .unwrap();
    assert_eq!(u16::from_be_bytes([frame[12], frame[13]]), EtherType::PROVIDER_BRIDGING.0);
    assert_eq!(Datagram::parse(&frame, 4791), Err(EncapError::NotRoce));
}

/// A checksum that comes out as zero is sent as ones: zero would say that there is none.
#[test]
fn a_udp_checksum_of_zero_is_sent_as_ones() {
    let address = |last| IpAddr::from([10, 0, 0, last]);
    let flow = Flow {
        src_mac: [2; 6],
        dst_mac: [4; 6],
        vlan: None,
        src: address(1),
        dst: address(2),
        src_port: 1,
        dst_port: 4791,
        dscp: 0,
        ecn: Ecn::NotEct,
        ttl: 64,
    };
    let template = Template::new(&flow).unwrap();
    let mut frame = [0; 42 + 16];
    template.emit(&mut frame, 16);
    assert!(seal_udp(&mut frame[14..]));
    // With the checksum itself as data the sum becomes all ones, so its complement zero.
    let checksum = [frame[40], frame[41]];
    frame[42..44].copy_from_slice(&checksum);
    assert!(seal_udp(&mut frame[14..]));
    assert_eq!(frame[40..42], [0xFF, 0xFF]);
}

#[test]
fn what_is_not_udp_gets_no_checksum() {
    let udp = 17;
    for (version, protocol_at, shortest) in
        [(0x45, 9, 28), (0x60, 6, 48), (0x46, 9, usize::MAX), (0x00, 9, usize::MAX)]
    {
        for (protocol, len) in
            [udp, 6].into_iter().flat_map(|protocol| (0..64).map(move |len| (protocol, len)))
        {
            let mut bytes = vec![0; 64];
            (bytes[0], bytes[protocol_at]) = (version, protocol);
            bytes.truncate(len);
            let before = bytes.clone();
            let sealed = seal_udp(&mut bytes);
            assert_eq!(sealed, protocol == udp && len >= shortest, "{len} bytes of {version:#x}");
            assert_eq!(sealed, bytes != before);
        }
    }
}
