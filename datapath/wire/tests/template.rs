//! The prebuilt encapsulation: what it emits parses back to its flow.

use std::net::IpAddr;

use wire::encap::TemplateError;
use wire::{
    Bth, Datagram, Ecn, EncapError, Fields, Flow, Layout, Meta, Msn, Opcode, Psn, Reth, Ssn, Ssnw, Template,
    WireMode,
};

const PORT: u16 = 4793;

fn flow(v6: bool, vlan: Option<u16>) -> Flow {
    let address = |v4: &str, v6_text: &str| -> IpAddr { if v6 { v6_text } else { v4 }.parse().unwrap() };
    Flow {
        src_mac: [2, 1, 2, 3, 4, 5],
        dst_mac: [6, 7, 8, 9, 10, 11],
        vlan,
        src: address("10.1.2.3", "fd00::1:2"),
        dst: address("10.200.3.4", "fd00::ffff:3"),
        src_port: 0xC0DE,
        dst_port: PORT,
        dscp: 46,
        ecn: Ecn::Ect0,
        ttl: 63,
    }
}

#[test]
fn every_shape_parses_back() {
    for (v6, vlan, len) in
        [(false, None, 42), (false, Some(0x6123), 46), (true, None, 62), (true, Some(0x0FFE), 66)]
    {
        let flow = flow(v6, vlan);
        let template = Template::new(&flow).unwrap();
        assert_eq!(template.len(), len);
        assert_eq!(template.flow(), flow);
        for transport_len in [16, 17, 1000, 4152] {
            let mut frame = vec![0xEE; len + transport_len];
            template.emit(&mut frame, transport_len);
            assert!(frame[len..].iter().all(|&byte| byte == 0xEE), "wrote beyond its length");
            let datagram = Datagram::parse(&frame, PORT).unwrap();
            assert_eq!(datagram.transport, len..len + transport_len);
            assert_eq!(datagram.l3_offset, template.l3_offset());
            assert_eq!((datagram.src, datagram.dst, datagram.src_port), (flow.src, flow.dst, flow.src_port));
            assert_eq!((datagram.src_mac, datagram.dst_mac), (flow.src_mac, flow.dst_mac));
            assert_eq!((datagram.ecn, datagram.vlan), (flow.ecn, vlan.map(|tci| tci & 0x0FFF)));
        }
    }
}

#[test]
fn nothing_is_longer_than_a_tagged_ipv6_encapsulation() {
    assert_eq!(Template::new(&flow(true, Some(1))).unwrap().len(), wire::encap::HEADER_LEN_MAX);
}

#[test]
fn heads_are_what_the_headers_are_one_by_one() {
    let (meta, ssnw) =
        (Meta { msn: Msn::new(0x1234), offset: 0 }, Ssnw { offset_hi: 0, ssn: Ssn::new(0x00AB_CDEF) });
    let reth = Reth { va: 0x0102_0304_0506_0708, rkey: 0x090A_0B0C, dma_len: 0x0D0E_0F10 };
    for (vlan, body) in [(None, 4), (Some(0x6123), 68), (None, 4100), (Some(7), 1000)] {
        let template = Template::new(&flow(false, vlan)).unwrap();
        for opcode in [Opcode::RcWriteOnly, Opcode::RcSendOnly] {
            let bth = Bth {
                solicited: true,
                pad: 3,
                pkey: 0x8001,
                dest_qp: 0x00DE_ADBE,
                ack_req: true,
                psn: Psn::new(0x00FE_DCBA),
                ..Bth::new(WireMode::Srnic, opcode)
            };
            let is_write = opcode == Opcode::RcWriteOnly;
            let head = if is_write {
                template.head_of_write(body, &bth, &reth, &meta)
            } else {
                template.head_of_send(body, &bth, &meta, &ssnw)
            }
            .expect("IPv4 fits a block");
            let transport_len = usize::from(Layout::of(WireMode::Srnic, opcode).unwrap().len) + body;
            let mut frame = vec![0xEE; template.len() + transport_len];
            template.emit(&mut frame, transport_len);
            let transport = &mut frame[template.len()..];
            wire::bth::emit(transport, &bth);
            let fields = Fields { reth, meta, ssnw, ..Fields::default() };
            fields.emit(Layout::of(WireMode::Srnic, opcode).unwrap(), transport);
            let l3 = template.l3_offset();
            let block = head.to_bytes();
            let (before, headers) = block.split_at(block.len() - head.len);
            assert_eq!(headers, &frame[l3..frame.len() - body], "{opcode:?}, {body} bytes");
            assert!(before.iter().all(|byte| *byte == 0), "{before:?}");
            let mut link = vec![0xEE; l3 + 1];
            template.emit_link(&mut link);
            assert_eq!((&link[..l3], link[l3]), (&frame[..l3], 0xEE));
        }
    }
    let template = Template::new(&flow(true, None)).unwrap();
    let bth = Bth::new(WireMode::Srnic, Opcode::RcWriteOnly);
    assert_eq!(template.head_of_write(4, &bth, &reth, &meta), None);
}

