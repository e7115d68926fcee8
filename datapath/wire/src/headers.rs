//! Typed access to BTH and extension headers in place.

use zerocopy::FromBytes;
use zerocopy::byteorder::network_endian::{U16, U32, U64};

use crate::bth::{self, RawBth};
use crate::bytes::{self, MASK24, word};
use crate::emit::SACKB_LEN;
use crate::ext::DETH_RESV;
use crate::{
    AckFlags, Ackx, Aeth, AtomicEth, Bth, Deth, Layout, Meta, Opcode, ParseError, Psn, Rdw, Reth, Ssnw,
    WireMode,
};

/// BTH and the headers after it, in a buffer that starts with the BTH.
///
/// [`Headers::new_checked`] makes the only length check; after it each getter is a load at a fixed
/// offset and `None` means that the packet type has no such header.
#[derive(Clone, Copy, Debug)]
pub struct Headers<B> {
    buf: B,
    layout: &'static Layout,
    mode: WireMode,
    len: u8,
}

/// Stands in for a BTH if `B::as_ref` shrinks after the check; unreachable for slices and arrays.
const NO_BTH: RawBth =
    RawBth { opcode: 0, flags: 0, pkey: U16::ZERO, ecn_dest_qp: U32::ZERO, ack_psn: U32::ZERO };

impl<B: AsRef<[u8]>> Headers<B> {
    /// Checks that `buf` holds a BTH of a known dialect and opcode, and all its headers. Bytes
    /// after them are ignored.
    ///
    /// # Errors
    /// [`ParseError::Truncated`], [`ParseError::Version`] or [`ParseError::Opcode`].
    #[inline]
    pub fn new_checked(buf: B) -> Result<Self, ParseError> {
        let bytes = buf.as_ref();
        let Ok((bth, _)) = RawBth::ref_from_prefix(bytes) else {
            return Err(ParseError::Truncated { len: bytes.len(), need: Bth::LEN });
        };
        let tver = bth.flags & bth::TVER;
        let mode = WireMode::from_tver(tver).ok_or(ParseError::Version(tver))?;
        let layout =
            Layout::of_byte(mode, bth.opcode).ok_or(ParseError::Opcode { opcode: bth.opcode, mode })?;
        let len = if layout.ackx == 0 { layout.len } else { layout.len + sackb_len(bytes, layout) };
        if bytes.len() < usize::from(len) {
            return Err(ParseError::Truncated { len: bytes.len(), need: usize::from(len) });
        }
        Ok(Self { buf, layout, mode, len })
    }

    #[inline]
    fn raw(&self) -> &RawBth {
        RawBth::ref_from_prefix(self.buf.as_ref()).map_or(&NO_BTH, |(raw, _)| raw)
    }

    /// The bytes from a header's offset on; `None` if the header is absent.
    #[inline]
    fn at(&self, offset: u8) -> Option<&[u8]> {
        if offset == 0 { None } else { self.buf.as_ref().get(usize::from(offset)..) }
    }

