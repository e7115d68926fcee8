//! Opcode properties, syndromes, RNR timers, entropy: the small tables of protocol.md 1.3, 1.5 and
//! 1.8.

use wire::entropy::{flow_label_from_qpns, sport_from_flow_label};
use wire::srnic::ack_delay_of_ns;
use wire::{
    AckFlags, Ackx, Kind, NakCode, Opcode, Position, Syndrome, Transport, rnr_timer_code, rnr_timer_ns,
};

fn bytes_with(holds: fn(Opcode) -> bool) -> Vec<u8> {
    (0..=255).filter(|&byte| Opcode::from_u8(byte).is_some_and(holds)).collect()
}

#[test]
fn which_bytes_are_opcodes() {
    let rc = (0x00..=0x14).chain(0x16..=0x17);
    let expected: Vec<u8> = rc.chain(0x20..=0x2B).chain([0x64, 0x65, 0x81]).collect();
    assert_eq!(bytes_with(|_| true), expected);
    assert!(Opcode::ALL.iter().all(|&opcode| Opcode::from_u8(opcode as u8) == Some(opcode)));
}

#[test]
fn the_upper_bits_name_the_service() {
    for &opcode in Opcode::ALL {
        let service = match opcode as u8 >> 5 {
            0b000 => Transport::Rc,
            0b001 => Transport::Uc,
            0b011 => Transport::Ud,
            0b100 => Transport::Cnp,
            other => panic!("{opcode:?}: {other:#05b}"),
        };
        assert_eq!(opcode.transport(), service, "{opcode:?}");
    }
}

/// SEND and WRITE of UC mean what the same low bits mean in RC.
#[test]
fn uc_mirrors_rc() {
    for low in 0x00..=0x0B {
        let (rc, uc) = (Opcode::from_u8(low).unwrap(), Opcode::from_u8(0x20 | low).unwrap());
        assert_eq!((rc.kind(), rc.position()), (uc.kind(), uc.position()), "{uc:?}");
        assert_eq!((rc.has_imm(), rc.has_inv()), (uc.has_imm(), uc.has_inv()), "{uc:?}");
        assert_eq!(rc.in_transport(Transport::Uc), Some(uc));
        assert_eq!(uc.in_transport(Transport::Rc), Some(rc));
    }
    assert_eq!(Opcode::RcSendOnly.in_transport(Transport::Ud), Some(Opcode::UdSendOnly));
    assert_eq!(Opcode::RcReadRequest.in_transport(Transport::Uc), None, "UC reads nothing");
}

#[test]
fn which_opcodes_do_what() {
    assert_eq!(bytes_with(Opcode::has_imm), [0x03, 0x05, 0x09, 0x0B, 0x23, 0x25, 0x29, 0x2B, 0x65]);
    assert_eq!(bytes_with(Opcode::has_inv), [0x16, 0x17]);
    assert_eq!(bytes_with(|o| o.kind() == Kind::ReadResponse), [0x0D, 0x0E, 0x0F, 0x10]);
    assert_eq!(bytes_with(|o| o.kind() == Kind::Atomic), [0x13, 0x14]);
    assert_eq!(bytes_with(|o| o.position() == Position::First), [0x00, 0x06, 0x0D, 0x20, 0x26]);
    assert_eq!(bytes_with(|o| o.position() == Position::Middle), [0x01, 0x07, 0x0E, 0x21, 0x27]);
    assert_eq!(
        bytes_with(|o| o.position() == Position::Last),
        [0x02, 0x03, 0x08, 0x09, 0x0F, 0x16, 0x22, 0x23, 0x28, 0x29]
    );
    assert_eq!(bytes_with(|o| !o.is_request()), [0x0D, 0x0E, 0x0F, 0x10, 0x11, 0x12, 0x81]);
    assert_eq!(
        bytes_with(Opcode::consumes_rwqe),
        [
            0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x09, 0x0B, 0x16, 0x17, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25,
            0x29, 0x2B, 0x64, 0x65
        ]
    );
    for &opcode in Opcode::ALL {
        assert_eq!(opcode.is_start(), matches!(opcode.position(), Position::First | Position::Only));
        assert_eq!(opcode.is_end(), matches!(opcode.position(), Position::Last | Position::Only));
    }
}

#[test]
fn pad_fills_up_to_four() {
    assert_eq!([0, 1, 2, 3, 4, 5, 4095, 4096].map(wire::bth::pad_of), [0, 3, 2, 1, 0, 3, 1, 0]);
}

#[test]
fn syndromes_lose_nothing() {
    for byte in 0..=255 {
        assert_eq!(Syndrome::from_u8(byte).to_u8(), byte);
    }
    assert_eq!(Syndrome::from_u8(0x1F), Syndrome::ACK);
    assert_eq!(Syndrome::from_u8(0x2C), Syndrome::RnrNak { timer: 12 });
    assert_eq!(Syndrome::from_u8(0x40), Syndrome::Reserved(0x40));
    assert_eq!(Syndrome::from_u8(0x65), Syndrome::Reserved(0x65));
    assert_eq!(Syndrome::from_u8(0x80), Syndrome::Reserved(0x80));
    let naks = [
        (0x60, NakCode::PsnSequence),
        (0x61, NakCode::InvalidRequest),
        (0x62, NakCode::RemoteAccess),
        (0x63, NakCode::RemoteOperational),
        (0x64, NakCode::InvalidRd),
    ];
    for (byte, code) in naks {
        assert_eq!(Syndrome::from_u8(byte), Syndrome::Nak(code));
    }
}

