//! A request packet, as the responder sees it.

use super::report::EndOfMessage;
use crate::qp::Qpc;
use crate::stream::{ResponseRequest, SlotKind};
use wire::{Kind, Meta, Packet, Position, Psn, Reth, Ssn};

/// What the responder needs of a request packet whose ICRC holds.
#[derive(Clone, Copy)]
pub(crate) struct RequestPacket<'a> {
    pub kind: Kind,
    pub position: Position,
    pub psn: Psn,
    pub meta: Meta,
    /// Index of the packet in its message, in full width.
    pub offset: u32,
    pub ssn: Option<Ssn>,
    pub reth: Option<Reth>,
    /// Immediate data, or the key to invalidate.
    pub imm: Option<u32>,
    /// `imm` is the key.
    pub invalidates: bool,
    pub ack_req: bool,
    pub solicited: bool,
    pub ce: bool,
    pub payload: &'a [u8],
    /// What a READ or atomic asks for.
    pub request: Option<ResponseRequest>,
}

impl<'a> RequestPacket<'a> {
    /// What packets of both dialects say, of the message and packet `meta`.
    #[inline(always)]
    pub(in crate::qp) fn of_packet(packet: &Packet<'a>, meta: Meta) -> Self {
        let opcode = packet.opcode();
        Self {
            kind: opcode.kind(),
            position: opcode.position(),
            psn: packet.psn(),
            meta,
            offset: 0,
            ssn: None,
            reth: packet.reth(),
            imm: packet.imm().or_else(|| packet.ieth()),
            invalidates: opcode.has_inv(),
            ack_req: packet.ack_req(),
            solicited: packet.solicited(),
            ce: false,
            payload: packet.payload(),
            request: None,
        }
    }

    /// A packet of a dialect that says less in each: packet `index` of the message in progress,
    /// whose receive is the next one. Of a WRITE, `reth` is what is left of it.
    pub(in crate::qp) fn in_order(qpc: &Qpc, packet: &Packet<'a>, index: u32, reth: Option<Reth>) -> Self {
        let this = Self::of_packet(packet, Meta { msn: qpc.rsp.msn(), offset: 0 });
        let ssn = this.consumes_receive().then_some(qpc.rsp.ssn);
        Self { offset: index, ssn, reth: this.reth.or(reth), ..this }
    }

    /// Bytes of the payload.
    pub(in crate::qp) fn len(&self) -> u32 {
        u32::try_from(self.payload.len()).unwrap_or(u32::MAX)
    }

    /// The first packet of its message.
    #[inline(always)]
    pub const fn is_start(&self) -> bool {
        matches!(self.position, Position::First | Position::Only)
    }

    /// The last packet of its message.
    #[inline(always)]
    pub const fn is_end(&self) -> bool {
        matches!(self.position, Position::Last | Position::Only)
    }

    /// Whether the packet needs a receive: every SEND, and the end of a WRITE with immediate.
    #[inline(always)]
    pub const fn consumes_receive(&self) -> bool {
        match self.kind {
            Kind::Send => true,
            Kind::Write => self.imm.is_some(),
            _ => false,
        }
    }

    /// The kind of its message.
    #[inline(always)]
    pub(in crate::qp) const fn slot_kind(&self) -> SlotKind {
        match self.kind {
            Kind::Write => SlotKind::Write,
            Kind::ReadRequest | Kind::Atomic => SlotKind::Read,
            _ => SlotKind::Send,
        }
    }

    /// Bytes of the message up to and with this packet. Saturates: an absurd offset of a hostile
    /// WRITE moves no memory.
    #[inline(always)]
    pub(in crate::qp) fn message_len(&self, pmtu: u16) -> u32 {
        let before = self.offset.saturating_mul(pmtu.into());
        before.saturating_add(u32::try_from(self.payload.len()).unwrap_or(u32::MAX))
    }

    /// What is reported of its message, if this is the end.
    #[inline(always)]
    pub(in crate::qp) fn end_of_message(&self, pmtu: u16) -> EndOfMessage {
        EndOfMessage {
            kind: self.slot_kind(),
            consumes_receive: self.consumes_receive(),
            imm: self.imm,
            invalidates: self.invalidates,
            solicited: self.solicited,
            byte_len: self.message_len(pmtu),
        }
    }
}
