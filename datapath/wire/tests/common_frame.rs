//! What is recognised as a common frame is exactly what the general parsers make of it, and those
//! that should be are.

#[path = "common/packets.rs"]
mod packets;
#[path = "common/strategy.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod strategy;

use packets::{around, flow, packet_types, transport};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use strategy::{payload, repr_of};
use wire::encap::ROCE_UDP_PORT;
use wire::{
    AckFlags, Body, Bth, CommonFrame, Continuation, Datagram, Flow, Kind, Meta, Opcode, Packet, Repr, Reth,
    Ssnw, Template, WireMode,
};

/// Where the BTH starts in a frame without a VLAN tag, IPv4.
const BTH: usize = 42;
/// And the IP header.
const L3: usize = 14;

/// What both ways say of a frame, if it is recognised.
fn compare(frame: &[u8]) -> Result<bool, TestCaseError> {
    let found = CommonFrame::recognize(frame, ROCE_UDP_PORT);
    let peeked = CommonFrame::peek_dest_qp(frame, ROCE_UDP_PORT);
    prop_assert!(found.is_none_or(|common| peeked == Some(common.dest_qp())));
    if let (Some(qpn), Ok(datagram)) = (peeked, Datagram::parse(frame, ROCE_UDP_PORT))
        && let Ok(packet) = Packet::parse(&frame[datagram.transport])
    {
        prop_assert_eq!(qpn, packet.dest_qp());
    }
    let Some((common, body)) = found.and_then(|common| Some((common, common.body()?))) else {
        return Ok(false);
    };
    let datagram = Datagram::parse(frame, ROCE_UDP_PORT).map_err(|e| TestCaseError::fail(e.to_string()))?;
    let packet =
        Packet::parse(&frame[datagram.transport.clone()]).map_err(|e| TestCaseError::fail(e.to_string()))?;
    prop_assert_eq!(common.from_l3(), &frame[datagram.l3_offset..datagram.transport.end]);
    prop_assert_eq!((common.ecn(), WireMode::Srnic), (datagram.ecn, packet.mode()));
    prop_assert_eq!((common.dest_qp(), common.psn()), (packet.dest_qp(), packet.psn()));
    prop_assert_eq!((common.pkey(), common.position()), (packet.pkey(), packet.opcode().position()));
    prop_assert_eq!((common.ack_req(), common.solicited()), (packet.ack_req(), packet.solicited()));
    prop_assert!(packet.imm().is_none() && packet.ieth().is_none());
    let expected = match packet.opcode().kind() {
        Kind::Write => packet.reth().zip(packet.meta()).map(|(reth, meta)| Body::Write {
            reth,
            meta,
            payload: packet.payload(),
        }),
        Kind::Send => packet.meta().zip(packet.ssnw()).map(|(meta, ssnw)| Body::Send {
            meta,
            ssnw,
            payload: packet.payload(),
        }),
        _ => packet.aeth().zip(packet.meta().zip(packet.ackx())).map(|(aeth, (meta, ackx))| Body::Ack {
            aeth,
            meta,
            ackx,
        }),
    };
    prop_assert_eq!(Some(body), expected);
    is_what_it_says(&common, &packet)?;
    prop_assert_eq!(packet.sackb(), None);
    // The template of who is answered, and of somebody else.
    let template = Template::new(&flow(false)).map_err(|e| TestCaseError::fail(e.to_string()))?;
    prop_assert_eq!(template.is_answered_by_common(&common), template.is_answered_by(&datagram));
    Ok(true)
}

/// A frame is the continuation that its headers say, unless it has a pad, and no other.
fn is_what_it_says(frame: &CommonFrame<'_>, packet: &Packet<'_>) -> Result<(), TestCaseError> {
    let (psn, Some(meta)) = (packet.psn(), packet.meta()) else { return Ok(()) };
    let said = match (packet.reth(), packet.ssnw()) {
        (Some(reth), _) => Continuation::Write { psn, reth, meta },
        (_, Some(ssnw)) => Continuation::Send { psn, meta, ssnw },
        _ => return Ok(()),
    };
    let is_padded = packet.payload().len() % 4 != 0;
    prop_assert_eq!(frame.continues(&said), (!is_padded).then_some(packet.payload()));
    let psn = psn.next();
    let meta = [Meta { msn: meta.msn.next(), ..meta }, Meta { offset: meta.offset ^ 0x100, ..meta }, meta];
    let others = match said {
        Continuation::Write { psn: own, reth, meta: own_meta } => [
            Continuation::Write { psn, reth, meta: own_meta },
            Continuation::Write { psn: own, reth, meta: meta[0] },
            Continuation::Write { psn: own, reth, meta: meta[1] },
            Continuation::Write { psn: own, reth: Reth { va: reth.va ^ 1 << 40, ..reth }, meta: meta[2] },
            Continuation::Write { psn: own, reth: Reth { va: reth.va ^ 1, ..reth }, meta: meta[2] },
            Continuation::Write { psn: own, reth: Reth { rkey: !reth.rkey, ..reth }, meta: meta[2] },
            Continuation::Write { psn: own, reth: Reth { dma_len: reth.dma_len ^ 8, ..reth }, meta: meta[2] },
        ]
        .to_vec(),
        Continuation::Send { psn: own, meta: own_meta, ssnw } => [
            Continuation::Send { psn, meta: own_meta, ssnw },
            Continuation::Send { psn: own, meta: meta[0], ssnw },
            Continuation::Send { psn: own, meta: meta[1], ssnw },
            Continuation::Send { psn: own, meta: meta[2], ssnw: Ssnw { ssn: ssnw.ssn.next(), ..ssnw } },
            Continuation::Send { psn: own, meta: meta[2], ssnw: Ssnw { offset_hi: !ssnw.offset_hi, ..ssnw } },
        ]
        .to_vec(),
    };
    // The same bytes in a message of the other kind.
    let header = &frame.from_l3()[BTH - L3 + Bth::LEN..];
    let otherwise = match said {
        Continuation::Write { psn, .. } => {
            let ssnw = Ssnw::parse(&header[Meta::LEN..]);
            Some(Continuation::Send { psn, meta: Meta::parse(header), ssnw })
        }
        Continuation::Send { psn, .. } => header
            .get(Reth::LEN..Reth::LEN + Meta::LEN)
            .map(|meta| Continuation::Write { psn, reth: Reth::parse(header), meta: Meta::parse(meta) }),
    };
    for other in others.into_iter().chain(otherwise) {
        prop_assert_eq!(frame.continues(&other), None, "{:?} is not {:?}", said, other);
    }
    Ok(())
}

