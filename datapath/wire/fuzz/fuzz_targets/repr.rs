//! Any values in the headers of any packet type: emitting never panics, and what was emitted parses
//! to the same values, cut to their widths on the wire.
#![no_main]

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use wire::{
    AckFlags, Ackx, Aeth, AtomicEth, Bth, Deth, Meta, Msn, Opcode, Packet, Psn, Rdw, Repr, Reth, Ssn, Ssnw,
    Syndrome, WireMode,
};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some(repr)) = any_repr(&mut Unstructured::new(bytes)) {
        let mut bytes = vec![0xEE; repr.header_len()];
        repr.emit(&mut bytes);
        bytes.extend([0; 4 + 3]);
        let packet = Packet::parse(&bytes).expect("what was emitted parses");
        assert_eq!(Repr::parse(&packet), repr);
    }
});

/// `None` if the mode has no such packet.
fn any_repr(u: &mut Unstructured<'_>) -> Result<Option<Repr>> {
    let (mode, &opcode) = (*u.choose(&WireMode::ALL)?, u.choose(Opcode::ALL)?);
    let Some(mut r) = Repr::new(mode, opcode) else { return Ok(None) };
    r.bth = Bth {
        solicited: u.arbitrary()?,
        mig_req: u.arbitrary()?,
        pad: if opcode.is_end() { u.int_in_range(0..=3)? } else { 0 },
        pkey: u.arbitrary()?,
        fecn: u.arbitrary()?,
        becn: u.arbitrary()?,
        dest_qp: u24(u)?,
        ack_req: u.arbitrary()?,
        psn: Psn::new(u.arbitrary()?),
        ..r.bth
    };
    r.resv6a = u.int_in_range(0..=63)?;
    r.resv7 = u.int_in_range(0..=127)?;
    standard(&mut r, u)?;
    srnic(&mut r, u)?;
    Ok(Some(r))
}

fn standard(r: &mut Repr, u: &mut Unstructured<'_>) -> Result<()> {
    if let Some(reth) = &mut r.reth {
        *reth = Reth { va: u.arbitrary()?, rkey: u.arbitrary()?, dma_len: u.arbitrary()? };
    }
    if let Some(aeth) = &mut r.aeth {
        *aeth = Aeth { syndrome: Syndrome::from_u8(u.arbitrary()?), msn: u24(u)? };
    }
    if let Some(imm) = &mut r.imm {
        *imm = u.arbitrary()?;
    }
    if let Some(rkey) = &mut r.ieth {
        *rkey = u.arbitrary()?;
    }
    if let Some(atomic) = &mut r.atomic_eth {
        let (va, rkey) = (u.arbitrary()?, u.arbitrary()?);
        *atomic = AtomicEth { va, rkey, swap_add: u.arbitrary()?, compare: u.arbitrary()? };
    }
    if let Some(original) = &mut r.atomic_ack {
        *original = u.arbitrary()?;
    }
    if let Some(deth) = &mut r.deth {
        *deth = Deth { qkey: u.arbitrary()?, src_qp: u24(u)? };
        r.deth_resv = u.arbitrary()?;
    }
    Ok(())
}

fn srnic(r: &mut Repr, u: &mut Unstructured<'_>) -> Result<()> {
    if let Some(meta) = &mut r.meta {
        *meta = Meta { msn: Msn::new(u.arbitrary()?), offset: u.arbitrary()? };
    }
    if let Some(ssnw) = &mut r.ssnw {
        *ssnw = Ssnw { offset_hi: u.arbitrary()?, ssn: Ssn::new(u.arbitrary()?) };
    }
    if let Some(rdw) = &mut r.rdw {
        *rdw = Rdw { rslot: u.arbitrary()?, rpsn_start: Psn::new(u.arbitrary()?) };
    }
    if let Some(ackx) = &mut r.ackx {
        let (flags, sack_psn) = (AckFlags(u.arbitrary()?), Psn::new(u.arbitrary()?));
        *ackx = Ackx { flags, sack_psn, ce_cnt: u.arbitrary()?, ack_delay: u.arbitrary()? };
        if flags.contains(AckFlags::BITMAP) {
            r.sackb = Some(u.arbitrary()?);
        }
    }
    Ok(())
}

fn u24(u: &mut Unstructured<'_>) -> Result<u32> {
    u.int_in_range(0..=0x00FF_FFFF)
}
