//! The extension words of the SRNIC dialect (protocol.md 2.2).

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes::{high, wire_header, word};
use crate::{Msn, Psn, Ssn};

/// META: which message and which packet of it; echoed by responses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Meta {
    /// Number of the send-queue message, modulo 2^16.
    pub msn: Msn,
    /// Index of the packet in its message, low 16 bits.
    pub offset: u16,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawMeta {
    msn: U16,
    offset: U16,
}

impl From<RawMeta> for Meta {
    #[inline]
    fn from(raw: RawMeta) -> Self {
        Self { msn: Msn::new(u32::from(raw.msn.get())), offset: raw.offset.get() }
    }
}

impl From<Meta> for RawMeta {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "an Msn holds 16 bits")]
    fn from(h: Meta) -> Self {
        Self { msn: U16::new(h.msn.get() as u16), offset: U16::new(h.offset) }
    }
}

wire_header!(Meta, RawMeta);

impl Meta {
    /// The META of packet `index` of message `msn`. It has the low 16 bits of the index;
    /// [`Ssnw::of`] has those above.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the low 16 bits are meant")]
    pub const fn of(msn: Msn, index: u32) -> Self {
        Self { msn, offset: index as u16 }
    }

    /// Index of the packet in its message: 24 bits with an SSNW, else the low 16 of them.
    #[inline]
    #[must_use]
    pub fn index(self, ssnw: Option<Ssnw>) -> u32 {
        ssnw.map_or(0, |ssnw| u32::from(ssnw.offset_hi)) << 16 | u32::from(self.offset)
    }
}

/// SSNW: the receive-message number, and the upper bits of the packet index.
///
/// A READ response carries RSLOT in the `ssn` field (protocol.md 2.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ssnw {
    /// Bits 23..16 of the packet index whose low 16 bits are [`Meta::offset`].
    pub offset_hi: u8,
    /// Number of the receive-consuming message of this direction.
    pub ssn: Ssn,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawSsnw {
    offset_hi_ssn: U32,
}

impl From<RawSsnw> for Ssnw {
    #[inline]
    fn from(raw: RawSsnw) -> Self {
        let word = raw.offset_hi_ssn.get();
        Self { offset_hi: high(word), ssn: Ssn::new(word) }
    }
}

impl From<Ssnw> for RawSsnw {
    #[inline]
    fn from(h: Ssnw) -> Self {
        Self { offset_hi_ssn: U32::new(word(h.offset_hi, h.ssn.get())) }
    }
}

wire_header!(Ssnw, RawSsnw);

impl Ssnw {
    /// The SSNW of packet `index` of its message. The index has 24 bits; [`Meta::of`] has the
    /// low 16.
    #[inline]
    #[must_use]
    pub const fn of(index: u32, ssn: Ssn) -> Self {
        let [_, _, offset_hi, _] = index.to_le_bytes();
        Self { offset_hi, ssn }
    }
}

/// RDW: where a READ or ATOMIC request wants its responses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rdw {
    /// Responder slot.
    pub rslot: u8,
    /// First PSN of the responses, in the response stream's space.
    pub rpsn_start: Psn,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRdw {
    rslot_rpsn: U32,
}

impl From<RawRdw> for Rdw {
    #[inline]
    fn from(raw: RawRdw) -> Self {
        let word = raw.rslot_rpsn.get();
        Self { rslot: high(word), rpsn_start: Psn::new(word) }
    }
}

impl From<Rdw> for RawRdw {
    #[inline]
    fn from(h: Rdw) -> Self {
        Self { rslot_rpsn: U32::new(word(h.rslot, h.rpsn_start.get())) }
    }
}

wire_header!(Rdw, RawRdw);

/// ACKX.FLAGS. Bit 7 is reserved: sent as zero, ignored, kept when a packet is re-emitted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub struct AckFlags(pub u8);