    /// The layout of this packet's headers.
    #[inline]
    #[must_use]
    pub fn layout(&self) -> &'static Layout {
        self.layout
    }

    /// The dialect, from TVer.
    #[inline]
    #[must_use]
    pub fn mode(&self) -> WireMode {
        self.mode
    }

    /// Bytes of BTH and all headers, SACKB included.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        usize::from(self.len)
    }

    /// The whole BTH.
    #[inline]
    #[must_use]
    pub fn bth(&self) -> Bth {
        Bth::from_raw(self.raw(), self.layout.opcode)
    }

    /// Opcode.
    #[inline]
    #[must_use]
    pub fn opcode(&self) -> Opcode {
        self.layout.opcode
    }

    /// Transport version, 4 bits.
    #[inline]
    #[must_use]
    pub fn tver(&self) -> u8 {
        self.raw().flags & bth::TVER
    }

    /// Solicited event.
    #[inline]
    #[must_use]
    pub fn solicited(&self) -> bool {
        self.raw().flags & bth::SOLICITED != 0
    }

    /// Migration request.
    #[inline]
    #[must_use]
    pub fn mig_req(&self) -> bool {
        self.raw().flags & bth::MIG_REQ != 0
    }

    /// Pad bytes between payload and ICRC, 0 to 3.
    #[inline]
    #[must_use]
    pub fn pad(&self) -> u8 {
        (self.raw().flags & bth::PAD) >> bth::PAD_SHIFT
    }

    /// Partition key.
    #[inline]
    #[must_use]
    pub fn pkey(&self) -> u16 {
        self.raw().pkey.get()
    }

    /// Forward congestion notification.
    #[inline]
    #[must_use]
    pub fn fecn(&self) -> bool {
        self.ecn_byte() & bth::FECN != 0
    }

    /// Backward congestion notification.
    #[inline]
    #[must_use]
    pub fn becn(&self) -> bool {
        self.ecn_byte() & bth::BECN != 0
    }

    /// Destination QPN.
    #[inline]
    #[must_use]
    pub fn dest_qp(&self) -> u32 {
        self.raw().ecn_dest_qp.get() & MASK24
    }

    /// Acknowledge request.
    #[inline]
    #[must_use]
    pub fn ack_req(&self) -> bool {
        self.ack_byte() & bth::ACK_REQ != 0
    }

    /// Packet sequence number.
    #[inline]
    #[must_use]
    pub fn psn(&self) -> Psn {
        Psn::new(self.raw().ack_psn.get())
    }

    /// The reserved 6 bits beside FECN and BECN.
    #[inline]
    #[must_use]
    pub fn resv6a(&self) -> u8 {
        self.ecn_byte() & bth::RESV6A
    }

    /// The reserved 7 bits beside AckReq.
    #[inline]
    #[must_use]
    pub fn resv7(&self) -> u8 {
        self.ack_byte() & bth::RESV7
    }

    #[inline]
    fn ecn_byte(&self) -> u8 {
        bytes::high(self.raw().ecn_dest_qp.get())
    }

    #[inline]
    fn ack_byte(&self) -> u8 {
        bytes::high(self.raw().ack_psn.get())
    }

    /// RETH.
    #[inline]
    #[must_use]
    pub fn reth(&self) -> Option<Reth> {
        Reth::load(self.at(self.layout.reth)?)
    }

    /// AETH.
    #[inline]
    #[must_use]
    pub fn aeth(&self) -> Option<Aeth> {
        Aeth::load(self.at(self.layout.aeth)?)
    }

    /// ImmDt: the immediate.
    #[inline]
    #[must_use]
    pub fn imm(&self) -> Option<u32> {
        bytes::read::<U32>(self.at(self.layout.imm)?).map(U32::get)
    }

    /// IETH: the rkey to invalidate.
    #[inline]
    #[must_use]
    pub fn ieth(&self) -> Option<u32> {
        bytes::read::<U32>(self.at(self.layout.ieth)?).map(U32::get)
    }

    /// AtomicETH.
    #[inline]
    #[must_use]
    pub fn atomic_eth(&self) -> Option<AtomicEth> {
        AtomicEth::load(self.at(self.layout.atomic_eth)?)
    }

    /// AtomicAckETH: the value before the atomic.
    #[inline]
    #[must_use]
    pub fn atomic_ack(&self) -> Option<u64> {
        bytes::read::<U64>(self.at(self.layout.atomic_ack)?).map(U64::get)
    }

    /// DETH.
    #[inline]
    #[must_use]
    pub fn deth(&self) -> Option<Deth> {
        Deth::load(self.at(self.layout.deth)?)
    }

    /// DETH's reserved byte; 0 without a DETH.
    #[inline]
    #[must_use]
    pub fn deth_resv(&self) -> u8 {
        self.at(self.layout.deth).and_then(|deth| deth.get(DETH_RESV).copied()).unwrap_or(0)
    }

    /// META.
    #[inline]
    #[must_use]
    pub fn meta(&self) -> Option<Meta> {
        Meta::load(self.at(self.layout.meta)?)
    }

    /// SSNW.
    #[inline]
    #[must_use]
    pub fn ssnw(&self) -> Option<Ssnw> {
        Ssnw::load(self.at(self.layout.ssnw)?)
    }

    /// RDW.
    #[inline]
    #[must_use]
    pub fn rdw(&self) -> Option<Rdw> {
        Rdw::load(self.at(self.layout.rdw)?)
    }

    /// ACKX.
    #[inline]
    #[must_use]
    pub fn ackx(&self) -> Option<Ackx> {
        Ackx::load(self.at(self.layout.ackx)?)
    }

    /// SACKB: bit i is set if PSN cum+2+i was received.
    #[inline]
    #[must_use]
    pub fn sackb(&self) -> Option<u64> {
        if self.len == self.layout.len {
            return None;
        }
        bytes::read::<U64>(self.at(self.layout.len)?).map(U64::get)
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Headers<B> {
    #[inline]
    fn update(&mut self, change: impl FnOnce(&mut RawBth)) {
        if let Ok((raw, _)) = RawBth::mut_from_prefix(self.buf.as_mut()) {
            change(raw);
        }
    }

    /// Sets the solicited-event bit.
    #[inline]
    pub fn set_solicited(&mut self, on: bool) {
        self.update(|raw| {
            raw.flags = if on { raw.flags | bth::SOLICITED } else { raw.flags & !bth::SOLICITED }
        });
    }

    /// Sets the partition key.
    #[inline]
    pub fn set_pkey(&mut self, pkey: u16) {
        self.update(|raw| raw.pkey = U16::new(pkey));
    }

    /// Sets FECN.
    #[inline]
    pub fn set_fecn(&mut self, on: bool) {
        self.update(|raw| raw.ecn_dest_qp = with_bit(raw.ecn_dest_qp, bth::FECN, on));
    }

    /// Sets BECN.
    #[inline]
    pub fn set_becn(&mut self, on: bool) {
        self.update(|raw| raw.ecn_dest_qp = with_bit(raw.ecn_dest_qp, bth::BECN, on));
    }

    /// Sets the destination QPN, 24 bits.
    #[inline]
    pub fn set_dest_qp(&mut self, qpn: u32) {
        self.update(|raw| raw.ecn_dest_qp = with_low(raw.ecn_dest_qp, qpn));
    }

    /// Sets AckReq.
    #[inline]
    pub fn set_ack_req(&mut self, on: bool) {
        self.update(|raw| raw.ack_psn = with_bit(raw.ack_psn, bth::ACK_REQ, on));
    }

    /// Sets the packet sequence number.
    #[inline]
    pub fn set_psn(&mut self, psn: Psn) {
        self.update(|raw| raw.ack_psn = with_low(raw.ack_psn, psn.get()));
    }
}

/// `field` with `mask` set or cleared in its top byte.
#[inline]
fn with_bit(field: U32, mask: u8, on: bool) -> U32 {
    let bits = word(mask, 0);
    U32::new(if on { field.get() | bits } else { field.get() & !bits })
}

/// `field` with its low 24 bits replaced.
#[inline]
fn with_low(field: U32, low24: u32) -> U32 {
    U32::new(word(bytes::high(field.get()), low24))
}

#[expect(clippy::cast_possible_truncation, reason = "8")]
const SACKB: u8 = SACKB_LEN as u8;

/// Bytes of SACKB in a packet whose layout has ACKX; 0 if the buffer ends before ACKX.FLAGS.
#[inline]
fn sackb_len(bytes: &[u8], layout: &Layout) -> u8 {
    let flags = AckFlags(bytes.get(usize::from(layout.ackx)).copied().unwrap_or(0));
    if flags.contains(AckFlags::BITMAP) { SACKB } else { 0 }
}
