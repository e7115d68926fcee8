//! The headers of every packet type in both modes, spelled out byte by byte from protocol.md 1.2 to
//! 1.4 and 2.2.

#[path = "common/hex.rs"]
mod hex;

use hex::hex;
use wire::{
    AckFlags, Ackx, Aeth, AtomicEth, Bth, Deth, Layout, Meta, Msn, Opcode, Packet, Psn, Rdw, Repr, Reth, Ssn,
    Ssnw, Syndrome, WireMode,
};

const RETH: &str = "1122334455667788 99aabbcc 00012345";
const ATOMIC_ETH: &str = "2122232425262728 292a2b2c 3132333435363738 4142434445464748";
const AETH: &str = "1f 515253";
const IMM: &str = "61626364";
const IETH: &str = "71727374";
const ATOMIC_ACK: &str = "8182838485868788";
const DETH: &str = "91929394 00 959697";
const META: &str = "a1a2 a3a4";
const SSNW: &str = "b1 b2b3b4";
const RDW: &str = "c1 c2c3c4";
const ACKX: &str = "0b d1d2d3 d4d5 d6d7";

/// The packet of this type whose headers carry the values above.
fn repr(mode: WireMode, opcode: Opcode) -> Repr {
    let mut r = Repr::new(mode, opcode).unwrap();
    r.bth = Bth {
        solicited: true,
        pkey: 0x1234,
        becn: true,
        dest_qp: 0x00AB_CDEF,
        ack_req: true,
        psn: Psn::new(0x00FE_DCBA),
        ..r.bth
    };
    r.reth = r.reth.map(|_| Reth { va: 0x1122_3344_5566_7788, rkey: 0x99AA_BBCC, dma_len: 0x0001_2345 });
    r.atomic_eth = r.atomic_eth.map(|_| AtomicEth {
        va: 0x2122_2324_2526_2728,
        rkey: 0x292A_2B2C,
        swap_add: 0x3132_3334_3536_3738,
        compare: 0x4142_4344_4546_4748,
    });
    r.aeth = r.aeth.map(|_| Aeth { syndrome: Syndrome::ACK, msn: 0x0051_5253 });
    r.imm = r.imm.map(|_| 0x6162_6364);
    r.ieth = r.ieth.map(|_| 0x7172_7374);
    r.atomic_ack = r.atomic_ack.map(|_| 0x8182_8384_8586_8788);
    r.deth = r.deth.map(|_| Deth { qkey: 0x9192_9394, src_qp: 0x0095_9697 });
    r.meta = r.meta.map(|_| Meta { msn: Msn::new(0xA1A2), offset: 0xA3A4 });
    r.ssnw = r.ssnw.map(|_| Ssnw { offset_hi: 0xB1, ssn: Ssn::new(0x00B2_B3B4) });
    r.rdw = r.rdw.map(|_| Rdw { rslot: 0xC1, rpsn_start: Psn::new(0x00C2_C3C4) });
    r.ackx = r.ackx.map(|_| Ackx {
        flags: AckFlags::RESPONSE_STREAM | AckFlags::SACK_VALID | AckFlags::META_VALID,
        sack_psn: Psn::new(0x00D1_D2D3),
        ce_cnt: 0xD4D5,
        ack_delay: 0xD6D7,
    });
    r
}

/// Emits `repr`, compares with `literal`, and parses the literal back, whole and header by header.
#[track_caller]
fn check(repr: &Repr, literal: &str) {
    let mut bytes = vec![0xEE; repr.header_len()];
    repr.emit(&mut bytes);
    let mut expected = hex(literal);
    assert_eq!(bytes, expected, "{:?} {:?}", repr.mode, repr.bth.opcode);
    expected.extend([0; 4]);
    assert_eq!(Repr::parse(&Packet::parse(&expected).unwrap()), *repr);

    let layout = Layout::of(repr.mode, repr.bth.opcode).unwrap();
    let at = |offset: u8| &expected[usize::from(offset)..];
    assert_eq!(Bth::parse(&expected), Some(repr.bth));
    assert_eq!(repr.reth.map(|_| Reth::parse(at(layout.reth))), repr.reth);
    assert_eq!(repr.aeth.map(|_| Aeth::parse(at(layout.aeth))), repr.aeth);
    assert_eq!(repr.atomic_eth.map(|_| AtomicEth::parse(at(layout.atomic_eth))), repr.atomic_eth);
    assert_eq!(repr.deth.map(|_| Deth::parse(at(layout.deth))), repr.deth);
    assert_eq!(repr.meta.map(|_| Meta::parse(at(layout.meta))), repr.meta);
    assert_eq!(repr.ssnw.map(|_| Ssnw::parse(at(layout.ssnw))), repr.ssnw);
    assert_eq!(repr.rdw.map(|_| Rdw::parse(at(layout.rdw))), repr.rdw);
    assert_eq!(repr.ackx.map(|_| Ackx::parse(at(layout.ackx))), repr.ackx);
}

