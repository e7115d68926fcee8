//! Proptest strategies of packets: every field of every header takes every value.

use proptest::prelude::*;
use wire::{
    AckFlags, Ackx, Aeth, AtomicEth, Bth, Deth, Kind, Layout, Meta, Msn, Opcode, Psn, Rdw, Repr, Reth, Ssn,
    Ssnw, Syndrome, WireMode,
};

use crate::packets::packet_types;

const MAX24: u32 = 0x00FF_FFFF;

/// Any headers of any packet type. PadCnt is zero: the payload decides it.
pub fn any_repr() -> impl Strategy<Value = Repr> {
    prop::sample::select(packet_types()).prop_flat_map(|(mode, opcode)| repr_of(mode, opcode))
}

/// Any headers of this packet type.
pub fn repr_of(mode: WireMode, opcode: Opcode) -> impl Strategy<Value = Repr> {
    let layout = Layout::of(mode, opcode).unwrap();
    (bth(mode, opcode), standard(layout), srnic(layout)).prop_map(move |(bth, standard, srnic)| {
        let ((bth, resv6a, resv7), (reth, aeth, imm, ieth, atomic_eth, atomic_ack, deth)) = (bth, standard);
        let (meta, ssnw, rdw, ackx, bitmap) = srnic;
        let sackb = ackx.filter(|ackx| ackx.flags.contains(AckFlags::BITMAP)).map(|_| bitmap);
        Repr {
            mode,
            bth,
            resv6a,
            resv7,
            reth,
            aeth,
            imm,
            ieth,
            atomic_eth,
            atomic_ack,
            deth: deth.map(|(deth, _)| deth),
            deth_resv: deth.map_or(0, |(_, resv)| resv),
            meta,
            ssnw,
            rdw,
            ackx,
            sackb,
        }
    })
}

/// A payload that this packet may carry: none for those that have none.
pub fn payload(opcode: Opcode) -> impl Strategy<Value = Vec<u8>> {
    let step: usize = if opcode.is_end() { 1 } else { 4 };
    let longest = match opcode.kind() {
        Kind::Send | Kind::Write | Kind::ReadResponse => 300,
        Kind::Cnp => 16,
        Kind::ReadRequest | Kind::Ack | Kind::AtomicAck | Kind::Atomic => 0,
    };
    (0..=longest / step).prop_flat_map(move |n| prop::collection::vec(any::<u8>(), n * step))
}

fn bth(mode: WireMode, opcode: Opcode) -> impl Strategy<Value = (Bth, u8, u8)> {
    (any::<[bool; 5]>(), any::<u16>(), 0..=MAX24, 0..=MAX24, 0..64u8, 0..128u8).prop_map(
        move |([solicited, mig_req, fecn, becn, ack_req], pkey, dest_qp, psn, resv6a, resv7)| {
            let psn = Psn::new(psn);
            let tver = mode.tver();
            let pad = 0;
            let bth = Bth { opcode, tver, solicited, mig_req, pad, pkey, fecn, becn, dest_qp, ack_req, psn };
            (bth, resv6a, resv7)
        },
    )
}

type Standard = (
    Option<Reth>,
    Option<Aeth>,
    Option<u32>,
    Option<u32>,
    Option<AtomicEth>,
    Option<u64>,
    Option<(Deth, u8)>,
);

fn standard(l: &Layout) -> impl Strategy<Value = Standard> + use<> {
    let reth = any::<(u64, u32, u32)>().prop_map(|(va, rkey, dma_len)| Reth { va, rkey, dma_len });
    let aeth = (any::<u8>(), 0..=MAX24)
        .prop_map(|(syndrome, msn)| Aeth { syndrome: Syndrome::from_u8(syndrome), msn });
    let atomic_eth = any::<(u64, u32, u64, u64)>().prop_map(|(va, rkey, swap_add, compare)| AtomicEth {
        va,
        rkey,
        swap_add,
        compare,
    });
    let deth =
        (any::<u32>(), 0..=MAX24, any::<u8>()).prop_map(|(qkey, src_qp, resv)| (Deth { qkey, src_qp }, resv));
    (
        present(l.reth, reth),
        present(l.aeth, aeth),
        present(l.imm, any::<u32>()),
        present(l.ieth, any::<u32>()),
        present(l.atomic_eth, atomic_eth),
        present(l.atomic_ack, any::<u64>()),
        present(l.deth, deth),
    )
}

type Srnic = (Option<Meta>, Option<Ssnw>, Option<Rdw>, Option<Ackx>, u64);

fn srnic(l: &Layout) -> impl Strategy<Value = Srnic> + use<> {
    let meta = any::<(u16, u16)>().prop_map(|(msn, offset)| Meta { msn: Msn::new(msn.into()), offset });
    let ssnw = (any::<u8>(), 0..=MAX24).prop_map(|(offset_hi, ssn)| Ssnw { offset_hi, ssn: Ssn::new(ssn) });
    let rdw = (any::<u8>(), 0..=MAX24).prop_map(|(rslot, psn)| Rdw { rslot, rpsn_start: Psn::new(psn) });
    let ackx = (any::<u8>(), 0..=MAX24, any::<u16>(), any::<u16>()).prop_map(
        |(flags, sack_psn, ce_cnt, ack_delay)| Ackx {
            flags: AckFlags(flags),
            sack_psn: Psn::new(sack_psn),
            ce_cnt,
            ack_delay,
        },
    );
    (present(l.meta, meta), present(l.ssnw, ssnw), present(l.rdw, rdw), present(l.ackx, ackx), any::<u64>())
}

/// `Some` of the strategy's value if the layout has the header.
fn present<S: Strategy>(offset: u8, header: S) -> impl Strategy<Value = Option<S::Value>> {
    header.prop_map(move |value| (offset != 0).then_some(value))
}
