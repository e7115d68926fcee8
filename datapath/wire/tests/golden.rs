//! Byte literals of protocol.md 1.7 and of the SRNIC words: what goes over the wire, spelled out.

#[path = "common/hex.rs"]
mod hex;

use hex::hex;
use wire::encap::ROCE_UDP_PORT;
use wire::{Datagram, Ecn, Opcode, Packet, Psn, WireMode, icrc};

/// A CNP captured from a ConnectX-4 Lx, from the IP header's frame on: Ethernet to ICRC.
fn cnp() -> Vec<u8> {
    let mut frame = hex(
        "e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a001201000012b7002800008100ffff40000118",
    );
    frame.extend([0; 4 + 16]);
    frame.extend(hex("82fd002a"));
    frame
}

/// A SEND_ONLY over IPv4 whose 64 payload bytes count up from zero.
fn send_only() -> Vec<u8> {
    let mut frame = hex(
        "02000000000202000000000108004502006c12344000401114490a0000010a000002c12312b7005800000440ffff0000001100000064",
    );
    frame.extend(0..64);
    frame.extend(hex("36e492c6"));
    frame
}

#[test]
fn the_icrc_of_a_captured_cnp() {
    let frame = cnp();
    let datagram = Datagram::parse(&frame, ROCE_UDP_PORT).unwrap();
    assert_eq!(
        icrc::compute(&frame[datagram.l3_offset..frame.len() - 4]).to_le_bytes(),
        [0x82, 0xfd, 0x00, 0x2a]
    );
    assert!(icrc::verify(&frame[datagram.l3_offset..]));
    let packet = Packet::parse(&frame[datagram.transport]).unwrap();
    assert_eq!((packet.mode(), packet.opcode()), (WireMode::Plain, Opcode::Cnp));
    assert!(packet.becn() && !packet.fecn() && !packet.mig_req());
    assert_eq!((packet.dest_qp(), packet.psn(), packet.pkey()), (0x118, Psn::new(0), 0xFFFF));
    assert_eq!(packet.payload(), [0; wire::emit::CNP_RESERVED_LEN]);
}

#[test]
fn the_icrc_of_a_send_only() {
    let frame = send_only();
    let datagram = Datagram::parse(&frame, ROCE_UDP_PORT).unwrap();
    assert!(icrc::verify(&frame[datagram.l3_offset..]));
    assert_eq!(datagram.src.to_string(), "10.0.0.1");
    assert_eq!(datagram.dst.to_string(), "10.0.0.2");
    assert_eq!((datagram.src_port, datagram.ecn, datagram.vlan), (0xC123, Ecn::Ect0, None));
    let packet = Packet::parse(&frame[datagram.transport]).unwrap();
    assert_eq!((packet.opcode(), packet.dest_qp(), packet.psn()), (Opcode::RcSendOnly, 0x11, Psn::new(100)));
    assert!(packet.mig_req() && !packet.ack_req() && packet.pad() == 0);
    assert_eq!(packet.payload(), (0..64).collect::<Vec<u8>>());
    assert_eq!(packet.icrc(), 0xc692_e436);
}

#[test]
fn a_flipped_bit_anywhere_but_in_a_masked_field_breaks_the_icrc() {
    const MASKED: [usize; 7] = [1, 8, 10, 11, 26, 27, 32];
    let frame = send_only();
    let l3 = &frame[14..];
    for bit in 0..l3.len() * 8 {
        let mut bent = l3.to_vec();
        bent[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(icrc::verify(&bent), MASKED.contains(&(bit / 8)), "bit {bit}");
    }
}