/// Checks packets of these opcodes, whose headers after the BTH are `parts`; returns how many.
#[track_caller]
fn check_all(mode: WireMode, opcodes: impl IntoIterator<Item = u8>, parts: &[&str]) -> usize {
    let mut n = 0;
    for byte in opcodes {
        let flags_tver = match mode {
            WireMode::Plain => "80",
            WireMode::Srnic => "89",
        };
        let bth = format!("{byte:02x} {flags_tver} 1234 40 abcdef 80 fedcba");
        check(&repr(mode, Opcode::from_u8(byte).unwrap()), &format!("{bth} {}", parts.concat()));
        n += 1;
    }
    n
}

#[test]
fn plain_packets() {
    let mut n = 0;
    let mut of =
        |opcodes: &[u8], parts: &[&str]| n += check_all(WireMode::Plain, opcodes.iter().copied(), parts);
    for service in [0x00, 0x20] {
        of(&[0x00, 0x01, 0x02, 0x04, 0x07, 0x08].map(|low| service | low), &[]);
        of(&[0x03, 0x05, 0x09].map(|low| service | low), &[IMM]);
        of(&[0x06, 0x0A].map(|low| service | low), &[RETH]);
        of(&[service | 0x0B], &[RETH, IMM]);
    }
    of(&[0x0C], &[RETH]);
    of(&[0x0D, 0x0F, 0x10, 0x11], &[AETH]);
    of(&[0x0E], &[]);
    of(&[0x12], &[AETH, ATOMIC_ACK]);
    of(&[0x13, 0x14], &[ATOMIC_ETH]);
    of(&[0x16, 0x17], &[IETH]);
    of(&[0x64], &[DETH]);
    of(&[0x65], &[DETH, IMM]);
    of(&[0x81], &[]);
    assert_eq!(n, Opcode::ALL.len(), "a packet type has no literal");
}

#[test]
fn srnic_packets() {
    let mut n = 0;
    let mut of =
        |opcodes: &[u8], parts: &[&str]| n += check_all(WireMode::Srnic, opcodes.iter().copied(), parts);
    of(&[0x00, 0x01, 0x02, 0x04], &[META, SSNW]);
    of(&[0x03, 0x05], &[IMM, META, SSNW]);
    of(&[0x16, 0x17], &[IETH, META, SSNW]);
    of(&[0x06, 0x07, 0x08, 0x0A], &[RETH, META]);
    of(&[0x09, 0x0B], &[RETH, IMM, META, SSNW]);
    of(&[0x0C], &[RETH, META, RDW]);
    of(&[0x13, 0x14], &[ATOMIC_ETH, META, RDW]);
    of(&[0x0D, 0x0F, 0x10], &[AETH, META, SSNW]);
    of(&[0x0E], &[META, SSNW]);
    of(&[0x12], &[AETH, ATOMIC_ACK, META, SSNW]);
    of(&[0x11], &[AETH, META, ACKX]);
    let types = Opcode::ALL.iter().filter(|&&opcode| Layout::of(WireMode::Srnic, opcode).is_some()).count();
    assert_eq!(n, types, "a packet type has no literal");
}

#[test]
fn an_ack_with_the_bitmap() {
    let mut ack = repr(WireMode::Srnic, Opcode::RcAck);
    ack.ackx = Some(Ackx { flags: AckFlags::SACK_VALID | AckFlags::BITMAP, ..ack.ackx.unwrap() });
    ack.sackb = Some(0xE1E2_E3E4_E5E6_E7E8);
    check(
        &ack,
        &format!("11 89 1234 40 abcdef 80 fedcba {AETH} {META} 06 d1d2d3 d4d5 d6d7 e1e2e3e4e5e6e7e8"),
    );
}

#[test]
fn each_nak() {
    let mut nak = repr(WireMode::Plain, Opcode::RcAck);
    for (syndrome, byte) in (0..=255).map(|byte| (Syndrome::from_u8(byte), byte)) {
        nak.aeth = Some(Aeth { syndrome, msn: 7 });
        check(&nak, &format!("11 80 1234 40 abcdef 80 fedcba {byte:02x} 000007"));
    }
}

