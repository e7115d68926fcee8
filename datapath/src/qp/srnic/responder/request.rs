//! Request packets of the SRNIC dialect: what it says in each of them.

use super::read;
use crate::qp::responder::RequestPacket;
use wire::{CommonFrame, Ecn, Kind, Meta, Packet, Reth, Ssnw};

impl<'a> RequestPacket<'a> {
    /// `None` if it is not a request of the SRNIC dialect.
    #[inline(always)]
    pub fn new(packet: &Packet<'a>, ce: bool) -> Option<Self> {
        let opcode = packet.opcode();
        let meta = packet.meta()?;
        let request = match opcode.kind() {
            Kind::Send | Kind::Write => None,
            Kind::ReadRequest | Kind::Atomic => read::parse(*packet),
            _ => return None,
        };
        let ssnw = packet.ssnw();
        let (offset, ssn) = (meta.index(ssnw), ssnw.map(|ssnw| ssnw.ssn));
        Some(Self { offset, ssn, ce, request, ..Self::of_packet(packet, meta) })
    }

    /// A packet of a WRITE with nothing but data.
    #[inline(always)]
    pub fn of_write(frame: &CommonFrame<'_>, reth: Reth, meta: Meta, payload: &'a [u8]) -> Self {
        Self { reth: Some(reth), ..Self::of_common(frame, Kind::Write, meta, payload) }
    }

    /// A packet of a SEND with nothing but data.
    #[inline(always)]
    pub fn of_send(frame: &CommonFrame<'_>, meta: Meta, ssnw: Ssnw, payload: &'a [u8]) -> Self {
        let offset = meta.index(Some(ssnw));
        Self { ssn: Some(ssnw.ssn), offset, ..Self::of_common(frame, Kind::Send, meta, payload) }
    }

    #[inline(always)]
    fn of_common(frame: &CommonFrame<'_>, kind: Kind, meta: Meta, payload: &'a [u8]) -> Self {
        Self {
            kind,
            position: frame.position(),
            psn: frame.psn(),
            meta,
            offset: meta.index(None),
            ssn: None,
            reth: None,
            imm: None,
            invalidates: false,
            ack_req: frame.ack_req(),
            solicited: frame.solicited(),
            ce: frame.ecn() == Ecn::Ce,
            payload,
            request: None,
        }
    }
}
