//! The base transport header (protocol.md 1.2).

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes::{self, MASK24, word};
use crate::{Opcode, Psn, WireMode};

pub(crate) const SOLICITED: u8 = 0x80;
pub(crate) const MIG_REQ: u8 = 0x40;
pub(crate) const PAD: u8 = 0x30;
pub(crate) const PAD_SHIFT: u32 = 4;
pub(crate) const TVER: u8 = 0x0f;
pub(crate) const FECN: u8 = 0x80;
pub(crate) const BECN: u8 = 0x40;
pub(crate) const RESV6A: u8 = 0x3f;
pub(crate) const ACK_REQ: u8 = 0x80;
pub(crate) const RESV7: u8 = 0x7f;

/// The 12 bytes as they lie on the wire.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawBth {
    pub opcode: u8,
    /// SE, MigReq, PadCnt, TVer.
    pub flags: u8,
    pub pkey: U16,
    /// FECN, BECN, Resv6a, then 24 bits of DestQP.
    pub ecn_dest_qp: U32,
    /// AckReq, Resv7, then 24 bits of PSN.
    pub ack_psn: U32,
}

/// Where the word with PSN and acknowledge request is.
pub(crate) const ACK_PSN: usize = core::mem::offset_of!(RawBth, ack_psn);

/// The fields of a BTH. Reserved bits are sent as zero; [`Repr`](crate::Repr) keeps those that were
/// received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bth {
    /// Opcode.
    pub opcode: Opcode,
    /// Transport version, 4 bits: [`WireMode::tver`] of the queue pair's mode.
    pub tver: u8,
    /// Solicited event.
    pub solicited: bool,
    /// Migration request.
    pub mig_req: bool,
    /// Pad bytes between payload and ICRC, 0 to 3.
    pub pad: u8,
    /// Partition key.
    pub pkey: u16,
    /// Forward congestion notification.
    pub fecn: bool,
    /// Backward congestion notification.
    pub becn: bool,
    /// Destination QPN, 24 bits.
    pub dest_qp: u32,
    /// Acknowledge request.
    pub ack_req: bool,
    /// Packet sequence number.
    pub psn: Psn,
}

impl Bth {
    /// Bytes on the wire.
    pub const LEN: usize = size_of::<RawBth>();

    /// A BTH of this opcode in this mode, with the default P_Key and everything else zero.
    #[inline]
    #[must_use]
    pub const fn new(mode: WireMode, opcode: Opcode) -> Self {
        Self {
            opcode,
            tver: mode.tver(),
            solicited: false,
            mig_req: false,
            pad: 0,
            pkey: DEFAULT_PKEY,
            fecn: false,
            becn: false,
            dest_qp: 0,
            ack_req: false,
            psn: Psn::new(0),
        }
    }

    /// Reads a BTH; `None` if `buf` is shorter than [`Bth::LEN`] or the opcode is unknown.
    #[inline]
    #[must_use]
    pub fn parse(buf: &[u8]) -> Option<Self> {
        let raw: RawBth = bytes::read(buf)?;
        Some(Self::from_raw(&raw, Opcode::from_u8(raw.opcode)?))
    }

    /// Everything but the opcode, which the caller has looked up.
    #[inline]
    pub(crate) fn from_raw(raw: &RawBth, opcode: Opcode) -> Self {
        let (ecn, ack) = (bytes::high(raw.ecn_dest_qp.get()), bytes::high(raw.ack_psn.get()));
        Self {
            opcode,
            tver: raw.flags & TVER,
            solicited: raw.flags & SOLICITED != 0,
            mig_req: raw.flags & MIG_REQ != 0,
            pad: (raw.flags & PAD) >> PAD_SHIFT,
            pkey: raw.pkey.get(),
            fecn: ecn & FECN != 0,
            becn: ecn & BECN != 0,
            dest_qp: raw.ecn_dest_qp.get() & MASK24,
            ack_req: ack & ACK_REQ != 0,
            psn: Psn::new(raw.ack_psn.get()),
        }
    }

    /// The bytes, with these reserved bits.
    #[inline]
    pub(crate) fn to_raw(self, resv6a: u8, resv7: u8) -> RawBth {
        let bit = |on: bool, mask: u8| if on { mask } else { 0 };
        let flags = bit(self.solicited, SOLICITED)
            | bit(self.mig_req, MIG_REQ)
            | (self.pad << PAD_SHIFT) & PAD
            | self.tver & TVER;
        let ecn = bit(self.fecn, FECN) | bit(self.becn, BECN) | resv6a & RESV6A;
        let ack = bit(self.ack_req, ACK_REQ) | resv7 & RESV7;
        RawBth {
            opcode: self.opcode as u8,
            flags,
            pkey: U16::new(self.pkey),
            ecn_dest_qp: U32::new(word(ecn, self.dest_qp)),
            ack_psn: U32::new(word(ack, self.psn.get())),
        }
    }
}

/// The default partition, full member (protocol.md 1.6).
pub const DEFAULT_PKEY: u16 = 0xFFFF;

/// The PadCnt of a payload: the bytes that bring it to a multiple of four (protocol.md 1.2).
#[inline]
#[must_use]
pub const fn pad_of(payload_len: usize) -> u8 {
    (payload_len.wrapping_neg() & 3).to_le_bytes()[0]
}

/// Writes `bth` to the front of `buf`. Fields wider than their bits are truncated.
///
/// # Panics
/// If `buf` is shorter than [`Bth::LEN`].
#[inline]
#[track_caller]
pub fn emit(buf: &mut [u8], bth: &Bth) {
    if !bytes::write(&bth.to_raw(0, 0), buf) {
        bytes::short("BTH");
    }
}
