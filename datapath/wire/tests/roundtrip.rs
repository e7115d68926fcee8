//! Parsing and emitting are inverse for every packet type, and no bytes make either panic.

#[path = "common/packets.rs"]
mod packets;
#[path = "common/strategy.rs"]
mod strategy;

use packets::{packet_types, transport};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::net::{IpAddr, Ipv4Addr};
use strategy::{any_repr, payload, repr_of};
use wire::encap::{HEADER_LEN_MAX, ROCE_UDP_PORT};
use wire::{
    Bth, Datagram, Ecn, Flow, Headers, Opcode, Packet, ParseError, Psn, Repr, Template, WireMode, icrc,
};

/// Bytes whose front is a BTH of a known packet type, all else arbitrary.
fn plausible_bytes() -> impl Strategy<Value = Vec<u8>> {
    let types = prop::sample::select(packet_types());
    (types, prop::collection::vec(any::<u8>(), 2..128)).prop_map(|((mode, opcode), mut bytes)| {
        bytes[0] = opcode as u8;
        bytes[1] = bytes[1] & 0xF0 | mode.tver();
        bytes
    })
}

/// Headers and pad of `packet`, emitted from its `Repr` around its own payload and the given pad
/// bytes.
fn emit_again(packet: &Packet<'_>, pad: &[u8]) -> Vec<u8> {
    let repr = Repr::parse(packet);
    let mut again = vec![0xEE; repr.header_len()];
    repr.emit(&mut again);
    again.extend(packet.payload());
    again.extend(pad);
    again.extend(packet.icrc().to_le_bytes());
    again
}

/// The BTH, field by field.
fn bth_of(packet: &Packet<'_>) -> Bth {
    Bth {
        opcode: packet.opcode(),
        tver: packet.tver(),
        solicited: packet.solicited(),
        mig_req: packet.mig_req(),
        pad: packet.pad(),
        pkey: packet.pkey(),
        fecn: packet.fecn(),
        becn: packet.becn(),
        dest_qp: packet.dest_qp(),
        ack_req: packet.ack_req(),
        psn: packet.psn(),
    }
}

/// Not left to chance: each opcode in each mode, with a runner of its own.
#[test]
fn every_packet_type_survives_emit_and_parse() {
    for (mode, opcode) in packet_types() {
        let mut runner = TestRunner::new(Config::with_cases(32));
        let case = (repr_of(mode, opcode), payload(opcode), any::<u32>());
        let outcome = runner.run(&case, |(mut repr, payload, icrc)| {
            let bytes = transport(&mut repr, &payload, icrc);
            let packet = Packet::parse(&bytes).map_err(|e| TestCaseError::fail(e.to_string()))?;
            prop_assert_eq!(Repr::parse(&packet), repr);
            prop_assert_eq!(bth_of(&packet), repr.bth);
            prop_assert_eq!((packet.mode(), packet.opcode()), (mode, opcode));
            prop_assert_eq!(packet.payload(), payload);
            prop_assert_eq!(packet.icrc(), icrc);
            prop_assert_eq!(packet.header_len(), repr.header_len());
            Ok(())
        });
        outcome.unwrap_or_else(|error| panic!("{mode:?} {opcode:?}: {error}"));
    }
}

