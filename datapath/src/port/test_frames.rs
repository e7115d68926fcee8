//! Packets of RoCEv2, for the tests of the ports that look at them.

use core::net::{IpAddr, Ipv4Addr};
use wire::emit::ICRC_LEN;
use wire::encap::ROCE_UDP_PORT;
use wire::{Ecn, Flow, Opcode, Psn, Repr, Template, WireMode};

/// From 10.0.0.1 to 10.0.0.2.
pub fn flow() -> Flow {
    let host = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
    Flow {
        src_mac: [2, 0, 0, 0, 0, 1],
        dst_mac: [2, 0, 0, 0, 0, 2],
        vlan: None,
        src: host(1),
        dst: host(2),
        src_port: 0xC000,
        dst_port: ROCE_UDP_PORT,
        dscp: 0,
        ecn: Ecn::Ect0,
        ttl: 64,
    }
}

/// A frame to queue pair `dest_qp`; its ICRC is zero, which nobody looks at here.
pub fn packet(
    flow: &Flow,
    dest_qp: u32,
    opcode: Opcode,
    psn: u32,
    change: impl FnOnce(&mut Repr),
) -> Vec<u8> {
    let template = Template::new(flow).expect("one family");
    let mut repr = Repr::new(WireMode::Srnic, opcode).expect("it has an SRNIC form");
    (repr.bth.dest_qp, repr.bth.psn) = (dest_qp, Psn::new(psn));
    change(&mut repr);
    let transport = repr.header_len() + ICRC_LEN;
    let mut frame = vec![0; template.len() + transport];
    template.emit(&mut frame, transport);
    repr.emit(&mut frame[template.len()..]);
    frame
}
