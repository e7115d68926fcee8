//! The frames that nearly all are, taken apart by loads at fixed offsets: no VLAN tag, IPv4 without
//! options, and in it a WRITE or SEND of the SRNIC dialect with nothing but its data, or an ACK
//! without a bitmap.

use core::ops::Range;

use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Ecn;
use super::raw::{self, Ethernet, Ipv4, Udp};
use crate::bth::{self, RawBth};
use crate::bytes::{self, MASK24};
use crate::emit::ICRC_LEN;
use crate::{Ackx, Aeth, Bth, Kind, Meta, Opcode, Position, Psn, Reth, RxFrame, Ssnw, Transport, WireMode};

/// What stands in front of everything that differs between opcodes.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Head {
    ethernet: Ethernet,
    ip: Ipv4,
    udp: Udp,
    bth: RawBth,
}

/// IPv4, UDP and BTH.
pub(super) const BODY: usize = raw::IPV4 + raw::UDP + Bth::LEN;

/// A frame of the common kind, as far as all of them are alike. That a frame is none says nothing
/// about it: [`Datagram`](super::Datagram) and [`Packet`](crate::Packet) take all frames, and know
/// what is wrong with one.
#[derive(Clone, Copy)]
pub struct CommonFrame<'a> {
    pub(super) head: &'a Head,
    /// What follows it where nobody changes it.
    pub(super) behind: &'a [u8],
    pub(super) from_l3: &'a [u8],
    pub(super) opcode: Opcode,
}

/// The contents of a common frame behind the BTH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body<'a> {
    /// A packet of a WRITE.
    Write {
        /// Where its payload goes.
        reth: Reth,
        /// Message and packet.
        meta: Meta,
        /// Without pad bytes.
        payload: &'a [u8],
    },
    /// A packet of a SEND.
    Send {
        /// Message and packet.
        meta: Meta,
        /// Receive, and the rest of the packet's index.
        ssnw: Ssnw,
        /// Without pad bytes.
        payload: &'a [u8],
    },
    /// An acknowledgement.
    Ack {
        /// What is said.
        aeth: Aeth,
        /// Of which packet.
        meta: Meta,
        /// The rest.
        ackx: Ackx,
    },
}

impl<'a> CommonFrame<'a> {
    /// Recognises a datagram to UDP port `udp_port` with a packet of the SRNIC dialect in `frame`,
    /// if its opcode has a [`Body`]. Every check of [`Datagram::parse`](super::Datagram::parse) is
    /// made.
    #[inline(always)]
    #[must_use]
    pub fn recognize(frame: RxFrame<'a>, udp_port: u16) -> Option<Self> {
        Self::of_opcode(frame, udp_port, is_common)
    }

    /// As [`CommonFrame::recognize`], whatever the opcode is.
    #[inline(always)]
    #[must_use]
    pub fn recognize_any(frame: RxFrame<'a>, udp_port: u16) -> Option<Self> {
        Self::of_opcode(frame, udp_port, |_| true)
    }

    #[inline(always)]
    fn of_opcode(frame: RxFrame<'a>, udp_port: u16, fits: impl Fn(Opcode) -> bool) -> Option<Self> {
        let (head, behind) = Head::ref_from_prefix(frame.head()).ok()?;
        let Head { ethernet, ip, udp, bth } = head;
        let opcode = Opcode::from_u8(bth.opcode).filter(|opcode| fits(*opcode))?;
        let common = ethernet.ethertype == U16::new(raw::ETHERTYPE_IPV4)
            && ip.version_ihl == raw::IPV4_VERSION_IHL
            && ip.protocol == raw::PROTOCOL_UDP
            && ip.flags_fragment.get() & raw::IPV4_FRAGMENT == 0
            && udp.dst_port == U16::new(udp_port)
            && bth.flags & bth::TVER == WireMode::Srnic.tver();
        let len = usize::from(ip.total_len.get());
        if !common || usize::from(udp.len.get()) + raw::IPV4 != len || !raw::is_intact(ip) {
            return None;
        }
        let from_l3 = frame.bytes().get(raw::ETHERNET..raw::ETHERNET + len)?;
        Some(Self { head, behind, from_l3, opcode })
    }