/// Headers that are put together in registers are those that are written one by one.
#[test]
fn the_commonest_packets_are_written_at_once_as_they_are_piece_by_piece() {
    let host = |number| IpAddr::V4(Ipv4Addr::new(10, 0, 0, number));
    let flow = Flow {
        src_mac: [2, 0, 0, 0, 0, 1],
        dst_mac: [2, 0, 0, 0, 0, 2],
        vlan: None,
        src: host(1),
        dst: host(2),
        src_port: 0xC123,
        dst_port: ROCE_UDP_PORT,
        dscp: 0,
        ecn: Ecn::Ect0,
        ttl: 64,
    };
    let template = Template::new(&flow).unwrap();
    use Opcode::RcReadResponseMiddle;
    use Opcode::{RcSendFirst, RcSendLast, RcSendMiddle, RcSendOnly};
    use Opcode::{RcWriteFirst, RcWriteLast, RcWriteMiddle, RcWriteOnly};
    let writes = [RcWriteFirst, RcWriteMiddle, RcWriteLast, RcWriteOnly];
    let sends = [RcSendFirst, RcSendMiddle, RcSendLast, RcSendOnly, RcReadResponseMiddle];
    for opcode in writes.into_iter().chain(sends) {
        let mut runner = TestRunner::new(Config::with_cases(32));
        let outcome = runner.run(&repr_of(WireMode::Srnic, opcode), |repr| {
            // What is sent has no reserved bits.
            let bth = Bth { tver: WireMode::Srnic.tver(), ..repr.bth };
            let repr = Repr { bth, resv6a: 0, resv7: 0, ..repr };
            let mut pieces = vec![0xEE; repr.header_len()];
            repr.emit(&mut pieces);
            let meta = repr.meta.unwrap_or_default();
            let head = match (repr.reth, repr.ssnw) {
                (Some(reth), None) => template.head_of_write(0, &bth, &reth, &meta),
                (None, Some(ssnw)) => template.head_of_send(0, &bth, &meta, &ssnw),
                other => return Err(TestCaseError::fail(format!("{other:?}"))),
            };
            let block = head.expect("IPv4").to_bytes();
            prop_assert_eq!(&pieces[..], &block[block.len() - pieces.len()..]);
            Ok(())
        });
        outcome.unwrap_or_else(|error| panic!("{opcode:?}: {error}"));
    }
}