/// A frame taken apart as the next of a flow is what it is by itself.
fn compare_behind(before: &[u8], frame: &[u8]) -> Result<(), TestCaseError> {
    let Some(first) = CommonFrame::recognize(before, ROCE_UDP_PORT) else { return Ok(()) };
    let Some(next) = first.followed_by(frame) else {
        prop_assert!(before != frame, "nothing differs");
        return Ok(());
    };
    let alone = CommonFrame::recognize(frame, ROCE_UDP_PORT);
    let Some(alone) = alone else { return Err(TestCaseError::fail("a common frame in a flow only")) };
    prop_assert_eq!((next.from_l3(), next.body()), (alone.from_l3(), alone.body()));
    prop_assert_eq!((next.psn(), next.ack_req()), (alone.psn(), alone.ack_req()));
    prop_assert_eq!((next.dest_qp(), next.position()), (alone.dest_qp(), alone.position()));
    Ok(())
}

/// A frame follows another if it has the same bytes up to the acknowledge request, whatever is
/// behind.
#[test]
fn a_frame_follows_if_nothing_differs_before_the_psn() {
    const ACK_REQ: usize = BTH + 8;
    let mut runner = TestRunner::new(Config::with_cases(16));
    let case = (repr_of(WireMode::Srnic, Opcode::RcWriteMiddle), payload(Opcode::RcWriteMiddle));
    let outcome = runner.run(&case, |(mut repr, payload)| {
        let before = around(&transport(&mut repr, &payload, 0), false);
        let Some(first) = CommonFrame::recognize(&before, ROCE_UDP_PORT) else {
            return Err(TestCaseError::fail("a common frame"));
        };
        for at in 0..before.len() {
            let mut frame = before.clone();
            frame[at] ^= 1;
            prop_assert_eq!(first.followed_by(&frame).is_some(), at >= ACK_REQ, "byte {}", at);
        }
        prop_assert!(first.followed_by(&before[..before.len() - 1]).is_none());
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

/// One bit differs in two places, as far apart as the pieces that are compared.
#[test]
fn differences_do_not_make_up_for_each_other() {
    let mut repr = Repr::new(WireMode::Srnic, Opcode::RcWriteMiddle).unwrap();
    let before = around(&transport(&mut repr, &[7; 64], 0), false);
    let first = CommonFrame::recognize(&before, ROCE_UDP_PORT).unwrap();
    for apart in [4, 8, 16, 32] {
        for at in 0..BTH + 8 - apart {
            let mut frame = before.clone();
            frame[at] ^= 1;
            frame[at + apart] ^= 1;
            assert!(first.followed_by(&frame).is_none(), "bytes {at} and {}", at + apart);
        }
    }
}

#[test]
fn an_answer_comes_from_the_other_end_untagged() {
    let mut repr = Repr::new(WireMode::Srnic, Opcode::RcSendOnly).unwrap();
    let frame = around(&transport(&mut repr, &[], 0), false);
    let common = CommonFrame::recognize(&frame, ROCE_UDP_PORT).unwrap();
    let sent = flow(false);
    let own = Flow { src: sent.dst, dst: sent.src, ..sent };
    let v6 = Flow { src: flow(true).dst, dst: flow(true).src, ..flow(true) };
    for (own, answers) in [
        (own, true),
        (Flow { vlan: Some(5 << 13), ..own }, true),
        (Flow { vlan: Some(7), ..own }, false),
        (Flow { src: sent.src, ..own }, false),
        (Flow { dst: sent.dst, ..own }, false),
        (v6, false),
    ] {
        let template = Template::new(&own).unwrap();
        assert_eq!(template.is_answered_by_common(&common), answers, "{own:?}");
    }
}

#[test]
fn an_ack_that_is_padded_or_promises_a_bitmap_is_not_common() {
    let mut repr = Repr::new(WireMode::Srnic, Opcode::RcAck).unwrap();
    let good = around(&transport(&mut repr, &[], 0), false);
    let is_common = |at: usize, bits: u8| {
        let mut frame = good.clone();
        frame[at] |= bits;
        CommonFrame::recognize(&frame, ROCE_UDP_PORT).is_some_and(|common| common.body().is_some())
    };
    const FLAGS: usize = BTH + Bth::LEN + 4 + Meta::LEN;
    assert!(is_common(0, 0));
    assert!(!is_common(FLAGS, AckFlags::BITMAP.0));
    assert!(!is_common(BTH + 1, 1 << 4));
}

/// Nothing but data of an RC message, or an ACK: what has a common form.
fn is_common(mode: WireMode, opcode: Opcode) -> bool {
    let bare = !opcode.has_imm() && !opcode.has_inv();
    mode == WireMode::Srnic && bare && matches!(opcode.kind(), Kind::Write | Kind::Send | Kind::Ack)
}

#[test]
fn every_packet_type_is_recognised_if_it_is_common_and_only_then() {
    for (mode, opcode) in packet_types() {
        let mut runner = TestRunner::new(Config::with_cases(64));
        let case = (repr_of(mode, opcode), payload(opcode), any::<bool>());
        let outcome = runner.run(&case, |(mut repr, payload, v6)| {
            let frame = around(&transport(&mut repr, &payload, 0), v6);
            let has_bitmap = repr.ackx.is_some_and(|ackx| ackx.flags.contains(AckFlags::BITMAP));
            let whole_ack = opcode.kind() != Kind::Ack || payload.is_empty();
            prop_assert_eq!(compare(&frame)?, is_common(mode, opcode) && !v6 && !has_bitmap && whole_ack);
            Ok(())
        });
        outcome.unwrap_or_else(|error| panic!("{mode:?} {opcode:?}: {error}"));
    }
}

/// In the dialect's version, which only RC speaks.
#[test]
fn an_opcode_of_another_service_is_not_recognised() {
    for opcode in [Opcode::UcSendOnly, Opcode::UcWriteOnly, Opcode::UdSendOnly] {
        let mut runner = TestRunner::new(Config::with_cases(64));
        let case = (repr_of(WireMode::Srnic, Opcode::RcWriteOnly), payload(Opcode::RcWriteOnly));
        let outcome = runner.run(&case, |(mut repr, payload)| {
            let mut frame = around(&transport(&mut repr, &payload, 0), false);
            prop_assert!(compare(&frame)?);
            frame[BTH] = opcode as u8;
            prop_assert!(!compare(&frame)?);
            Ok(())
        });
        outcome.unwrap_or_else(|error| panic!("{opcode:?}: {error}"));
    }
}

/// Neither the flags that no fragment has nor what comes later is looked at.
#[test]
fn a_peek_is_refused_where_the_frame_is_no_datagram_to_that_port() {
    let mut repr = Repr::new(WireMode::Srnic, Opcode::RcSendOnly).unwrap();
    repr.bth.dest_qp = 0x0012_3456;
    let good = around(&transport(&mut repr, &[], 0), false);
    let peek = |at: usize, bits: u8| {
        let mut frame = good.clone();
        frame[at] ^= bits;
        CommonFrame::peek_dest_qp(&frame, ROCE_UDP_PORT)
    };
    for at in [12, 13, 14, 20, 21, 23, 36, 37] {
        assert_eq!(peek(at, 1), None, "byte {at}");
    }
    for (at, bits) in [(0, 1), (16, 1), (20, 0x40), (34, 1), (BTH, 0xFF)] {
        assert_eq!(peek(at, bits), Some(0x0012_3456), "byte {at}");
    }
    assert_eq!(CommonFrame::peek_dest_qp(&good[..BTH + 11], ROCE_UDP_PORT), None, "too short");
}

proptest! {
    #![proptest_config(Config::with_cases(8192))]

    /// Damaged, cut, or with bytes behind it.
    #[test]
    fn a_changed_frame_is_read_as_the_general_parsers_read_it(
        (mut repr, payload) in prop::sample::select(packet_types()).prop_flat_map(|(mode, opcode)| (repr_of(mode, opcode), payload(opcode))),
        at in any::<prop::sample::Index>(),
        flip in any::<u8>(),
        cut in 0usize..90,
        more in 0usize..20,
    ) {
        let mut frame = around(&transport(&mut repr, &payload, 0), false);
        let before = frame.clone();
        let at = at.index(frame.len());
        frame[at] ^= flip;
        compare(&frame)?;
        compare_behind(&before, &frame)?;
        frame.resize(frame.len() + more, 0);
        compare(&frame)?;
        compare_behind(&before, &frame)?;
        frame.truncate(frame.len() - cut.min(frame.len()));
        compare(&frame)?;
        compare_behind(&before, &frame)?;
    }
}
