//! Header lengths against the byte counts that protocol.md 2.2 and 1.3 state.

use wire::{AckFlags, Ackx, Layout, Opcode, Pmtu, Repr, Transport, WireMode};

/// Ethernet, IPv4, UDP and ICRC: what the table of 2.2 counts besides BTH and headers.
const AROUND_IPV4: usize = 14 + 20 + 8 + 4;

#[track_caller]
fn frame_len(mode: WireMode, opcode: Opcode) -> usize {
    AROUND_IPV4 + usize::from(Layout::of(mode, opcode).unwrap().len)
}

#[test]
fn srnic_packets_have_the_lengths_of_the_table() {
    use Opcode::*;
    let table: [(&[Opcode], usize); 9] = [
        (&[RcSendFirst, RcSendMiddle, RcSendLast, RcSendOnly], 66),
        (&[RcSendLastImm, RcSendOnlyImm, RcSendLastInv, RcSendOnlyInv], 70),
        (&[RcWriteFirst, RcWriteMiddle, RcWriteLast, RcWriteOnly], 78),
        (&[RcWriteLastImm, RcWriteOnlyImm], 86),
        (&[RcReadRequest], 82),
        (&[RcCompareSwap, RcFetchAdd], 94),
        (&[RcReadResponseFirst, RcReadResponseLast, RcReadResponseOnly], 70),
        (&[RcReadResponseMiddle], 66),
        (&[RcAtomicAck], 78),
    ];
    let mut seen = 1;
    for (opcodes, len) in table {
        for &opcode in opcodes {
            assert_eq!(frame_len(WireMode::Srnic, opcode), len, "{opcode:?}");
            seen += 1;
        }
    }
    assert_eq!(frame_len(WireMode::Srnic, RcAck), 74);
    let rc = Opcode::ALL.iter().filter(|opcode| opcode.transport() == Transport::Rc).count();
    assert_eq!(seen, rc, "an RC opcode is missing from the table");
}

#[test]
fn an_ack_with_the_bitmap_has_82_bytes() {
    let mut ack = Repr::new(WireMode::Srnic, Opcode::RcAck).unwrap();
    assert_eq!(AROUND_IPV4 + ack.header_len(), 74);
    ack.ackx = Some(Ackx { flags: AckFlags::BITMAP, ..Ackx::default() });
    assert_eq!(AROUND_IPV4 + ack.header_len(), 82);
}

#[test]
fn plain_packets_have_the_standard_lengths() {
    use Opcode::*;
    let table: [(&[Opcode], usize); 7] = [
        (
            &[RcSendFirst, RcSendMiddle, RcSendLast, RcSendOnly, UcSendOnly, RcWriteMiddle, UcWriteLast, Cnp],
            0,
        ),
        (
            &[
                RcSendLastImm,
                RcSendOnlyImm,
                RcSendLastInv,
                RcSendOnlyInv,
                RcWriteLastImm,
                UcWriteLastImm,
                RcAck,
            ],
            4,
        ),
        (&[RcWriteFirst, RcWriteOnly, UcWriteFirst, UcWriteOnly, RcReadRequest], 16),
        (&[RcWriteOnlyImm, UcWriteOnlyImm], 20),
        (&[RcCompareSwap, RcFetchAdd], 28),
        (&[RcAtomicAck, UdSendOnlyImm], 12),
        (&[UdSendOnly], 8),
    ];
    for (opcodes, after_bth) in table {
        for &opcode in opcodes {
            assert_eq!(frame_len(WireMode::Plain, opcode), 58 + after_bth, "{opcode:?}");
        }
    }
}

#[test]
fn only_rc_has_an_srnic_form() {
    for &opcode in Opcode::ALL {
        assert!(Layout::of(WireMode::Plain, opcode).is_some());
        let rc = opcode.transport() == Transport::Rc;
        assert_eq!(Layout::of(WireMode::Srnic, opcode).is_some(), rc, "{opcode:?}");
    }
}

#[test]
fn headers_neither_overlap_nor_leave_gaps() {
    for mode in WireMode::ALL {
        for &opcode in Opcode::ALL {
            let Some(l) = Layout::of(mode, opcode) else { continue };
            assert_eq!(l.opcode, opcode);
            let mut parts = [
                (l.reth, 16),
                (l.aeth, 4),
                (l.imm, 4),
                (l.ieth, 4),
                (l.atomic_eth, 28),
                (l.atomic_ack, 8),
                (l.deth, 8),
                (l.meta, 4),
                (l.ssnw, 4),
                (l.rdw, 4),
                (l.ackx, 8),
            ];
            parts.sort_unstable();
            let mut at = 12;
            for (offset, len) in parts.into_iter().filter(|part| part.0 != 0) {
                assert_eq!(offset, at, "{mode:?} {opcode:?}");
                at += len;
            }
            assert_eq!(l.len, at, "{mode:?} {opcode:?}");
        }
    }
}

#[test]
fn the_pmtu_overhead_covers_every_packet_with_payload() {
    use wire::Kind;
    let longest = WireMode::ALL
        .into_iter()
        .flat_map(|mode| Opcode::ALL.iter().filter_map(move |&opcode| Layout::of(mode, opcode)))
        .filter(|layout| matches!(layout.opcode.kind(), Kind::Send | Kind::Write | Kind::ReadResponse))
        .map(|layout| u32::from(layout.len))
        .max();
    assert_eq!(longest.map(|len| 40 + 8 + len + 4), Some(Pmtu::OVERHEAD_MAX));
}

#[test]
fn pmtu_of_a_device_mtu() {
    let fits = |mtu| Pmtu::largest_for(mtu).map(Pmtu::bytes);
    assert_eq!(fits(1500), Some(1408));
    assert_eq!(fits(1499), Some(1024));
    assert_eq!(fits(4200), Some(4096));
    assert_eq!(fits(9000), Some(4096));
    assert_eq!(fits(256 + Pmtu::OVERHEAD_MAX), Some(256));
    assert_eq!(fits(256 + Pmtu::OVERHEAD_MAX - 1), None);
    for pmtu in Pmtu::ALL {
        assert_eq!(Pmtu::from_bytes(pmtu.bytes()), Some(pmtu));
        assert_eq!(Pmtu::from_code(pmtu.code()), Some(pmtu));
        assert_eq!(pmtu.packets(0), 1);
        assert_eq!(pmtu.packets(pmtu.bytes()), 1);
        assert_eq!(pmtu.packets(pmtu.bytes() + 1), 2);
        assert_eq!(pmtu.in_dialect(WireMode::Srnic), pmtu);
    }
    assert_eq!(
        Pmtu::ALL.map(|pmtu| pmtu.packets(u32::MAX)),
        [1 << 24, 1 << 23, 1 << 22, 3_050_403, 1 << 21, 1 << 20]
    );
    assert!(Pmtu::ALL.is_sorted() && Pmtu::PLAIN.is_sorted());
}

#[test]
fn plain_rocev2_has_the_path_mtus_of_verbs_alone() {
    for pmtu in Pmtu::ALL {
        let plain = pmtu.in_dialect(WireMode::Plain);
        assert_eq!(Pmtu::PLAIN.into_iter().rfind(|of_verbs| *of_verbs <= pmtu), Some(plain));
        assert!((1..=5).contains(&plain.code()), "a code of ibv_mtu");
    }
}