#[test]
fn the_address_check_wants_the_mirror_image() {
    for v6 in [false, true] {
        let ours = flow(v6, None);
        let theirs = Flow { src: ours.dst, dst: ours.src, ..ours };
        let third: IpAddr = if v6 { "fd00::3:3" } else { "10.3.3.3" }.parse().unwrap();
        let template = Template::new(&ours).unwrap();
        let cases = [
            (theirs, true),
            (ours, false),
            (Flow { src: third, ..theirs }, false),
            (Flow { dst: third, ..theirs }, false),
            (flow(!v6, None), false),
        ];
        for (from, answers) in cases {
            assert_eq!(template.is_answered_by(&received(&from)), answers, "{from:?}");
        }
    }
}

#[test]
fn the_address_check_tells_vlans_apart() {
    // A priority tag (identifier 0, here with priority 5) is no VLAN.
    let (none, seven, eight, priority) = (None, Some(7), Some(8), Some(5 << 13));
    let cases = [
        (none, none, true),
        (seven, seven, true),
        (Some(5 << 13 | 7), seven, true),
        (none, priority, true),
        (priority, none, true),
        (none, seven, false),
        (seven, none, false),
        (seven, eight, false),
    ];
    for v6 in [false, true] {
        for (own, other, answers) in cases {
            let ours = flow(v6, own);
            let theirs = Flow { src: ours.dst, dst: ours.src, vlan: other, ..ours };
            let template = Template::new(&ours).unwrap();
            assert_eq!(template.is_answered_by(&received(&theirs)), answers, "{own:?} {other:?}");
        }
    }
}

/// Addresses of different families differ, whatever their bytes.
#[test]
fn an_ipv6_address_that_begins_like_an_ipv4_one_is_another() {
    let v4 = flow(false, None);
    let alike = |address: IpAddr| match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        }
        IpAddr::V6(_) => address,
    };
    let v6 = Flow { src: alike(v4.src), dst: alike(v4.dst), ..v4 };
    let mirror = |flow: Flow| received(&Flow { src: flow.dst, dst: flow.src, ..flow });
    assert!(Template::new(&v4).unwrap().is_answered_by(&mirror(v4)));
    assert!(Template::new(&v6).unwrap().is_answered_by(&mirror(v6)));
    assert!(!Template::new(&v4).unwrap().is_answered_by(&mirror(v6)));
    assert!(!Template::new(&v6).unwrap().is_answered_by(&mirror(v4)));
}

/// What a receiver makes of a packet of this flow.
fn received(flow: &Flow) -> Datagram {
    let mut frame = [0; 100];
    let sender = Template::new(flow).unwrap();
    sender.emit(&mut frame, 100 - sender.len());
    Datagram::parse(&frame, PORT).unwrap()
}

#[test]
fn a_priority_tag_is_no_vlan() {
    let vlan = |tci| received(&flow(false, Some(tci))).vlan;
    assert_eq!(vlan(0x6000), None);
    assert_eq!(vlan(0x6001), Some(1));
    assert_eq!(vlan(0xFFFF), Some(0x0FFF));
}

/// An IP packet and a UDP header that agree on a length which leaves no room for the UDP header
/// itself.
#[test]
fn a_datagram_shorter_than_its_header_is_refused() {
    for v6 in [false, true] {
        let template = Template::new(&flow(v6, None)).unwrap();
        let mut frame = [0; 100];
        template.emit(&mut frame, 16);
        let udp = template.len() - 8;
        let (l3, len_at) = (template.l3_offset(), if v6 { 18 } else { 16 });
        for udp_len in 0..8 {
            frame[len_at + 1] = if v6 { udp_len } else { 20 + udp_len };
            frame[udp + 5] = udp_len;
            if !v6 {
                checksum(&mut frame[l3..l3 + 20]);
            }
            let refused = EncapError::Length { found: udp_len.into(), room: udp_len.into() };
            assert_eq!(Datagram::parse(&frame, PORT), Err(refused));
        }
        (frame[len_at + 1], frame[udp + 5]) = (if v6 { 8 } else { 28 }, 8);
        if !v6 {
            checksum(&mut frame[l3..l3 + 20]);
        }
        let empty = Datagram::parse(&frame, PORT).map(|datagram| datagram.transport.len());
        assert_eq!(empty, Ok(0), "the header and nothing else");
    }
}

