//! Packet types, and transport packets in whole Ethernet frames.

use wire::encap::ROCE_UDP_PORT;
use wire::{Ecn, Flow, Layout, Opcode, Repr, Template, WireMode};

/// Every packet type there is: each opcode in each mode that has it.
pub fn packet_types() -> Vec<(WireMode, Opcode)> {
    let all =
        WireMode::ALL.into_iter().flat_map(|mode| Opcode::ALL.iter().map(move |&opcode| (mode, opcode)));
    all.filter(|&(mode, opcode)| Layout::of(mode, opcode).is_some()).collect()
}

/// The transport packet: headers, payload, zero pad and `icrc`, with PadCnt set to fit.
pub fn transport(repr: &mut Repr, payload: &[u8], icrc: u32) -> Vec<u8> {
    repr.bth.pad = wire::bth::pad_of(payload.len());
    let mut bytes = vec![0xEE; repr.header_len()];
    repr.emit(&mut bytes);
    bytes.extend(payload);
    bytes.resize(bytes.len() + usize::from(repr.bth.pad), 0);
    bytes.extend(icrc.to_le_bytes());
    bytes
}

/// The flow that test frames belong to.
pub fn flow(v6: bool) -> Flow {
    let address = |v4: &str, v6_text: &str| if v6 { v6_text } else { v4 }.parse().unwrap();
    Flow {
        src_mac: [2, 0, 0, 0, 0, 1],
        dst_mac: [2, 0, 0, 0, 0, 2],
        vlan: None,
        src: address("10.0.0.1", "fd00::1"),
        dst: address("10.0.0.2", "fd00::2"),
        src_port: 0xC123,
        dst_port: ROCE_UDP_PORT,
        dscp: 0,
        ecn: Ecn::Ect0,
        ttl: 64,
    }
}

/// `transport` (BTH to ICRC) behind Ethernet, IP and UDP, with its ICRC computed.
pub fn around(transport: &[u8], v6: bool) -> Vec<u8> {
    let template = Template::new(&flow(v6)).unwrap();
    let mut frame = vec![0; template.len() + transport.len()];
    template.emit(&mut frame, transport.len());
    frame[template.len()..].copy_from_slice(transport);
    wire::icrc::seal(&mut frame[template.l3_offset()..]);
    frame
}
