//! The responder: takes request packets, places them in order or out of order, completes messages, acknowledges.

mod acknowledge;
mod emission;
mod followers;
mod middles;
mod place;
mod read;
mod read_acked;
mod recovery;
mod refuse;
mod respond;
mod responses;

pub(crate) use acknowledge::write_ack;
pub(in crate::qp) use acknowledge::write_other;
pub(crate) use followers::take_followers;
pub(crate) use middles::{NextWrite, take_middles};
pub(in crate::qp) use read_acked::{on_read_ack, stop_responses};
pub(crate) use read_acked::{on_response_command, on_response_timer};
pub(crate) use recovery::{RxRecovery, apply_advance, close_recovery};
pub(crate) use respond::transmit_responses;
pub(crate) use responses::{Responses, ResponsesConfig};
// What a Plain responder shares.
pub(in crate::qp) use emission::{EndOfMessage, complete_message};
pub(in crate::qp) use place::place;
pub(in crate::qp) use read::{carry_out, check_operation, operation_of, packets_of_response};
pub(in crate::qp) use refuse::{Refused, refuse_receive, tell_withdrawn};

use super::context::{QpCold, Qpc};
use super::first_packet::takes_packets;
use super::last_word::{Late, say_again};
use super::owed::Arrived;
use super::state::QpState;
use crate::counters::count;
use crate::engine::{ControlKind, ControlPacket, Units};
use crate::sched::SchedFlags;
use crate::stream::{Arrival, ResponseRequest, SlotKind, offset_is};
pub(in crate::qp) use place::DMA_LEN_MAX;
use wire::{CommonFrame, Ecn, Kind, Meta, NakCode, Packet, Position, Psn, Reth, Ssn, Ssnw};

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
    /// `None` if it is not a request of the SRNIC dialect.
    #[inline]
    pub fn new(packet: &Packet<'a>, ce: bool) -> Option<Self> {
        let opcode = packet.opcode();
        let meta = packet.meta()?;
        let request = match opcode.kind() {
            Kind::Send | Kind::Write => None,
            Kind::ReadRequest | Kind::Atomic => read::parse(*packet),
            _ => return None,
        };
        let ssnw = packet.ssnw();
        let high = ssnw.map_or(0, |ssnw| u32::from(ssnw.offset_hi));
        Some(Self {
            kind: opcode.kind(),
            position: opcode.position(),
            psn: packet.psn(),
            meta,
            offset: high << 16 | u32::from(meta.offset),
            ssn: ssnw.map(|ssnw| ssnw.ssn),
            reth: packet.reth(),
            imm: packet.imm().or_else(|| packet.ieth()),
            invalidates: opcode.has_inv(),
            ack_req: packet.ack_req(),
            solicited: packet.solicited(),
            ce,
            payload: packet.payload(),
            request,
        })
    }

    /// A packet of a WRITE with nothing but data.
    #[inline]
    pub fn of_write(frame: &CommonFrame<'_>, reth: Reth, meta: Meta, payload: &'a [u8]) -> Self {
        let reth = Some(reth);
        Self { reth, offset: meta.offset.into(), ..Self::of_common(frame, Kind::Write, meta, payload) }
    }

    /// A packet of a SEND with nothing but data.
    #[inline]
    pub fn of_send(frame: &CommonFrame<'_>, meta: Meta, ssnw: Ssnw, payload: &'a [u8]) -> Self {
        let offset = u32::from(ssnw.offset_hi) << 16 | u32::from(meta.offset);
        Self { ssn: Some(ssnw.ssn), offset, ..Self::of_common(frame, Kind::Send, meta, payload) }
    }

    #[inline]
    fn of_common(frame: &CommonFrame<'_>, kind: Kind, meta: Meta, payload: &'a [u8]) -> Self {
        Self {
            kind,
            position: frame.position(),
            psn: frame.psn(),
            meta,
            offset: 0,
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

    /// The first packet of its message.
    #[inline]
    pub const fn is_start(&self) -> bool {
        matches!(self.position, Position::First | Position::Only)
    }

    /// The last packet of its message.
    #[inline]
    pub const fn is_end(&self) -> bool {
        matches!(self.position, Position::Last | Position::Only)
    }

    /// Whether the packet needs a receive: every SEND, and the end of a WRITE with immediate.
    #[inline]
    pub const fn consumes_receive(&self) -> bool {
        match self.kind {
            Kind::Send => true,
            Kind::Write => self.imm.is_some(),
            _ => false,
        }
    }

    #[inline]
    const fn slot_kind(&self) -> SlotKind {
        match self.kind {
            Kind::Write => SlotKind::Write,
            Kind::ReadRequest | Kind::Atomic => SlotKind::Read,
            _ => SlotKind::Send,
        }
    }

    /// What its message needs at its end, if this is the end.
    #[inline]
    pub(in crate::qp) fn end_of_message(&self, byte_len: u32) -> EndOfMessage {
        EndOfMessage {
            psn: self.psn,
            kind: self.slot_kind(),
            ssn: self.ssn,
            imm: self.imm,
            invalidates: self.invalidates,
            solicited: self.solicited,
            byte_len,
        }
    }
}

/// Handles a request packet that passed the checks of protocol.md 1.2.
#[inline(always)]
pub(crate) fn on_request(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units, packet: &RequestPacket<'_>) {
    if !takes_packets(qpc, cold, units) || cold.refusal.is_some() {
        answer_refused(qpc, cold, units, Late::of_request(packet), packet.request.is_some());
        return;
    }
    let arrived = Arrived { meta: packet.meta, ack_req: packet.ack_req, ce: packet.ce };
    qpc.rsp.owed.note_arrival(units.now, &mut units.counters, &arrived);
    match qpc.rx.classify(packet.psn) {
        Arrival::InOrder => in_order(qpc, cold, units, packet),
        Arrival::AtEpsn => recovery::out_of_order(qpc, cold, units, *packet, 0),
        Arrival::Ahead(distance) => recovery::out_of_order(qpc, cold, units, *packet, distance),
        Arrival::Duplicate => {
            count!(units, cold, rx_duplicates);
            queue_control(qpc, cold.slot, units, ControlKind::Duplicate { meta: packet.meta });
            if packet.request.is_some() {
                read::remind(qpc, cold, units);
            }
        }
        Arrival::DuplicateAhead => {
            count!(units, cold, rx_duplicates);
            queue_control(qpc, cold.slot, units, ControlKind::Nack { first: packet.psn, sack: packet.psn });
        }
        Arrival::BeyondWindow => units.counters.drop_beyond_window += 1,
    }
}

/// The fast path: nothing is missing and this is the next packet.
#[inline(always)]
fn in_order(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units, packet: &RequestPacket<'_>) {
    if packet.meta.msn != qpc.rsp.msn() {
        units.counters.drop_msn += 1;
        return;
    }
    if packet.ssn.is_some_and(|ssn| ssn.is_before(qpc.rsp.ssn)) {
        units.counters.drop_ssn += 1;
        return;
    }
    let placed = check_sequence(qpc, packet).and_then(|()| place(qpc, cold, units, packet, None));
    match placed {
        Ok(byte_len) => {
            qpc.rx.advance_one();
            units.counters.rx_in_order += 1;
            if !packet.is_end() {
                qpc.rsp.in_progress = Some(packet.slot_kind());
                let next = |reth| NextWrite::after(packet.psn, reth, qpc.id.pmtu);
                cold.next_write = packet.reth.map(next);
            } else if !emission::complete_message(qpc, cold, units, &packet.end_of_message(byte_len)) {
                refuse::refuse(qpc, cold, units, packet.psn, NakCode::RemoteOperational, None);
                return;
            }
            acknowledge_in_order(qpc, cold, units);
        }
        Err(_) if packet.request.is_some() => read::in_order(qpc, cold, units, *packet),
        Err(refused) => refuse::raise(qpc, cold, units, packet.psn, packet.consumes_receive(), refused),
    }
}

/// The opcode sequence of packets in order: a message starts where none is in progress, and goes on where it stopped.
#[inline(always)]
fn check_sequence(qpc: &Qpc, packet: &RequestPacket<'_>) -> Result<(), Refused> {
    let rsp = &qpc.rsp;
    let fits = if packet.is_start() {
        rsp.in_progress.is_none() && packet.offset == 0
    } else {
        let index = packet.psn.steps_from(rsp.message_psn);
        rsp.in_progress == Some(packet.slot_kind()) && offset_is(index, packet.offset, packet.ssn)
    };
    let in_turn = packet.ssn.is_none_or(|ssn| ssn == rsp.ssn);
    if fits && in_turn { Ok(()) } else { Err(Refused::INVALID) }
}

/// The acknowledgement policy for packets in order (protocol.md 2.5).
#[inline(always)]
fn acknowledge_in_order(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) {
    qpc.rsp.owed.note_in_order(units.turn);
    if qpc.rx.take_dropped() {
        queue_plain_nack(qpc, cold, units);
    }
    units.owe_ack(cold.slot, qpc);
}

/// Queues an acknowledgement of its own.
#[inline(never)]
pub(in crate::qp) fn queue_control(qpc: &Qpc, slot: u32, units: &mut Units, kind: ControlKind) {
    if !units.control.push(ControlPacket { slot, qpn: qpc.id.qpn, kind }) {
        units.counters.tx_acks_dropped += 1;
    }
}

/// NACK without SACK, once for each ePSN.
#[cold]
#[inline(never)]
fn queue_plain_nack(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) {
    if cold.plain_nack_at != Some(qpc.rx.epsn()) {
        cold.plain_nack_at = Some(qpc.rx.epsn());
        queue_control(qpc, cold.slot, units, ControlKind::NackAll);
    }
}

/// After an error NAK, in ERR too, every burst of requests is answered by the same NAK. In ERR without one, what arrived before is
/// acknowledged; in other states nothing is.
#[cold]
#[inline(never)]
fn answer_refused(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units, late: Late, wants_response: bool) {
    if qpc.id.state == QpState::Err && say_again(units, qpc.id.qpn, late) {
        return;
    }
    units.counters.drop_qp_state += 1;
    if wants_response {
        read::remind(qpc, cold, units);
    }
    if cold.refusal.is_some() && !qpc.sched.contains(SchedFlags::ACK_LISTED) {
        qpc.rsp.owed.insist();
        units.owe_ack(cold.slot, qpc);
    }
}