#[test]
fn rnr_timers() {
    let ms = "655.36 .01 .02 .03 .04 .06 .08 .12 .16 .24 .32 .48 .64 .96 1.28 1.92 2.56 3.84 5.12 7.68 10.24
        15.36 20.48 30.72 40.96 61.44 81.92 122.88 163.84 245.76 327.68 491.52";
    let ns: Vec<u64> = ms
        .split_whitespace()
        .map(|text| {
            let (whole, hundredths) = text.split_once('.').unwrap();
            let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().unwrap() };
            whole * 1_000_000 + hundredths.parse::<u64>().unwrap() * 10_000
        })
        .collect();
    assert_eq!((0..32).map(rnr_timer_ns).collect::<Vec<_>>(), ns);
    assert_eq!(rnr_timer_ns(32 | 5), rnr_timer_ns(5), "only five bits count");

    for code in 0..32 {
        let delay = rnr_timer_ns(code);
        assert_eq!(rnr_timer_code(delay), code);
        let shorter = ns.iter().filter(|&&other| other < delay).max();
        if let Some(shorter) = shorter {
            assert_eq!(rnr_timer_code(shorter + 1), code);
        }
    }
    assert_eq!(rnr_timer_code(0), 1);
    assert_eq!(rnr_timer_code(u64::MAX), 0, "nothing is longer than 655.36 ms");
}

#[test]
fn source_ports() {
    assert_eq!(sport_from_flow_label(0x12345), 0xE341);
    assert_eq!(sport_from_flow_label(0), 0xC000);
    assert_eq!(sport_from_flow_label(0xFFFFF), 0xFFC0);
    assert_eq!(sport_from_flow_label(0xF_FFFF | 0xFFF0_0000), 0xFFC0, "only 20 bits count");
    assert_eq!(flow_label_from_qpns(3, 5), 15);
    // 0xFFFFFE000001: its three 20-bit digits are 0x00001, 0xFFFE0 and 0x000FF.
    assert_eq!(flow_label_from_qpns(0xFF_FFFF, 0xFF_FFFF), 0x00001 ^ 0xFFFE0 ^ 0x000FF);
    for (local, remote) in [(17, 0x00AB_CDEF), (0x123456, 0x654321)] {
        let label = flow_label_from_qpns(local, remote);
        assert_eq!(label, flow_label_from_qpns(remote, local));
        let product = u64::from(local) * u64::from(remote);
        let digits = [0, 20, 40].map(|shift| product >> shift & 0xF_FFFF);
        assert_eq!(u64::from(label), digits[0] ^ digits[1] ^ digits[2]);
    }
}

#[test]
fn ack_delays_saturate() {
    assert_eq!(ack_delay_of_ns(63), 0);
    assert_eq!(ack_delay_of_ns(64), 1);
    assert_eq!(ack_delay_of_ns(64 * 0xFFFF), 0xFFFF);
    assert_eq!(ack_delay_of_ns(64 * 0x1_0000), 0xFFFF);
    assert_eq!(ack_delay_of_ns(u64::MAX), 0xFFFF);
}

#[test]
fn an_ack_delay_counts_units_of_64_ns() {
    let delay = |ack_delay| Ackx { ack_delay, ..Ackx::default() }.ack_delay_ns();
    assert_eq!([0, 1, 0xFFFF].map(delay), [0, 64, 0xFFFF * 64]);
}

#[test]
fn ack_flags() {
    let all = [
        AckFlags::RESPONSE_STREAM,
        AckFlags::SACK_VALID,
        AckFlags::BITMAP,
        AckFlags::META_VALID,
        AckFlags::DUPLICATE,
        AckFlags::BACKWARD,
    ];
    assert_eq!(all.map(|flag| flag.0), [0x01, 0x02, 0x04, 0x08, 0x10, 0x20]);
    for flag in all {
        let mut others = AckFlags::empty();
        all.into_iter().filter(|&other| other != flag).for_each(|other| others |= other);
        assert_eq!(others.0, 0x3F ^ flag.0);
        assert!(!others.contains(flag) && (others | flag).contains(flag));
        assert_eq!(others.with(flag, true), others.union(flag));
        assert_eq!(flag.union(flag), flag);
        assert_eq!((flag.with(flag, true), others.with(flag, false)), (flag, others), "as it was");
        assert_eq!(others.with(flag, true).with(flag, false), others);
    }
    assert!(!AckFlags::BITMAP.contains(AckFlags::BITMAP | AckFlags::SACK_VALID), "both are asked for");
}
