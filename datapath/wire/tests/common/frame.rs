//! A transport packet in a whole Ethernet frame.

use wire::encap::ROCE_UDP_PORT;
use wire::{Ecn, Flow, Template};

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