#[test]
fn each_bit_of_the_bth() {
    let bare = Repr::new(WireMode::Plain, Opcode::RcSendOnly).unwrap();
    let bth = |change: fn(&mut Repr), literal: &str| {
        let mut repr = bare;
        change(&mut repr);
        check(&repr, literal);
    };
    bth(|_| (), "04 00 ffff 00 000000 00 000000");
    bth(|r| r.bth.solicited = true, "04 80 ffff 00 000000 00 000000");
    bth(|r| r.bth.mig_req = true, "04 40 ffff 00 000000 00 000000");
    bth(|r| r.bth.fecn = true, "04 00 ffff 80 000000 00 000000");
    bth(|r| r.bth.becn = true, "04 00 ffff 40 000000 00 000000");
    bth(|r| r.resv6a = 0x3F, "04 00 ffff 3f 000000 00 000000");
    bth(|r| r.bth.ack_req = true, "04 00 ffff 00 000000 80 000000");
    bth(|r| r.resv7 = 0x7F, "04 00 ffff 00 000000 7f 000000");
    bth(|r| r.bth.pkey = 0, "04 00 0000 00 000000 00 000000");
    bth(|r| r.bth.dest_qp = 0x00FF_FFFF, "04 00 ffff 00 ffffff 00 000000");
    bth(|r| r.bth.psn = Psn::new(0x00FF_FFFF), "04 00 ffff 00 000000 00 ffffff");
}

#[test]
fn the_reserved_byte_of_deth_is_kept() {
    let mut ud = repr(WireMode::Plain, Opcode::UdSendOnly);
    ud.deth_resv = 0x5A;
    check(&ud, "64 80 1234 40 abcdef 80 fedcba 91929394 5a 959697");
}

#[test]
fn the_bth_alone() {
    let bth = repr(WireMode::Srnic, Opcode::RcWriteLast).bth;
    let mut bytes = [0xEE; 13];
    wire::bth::emit(&mut bytes, &bth);
    assert_eq!(bytes[..], hex("08 89 1234 40 abcdef 80 fedcba ee"));
    assert_eq!(Bth::parse(&bytes), Some(bth));
    assert_eq!(Bth::parse(&bytes[..11]), None, "too short");
    bytes[0] = 0x15;
    assert_eq!(Bth::parse(&bytes), None, "no such opcode");
}

/// Fields wider than the wire never spill into their neighbors.
#[test]
fn values_too_wide_are_cut() {
    let mut repr = repr(WireMode::Plain, Opcode::UdSendOnly);
    repr.bth.dest_qp = u32::MAX;
    repr.bth.tver = 0xFF;
    repr.bth.pad = 0xFF;
    repr.bth.solicited = false;
    repr.resv6a = 0;
    repr.deth = Some(Deth { qkey: 0, src_qp: u32::MAX });
    let mut bytes = [0; 20];
    repr.emit(&mut bytes);
    assert_eq!(bytes[..], hex("64 30 1234 40 ffffff 80 fedcba 00000000 00 ffffff"));
    let aeth = Aeth { syndrome: Syndrome::RnrNak { timer: 0xFF }, msn: u32::MAX };
    let mut bytes = [0; 4];
    aeth.emit(&mut bytes);
    assert_eq!(bytes[..], hex("3f ffffff"));
}

#[test]
#[should_panic(expected = "buffer shorter than the Reth")]
fn emitting_into_too_few_bytes_says_so() {
    Reth::default().emit(&mut [0; 15]);
}

#[test]
#[should_panic(expected = "buffer shorter than the BTH")]
fn emitting_a_bth_into_too_few_bytes_says_so() {
    wire::bth::emit(&mut [0; 11], &Bth::new(WireMode::Plain, Opcode::RcAck));
}

#[test]
fn the_index_of_a_packet_is_in_meta_and_ssnw() {
    for index in [0, 1, 0xFFFF, 0x1_0000, 0xAB_CDEF, 0xFF_FFFF] {
        let (meta, ssnw) = (Meta::of(Msn::new(7), index), Ssnw::of(index, Ssn::new(9)));
        assert_eq!((meta.msn, ssnw.ssn), (Msn::new(7), Ssn::new(9)));
        assert_eq!(meta.index(Some(ssnw)), index);
        assert_eq!(meta.index(None), index & 0xFFFF, "without an SSNW the low 16 bits");
    }
    assert_eq!(Meta::of(Msn::new(0), 0xAB_CDEF).offset, 0xCDEF);
    assert_eq!(Ssnw::of(0xAB_CDEF, Ssn::new(0)).offset_hi, 0xAB);
}