#[test]
fn an_ipv6_datagram_ends_within_its_frame() {
    let template = Template::new(&flow(true, None)).unwrap();
    let mut frame = [0; 100];
    template.emit(&mut frame, 16);
    let (room, udp) = (frame.len() - template.len(), template.len() - 8);
    let mut parse = |transport: usize| {
        let len = u8::try_from(8 + transport).unwrap();
        (frame[19], frame[udp + 5]) = (len, len);
        Datagram::parse(&frame, PORT).map(|datagram| datagram.transport)
    };
    assert_eq!(parse(room), Ok(62..100));
    assert_eq!(parse(room + 1), Err(EncapError::Length { found: 47, room: 46 }));
}

#[test]
fn impossible_flows_are_refused() {
    let mixed = Flow { dst: "fd00::1".parse().unwrap(), ..flow(false, None) };
    assert_eq!(Template::new(&mixed), Err(TemplateError::Families { src: mixed.src, dst: mixed.dst }));
    assert_eq!(Template::new(&Flow { dscp: 64, ..flow(true, None) }), Err(TemplateError::Dscp(64)));
}

#[test]
fn frames_for_others_and_damaged_ones_are_told_apart() {
    let template = Template::new(&flow(false, None)).unwrap();
    let mut good = [0; 80];
    template.emit(&mut good, 80 - 42);
    let parse = |at: usize, value: u8, fix: bool| {
        let mut frame = good;
        frame[at] = value;
        if fix {
            checksum(&mut frame[14..34]);
        }
        Datagram::parse(&frame, PORT).map(|datagram| datagram.transport)
    };
    assert_eq!(parse(60, 0, false), Ok(42..80));
    assert_eq!(parse(13, 0x06, false), Err(EncapError::NotRoce), "ARP");
    assert_eq!(parse(23, 1, true), Err(EncapError::NotRoce), "ICMP");
    assert_eq!(parse(37, 0, false), Err(EncapError::NotRoce), "another port");
    assert_eq!(parse(14, 0x46, true), Err(EncapError::Options { words: 6 }));
    assert_eq!(parse(14, 0x65, true), Err(EncapError::Version(6)));
    assert_eq!(parse(22, 9, false), Err(EncapError::Checksum));
    assert_eq!(parse(20, 0x20, true), Err(EncapError::Fragment), "more fragments");
    assert_eq!(parse(21, 0x01, true), Err(EncapError::Fragment), "not the first");
    assert_eq!(parse(20, 0x10, true), Err(EncapError::Fragment), "far from the first");
    assert_eq!(parse(17, 67, true), Err(EncapError::Length { found: 67, room: 66 }), "beyond the frame");
    assert_eq!(parse(17, 19, true), Err(EncapError::Length { found: 19, room: 66 }), "below the header");
    assert_eq!(parse(39, 45, false), Err(EncapError::Length { found: 45, room: 46 }), "UDP against IP");
}

#[test]
fn ipv6_frames_for_others_are_told_apart() {
    let template = Template::new(&flow(true, None)).unwrap();
    let mut good = [0; 100];
    template.emit(&mut good, 100 - 62);
    let parse = |at: usize, value: u8| {
        let mut frame = good;
        frame[at] = value;
        Datagram::parse(&frame, PORT).map(|datagram| datagram.transport)
    };
    assert_eq!(parse(90, 1), Ok(62..100));
    assert_eq!(parse(14, 0x50), Err(EncapError::Version(5)));
    assert_eq!(parse(20, 44), Err(EncapError::Fragment));
    assert_eq!(parse(20, 58), Err(EncapError::NotRoce), "ICMPv6");
}

/// Ethernet pads short frames: bytes after the IP length belong to nobody.
#[test]
fn ethernet_padding_is_ignored() {
    let template = Template::new(&flow(false, None)).unwrap();
    let mut frame = [0; 70];
    template.emit(&mut frame, 16);
    assert_eq!(Datagram::parse(&frame, PORT).unwrap().transport, 42..58);
}

fn checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let sum: u32 = header.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let sum = (sum & 0xFFFF) + (sum >> 16);
    let folded = u16::try_from((sum & 0xFFFF) + (sum >> 16)).unwrap();
    header[10..12].copy_from_slice(&(!folded).to_be_bytes());
}