    /// What its packet does.
    #[inline(always)]
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.opcode.kind()
    }

    /// BTH to ICRC, as indexes into the frame.
    #[inline(always)]
    #[must_use]
    pub const fn transport(&self) -> Range<usize> {
        raw::ETHERNET + raw::IPV4 + raw::UDP..raw::ETHERNET + self.from_l3.len()
    }

    /// The destination QPN of what looks like a packet to UDP port `udp_port` without VLAN tag,
    /// over IPv4 without options: whom it is for, before anything about it has been checked.
    #[inline]
    #[must_use]
    pub fn peek_dest_qp(frame: RxFrame<'_>, udp_port: u16) -> Option<u32> {
        let (Head { ethernet, ip, udp, bth }, _) = Head::ref_from_prefix(frame.head()).ok()?;
        let looks_so = ethernet.ethertype == U16::new(raw::ETHERTYPE_IPV4)
            && ip.version_ihl == raw::IPV4_VERSION_IHL
            && ip.protocol == raw::PROTOCOL_UDP
            && ip.flags_fragment.get() & raw::IPV4_FRAGMENT == 0
            && udp.dst_port == U16::new(udp_port);
        looks_so.then(|| bth.ecn_dest_qp.get() & MASK24)
    }

    /// The part behind the BTH, if it is of a common kind, too, and its lengths are right.
    #[inline(always)]
    #[must_use]
    pub fn body(&self) -> Option<Body<'a>> {
        match self.opcode.kind() {
            Kind::Write => {
                let (header, rest) = self.split::<{ Reth::LEN + Meta::LEN }>()?;
                let meta = Meta::parse(&header[Reth::LEN..]);
                Some(Body::Write { reth: Reth::parse(header), meta, payload: self.payload(rest)? })
            }
            Kind::Send => {
                let (header, rest) = self.split::<{ Meta::LEN + Ssnw::LEN }>()?;
                let ssnw = Ssnw::parse(&header[Meta::LEN..]);
                Some(Body::Send { meta: Meta::parse(header), ssnw, payload: self.payload(rest)? })
            }
            Kind::Ack => {
                let (header, rest) = self.split::<{ Aeth::LEN + Meta::LEN + Ackx::LEN }>()?;
                let (aeth, ackx) = (Aeth::parse(header), Ackx::parse(&header[Aeth::LEN + Meta::LEN..]));
                let common =
                    rest.is_empty() && self.pad() == 0 && !ackx.flags.contains(crate::AckFlags::BITMAP);
                common.then(|| Body::Ack { aeth, meta: Meta::parse(&header[Aeth::LEN..]), ackx })
            }
            _ => None,
        }
    }

    /// The headers behind the BTH, of `LEN` bytes, and what lies between them and the ICRC.
    #[inline(always)]
    pub(super) fn split<const LEN: usize>(&self) -> Option<(&'a [u8; LEN], &'a [u8])> {
        let rest = self.from_l3.get(BODY + LEN..self.from_l3.len().checked_sub(ICRC_LEN)?)?;
        Some((self.behind.first_chunk()?, rest))
    }

    /// `rest` without the pad, which the end of a message has at most.
    #[inline]
    fn payload(&self, rest: &'a [u8]) -> Option<&'a [u8]> {
        let pad = self.pad();
        if pad == 0 { Some(rest) } else { padded(rest, pad).filter(|_| self.opcode.is_end()) }
    }

    #[inline]
    pub(super) fn pad(&self) -> usize {
        usize::from((self.head.bth.flags & bth::PAD) >> bth::PAD_SHIFT)
    }

    /// IP header to ICRC, which is not checked yet.
    #[inline]
    #[must_use]
    pub const fn from_l3(&self) -> &'a [u8] {
        self.from_l3
    }

    /// IP source and destination.
    #[inline]
    pub(super) const fn addresses(&self) -> (&'a [u8; 4], &'a [u8; 4]) {
        (&self.head.ip.src, &self.head.ip.dst)
    }

    /// ECN bits.
    #[inline]
    #[must_use]
    pub const fn ecn(&self) -> Ecn {
        Ecn::of_tos(self.head.ip.tos)
    }

    /// Where the packet stands in its message.
    #[inline]
    #[must_use]
    pub const fn position(&self) -> Position {
        self.opcode.position()
    }

    /// Partition key.
    #[inline]
    #[must_use]
    pub fn pkey(&self) -> u16 {
        self.head.bth.pkey.get()
    }

    /// Destination QPN.
    #[inline]
    #[must_use]
    pub fn dest_qp(&self) -> u32 {
        self.head.bth.ecn_dest_qp.get() & MASK24
    }

    /// Packet sequence number.
    #[inline]
    #[must_use]
    pub fn psn(&self) -> Psn {
        Psn::new(self.head.bth.ack_psn.get())
    }

    /// Acknowledge request.
    #[inline]
    #[must_use]
    pub fn ack_req(&self) -> bool {
        bytes::high(self.head.bth.ack_psn.get()) & bth::ACK_REQ != 0
    }

    /// Solicited event.
    #[inline]
    #[must_use]
    pub const fn solicited(&self) -> bool {
        self.head.bth.flags & bth::SOLICITED != 0
    }
}

/// Returns `true` if this is an opcode of [`Body`]: asked first, so that the others lose no time
/// here. Only RC has an SRNIC form.
#[inline]
const fn is_common(opcode: Opcode) -> bool {
    matches!(opcode.transport(), Transport::Rc)
        && matches!(opcode.kind(), Kind::Write | Kind::Send | Kind::Ack)
        && !opcode.has_imm()
        && !opcode.has_inv()
}

/// `rest` without `pad` bytes at its end, if it has them.
#[inline(never)]
fn padded(rest: &[u8], pad: usize) -> Option<&[u8]> {
    rest.get(..rest.len().checked_sub(pad)?)
}