impl AckFlags {
    /// Acknowledges the response stream: this is a READ-ACK.
    pub const RESPONSE_STREAM: Self = Self(1 << 0);
    /// SACK_PSN is valid. Clear in a NACK: resend all.
    pub const SACK_VALID: Self = Self(1 << 1);
    /// SACKB follows.
    pub const BITMAP: Self = Self(1 << 2);
    /// META echoes the packet at SACK_PSN, or the one that triggered the ACK.
    pub const META_VALID: Self = Self(1 << 3);
    /// A duplicate triggered this ACK.
    pub const DUPLICATE: Self = Self(1 << 4);
    /// SACKB looks back: bit i stands for `SACK_PSN - 1 - i`, not for the PSNs above the cumulative
    /// one.
    pub const BACKWARD: Self = Self(1 << 5);
    /// Since the acknowledgement before, CE_CNT counts packets that no switch marked: the host of
    /// who acknowledges did, as it falls behind (protocol.md 2.2).
    pub const HOST: Self = Self(1 << 6);

    /// No flag.
    #[inline]
    #[must_use]
    pub const fn empty() -> Self {
        Self(0)
    }

    /// True if every flag of `other` is set.
    #[inline]
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags and those of `other`.
    #[inline]
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These flags, with those of `other` set or cleared.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Self, on: bool) -> Self {
        if on { Self(self.0 | other.0) } else { Self(self.0 & !other.0) }
    }
}

impl core::ops::BitOr for AckFlags {
    type Output = Self;

    #[inline]
    fn bitor(self, rhs: Self) -> Self {
        self.union(rhs)
    }
}

impl core::ops::BitOrAssign for AckFlags {
    #[inline]
    fn bitor_assign(&mut self, rhs: Self) {
        *self = self.union(rhs);
    }
}

/// ACKX: what an SRNIC ACK says beyond its AETH.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ackx {
    /// Flags; [`AckFlags::BITMAP`] makes SACKB follow.
    pub flags: AckFlags,
    /// The selectively acknowledged PSN, if [`AckFlags::SACK_VALID`].
    pub sack_psn: Psn,
    /// Running count of CE-marked data packets of the stream, modulo 2^16.
    pub ce_cnt: u16,
    /// Longest time that the packet can have spent at the host before this ACK, in units of
    /// [`ACK_DELAY_UNIT_NS`], saturating (protocol.md 2.2).
    pub ack_delay: u16,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawAckx {
    flags_sack_psn: U32,
    ce_cnt: U16,
    ack_delay: U16,
}

impl From<RawAckx> for Ackx {
    #[inline]
    fn from(raw: RawAckx) -> Self {
        let word = raw.flags_sack_psn.get();
        Self {
            flags: AckFlags(high(word)),
            sack_psn: Psn::new(word),
            ce_cnt: raw.ce_cnt.get(),
            ack_delay: raw.ack_delay.get(),
        }
    }
}

impl From<Ackx> for RawAckx {
    #[inline]
    fn from(h: Ackx) -> Self {
        Self {
            flags_sack_psn: U32::new(word(h.flags.0, h.sack_psn.get())),
            ce_cnt: U16::new(h.ce_cnt),
            ack_delay: U16::new(h.ack_delay),
        }
    }
}

wire_header!(Ackx, RawAckx);

impl Ackx {
    /// [`Ackx::ack_delay`] in nanoseconds.
    #[inline]
    #[must_use]
    pub const fn ack_delay_ns(&self) -> u32 {
        self.ack_delay as u32 * ACK_DELAY_UNIT_NS
    }
}

/// Nanoseconds of one unit of [`Ackx::ack_delay`].
pub const ACK_DELAY_UNIT_NS: u32 = 64;

/// A host delay as [`Ackx::ack_delay`] carries it: rounded down, saturating.
#[inline]
#[must_use]
pub const fn ack_delay_of_ns(delay_ns: u64) -> u16 {
    let units = delay_ns / ACK_DELAY_UNIT_NS as u64;
    if units > u16::MAX as u64 {
        u16::MAX
    } else {
        let low = units.to_le_bytes();
        u16::from_le_bytes([low[0], low[1]])
    }
}