proptest! {
    #![proptest_config(Config::with_cases(4096))]

    #[test]
    fn whatever_parses_is_emitted_bit_for_bit(bytes in plausible_bytes()) {
        if let Ok(packet) = Packet::parse(&bytes) {
            let end = bytes.len() - 4;
            let pad = &bytes[end - usize::from(packet.pad())..end];
            prop_assert_eq!(emit_again(&packet, pad), bytes);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Packet::parse(&bytes).map(|packet| Repr::parse(&packet));
        let _ = Headers::new_checked(&bytes).map(|headers| headers.sackb());
        let _ = Datagram::parse(&bytes, ROCE_UDP_PORT);
        let _ = icrc::verify(&bytes);
        let mut sealed = bytes.clone();
        icrc::seal(&mut sealed);
        prop_assert_eq!(sealed.len(), bytes.len());
    }

    #[test]
    fn every_truncation_is_refused_or_shortens_the_payload(
        mut repr in any_repr(),
        bytes in prop::collection::vec(any::<u8>(), 16),
        cut in any::<prop::sample::Index>(),
    ) {
        let whole = transport(&mut repr, &bytes, 0);
        let cut = cut.index(whole.len());
        match Packet::parse(&whole[..cut]) {
            Ok(packet) => {
                prop_assert!(cut >= repr.header_len() + 4);
                prop_assert_eq!(packet.payload().len(), cut - repr.header_len() - 4);
            }
            Err(ParseError::Truncated { len, need }) => {
                prop_assert!(cut < repr.header_len() + 4, "refused {cut} bytes: {len} < {need}");
                prop_assert!(len < need);
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    #[test]
    fn setters_change_their_field_and_nothing_else(
        mut repr in any_repr(),
        on in any::<[bool; 4]>(),
        pkey in any::<u16>(),
        numbers in any::<[u32; 2]>(),
    ) {
        let mut bytes = transport(&mut repr, &[], 0);
        let mut headers = Headers::new_checked(&mut bytes[..]).unwrap();
        headers.set_solicited(on[0]);
        headers.set_fecn(on[1]);
        headers.set_becn(on[2]);
        headers.set_ack_req(on[3]);
        headers.set_pkey(pkey);
        headers.set_dest_qp(numbers[0]);
        headers.set_psn(Psn::new(numbers[1]));
        repr.bth.solicited = on[0];
        repr.bth.fecn = on[1];
        repr.bth.becn = on[2];
        repr.bth.ack_req = on[3];
        repr.bth.pkey = pkey;
        repr.bth.dest_qp = numbers[0] & 0x00FF_FFFF;
        repr.bth.psn = Psn::new(numbers[1]);
        prop_assert_eq!(Repr::parse(&Packet::parse(&bytes).unwrap()), repr);
    }

    #[test]
    fn a_bent_frame_never_panics(
        mut repr in any_repr(),
        flips in prop::collection::vec((0..HEADER_LEN_MAX + 60, any::<u8>()), 1..6),
        v6 in any::<bool>(),
    ) {
        let transport = transport(&mut repr, &[7; 16], 0);
        let mut frame = packets::around(&transport, v6);
        let len = frame.len();
        for (at, bits) in flips {
            frame[at % len] ^= bits;
        }
        if let Ok(datagram) = Datagram::parse(&frame, ROCE_UDP_PORT) {
            prop_assert!(datagram.transport.end <= len);
            let _ = Packet::parse(&frame[datagram.transport]);
        }
    }
}

#[test]
fn unknown_versions_and_opcodes_are_named() {
    let mut bytes = [0; 32];
    for tver in 0..16 {
        bytes[1] = tver;
        let parsed = Packet::parse(&bytes).map(|packet| packet.mode());
        match tver {
            0 => assert_eq!(parsed, Ok(WireMode::Plain)),
            9 => assert_eq!(parsed, Ok(WireMode::Srnic)),
            _ => assert_eq!(parsed, Err(ParseError::Version(tver))),
        }
    }
    let mut bytes = [0; 80];
    for mode in WireMode::ALL {
        bytes[1] = mode.tver();
        for opcode in 0..=255 {
            bytes[0] = opcode;
            let known = packet_types().iter().any(|&(m, o)| (m, o as u8) == (mode, opcode));
            match Packet::parse(&bytes) {
                Ok(packet) => assert_eq!(Some(packet.opcode()), Opcode::from_u8(opcode).filter(|_| known)),
                Err(error) => {
                    assert!(!known);
                    assert_eq!(error, ParseError::Opcode { opcode, mode });
                }
            }
        }
    }
}

#[test]
fn what_is_shorter_than_a_bth_or_has_no_icrc_says_how_long_it_must_be() {
    let parse = |len: usize| Packet::parse(&[0; 16][..len]).map(|packet| packet.payload().len());
    assert_eq!(parse(3), Err(ParseError::Truncated { len: 3, need: 12 }), "a BTH");
    assert_eq!(parse(15), Err(ParseError::Truncated { len: 15, need: 16 }), "an ICRC behind it");
    assert_eq!(parse(16), Ok(0));
}

#[test]
fn pad_only_at_the_end_of_a_message_and_within_the_packet() {
    let parse = |opcode: Opcode, pad: u8, room: usize| {
        let mut bytes = vec![0; 12 + room + 4];
        bytes[0] = opcode as u8;
        bytes[1] = pad << 4;
        Packet::parse(&bytes).map(|packet| packet.payload().len())
    };
    assert_eq!(parse(Opcode::RcSendLast, 3, 4), Ok(1));
    assert_eq!(parse(Opcode::RcSendOnly, 3, 3), Ok(0));
    assert_eq!(parse(Opcode::RcSendOnly, 3, 2), Err(ParseError::Pad { pad: 3, room: 2 }));
    for opcode in [Opcode::RcSendFirst, Opcode::RcSendMiddle] {
        assert_eq!(parse(opcode, 0, 4), Ok(4));
        assert_eq!(parse(opcode, 1, 4), Err(ParseError::Pad { pad: 1, room: 4 }));
    }
}
