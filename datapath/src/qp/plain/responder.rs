//! Requests that come in: in order, or asked for again once; duplicates are answered and not
//! executed.

use super::read;
use super::resources::Resources;
use crate::counters::count;
use crate::qp::first_packet::takes_packets;
use crate::qp::last_word::{Late, say_again};
use crate::qp::owed::Arrived;
use crate::qp::responder::{InOrder, Refused, RequestPacket, behind, pass, place, refuse_receive, report};
use crate::qp::{ControlKind, Qp, QpCold, Units};
use crate::qp_state::QpState;
use crate::queue::WcStatus;
use crate::stream::SlotKind;
use wire::{Kind, Meta, NakCode, Packet, Psn, Reth};

/// What the responder of a Plain queue pair remembers.
#[derive(Debug)]
pub(super) struct Responder {
    pub resources: Resources,
    /// The packet at ePSN was asked for, or its message told to wait: what comes behind it is
    /// dropped silently.
    pub gap_reported: bool,
    /// Of the WRITE in progress: where its next packet goes.
    write: Option<Reth>,
    /// A NAK that waits until the responses before it are sent.
    pub held: Option<ControlKind>,
    /// Behind the newest SEND or WRITE packet taken: what acknowledgements tell of. Of READs and
    /// atomics their responses tell, and nothing else: rxe takes an acknowledgement with a READ's
    /// last PSN for the end of its data.
    pub taken: Psn,
}

impl Responder {
    /// Nothing received; the first packet is `psn`.
    pub fn new(resources: u8, psn: Psn) -> Self {
        let resources = Resources::new(resources);
        Self { resources, gap_reported: false, write: None, held: None, taken: psn }
    }

    pub fn stop(&mut self) {
        self.resources.clear();
        self.gap_reported = false;
        self.write = None;
        self.held = None;
    }
}

/// Handles a request.
pub(super) fn on_request(qp: &mut Qp<'_>, units: &mut Units, packet: &Packet<'_>) {
    if !takes_packets(qp, units) || qp.cold.refusal.is_some() || qp.cold.plain.is_none() {
        let ended = qp.hot.id.state == QpState::Err;
        let answered = ended && say_again(units, qp.hot.id.qpn, Late::of(packet));
        units.counters.drop_qp_state += u64::from(!answered);
        return;
    }
    // Marks are answered by CNPs, not by acknowledgements.
    let is_acknowledged = !matches!(packet.opcode().kind(), Kind::ReadRequest | Kind::Atomic);
    let ack_req = packet.ack_req() && is_acknowledged;
    let arrived = Arrived { packets: 1, meta: Meta::default(), ack_req, ce: false };
    let ahead = packet.psn().distance_from(qp.hot.rx.epsn());
    if ahead > 0 {
        units.counters.drop_go_back_n += 1;
        report_gap(qp, units);
        return;
    }
    qp.hot.rsp.owed.note_arrival(units.drained_at, &mut units.counters, &arrived);
    if ahead < 0 {
        count!(units, qp.cold, rx_duplicates);
        answer_duplicate(qp, units, packet);
        return;
    }
    if let Some(plain) = qp.cold.plain.as_deref_mut() {
        plain.rsp.gap_reported = false;
        plain.rsp.held = None;
    }
    if let Err(refused) = in_order(qp, units, packet) {
        raise(qp, units, packet, refused);
    }
}

/// The next request packet.
fn in_order(qp: &mut Qp<'_>, units: &mut Units, packet: &Packet<'_>) -> Result<(), Refused> {
    let opcode = packet.opcode();
    let kind = match opcode.kind() {
        Kind::Send => SlotKind::Send,
        Kind::Write => SlotKind::Write,
        _ => SlotKind::Read,
    };
    let fits = if opcode.is_start() {
        qp.hot.rsp.in_progress.is_none()
    } else {
        qp.hot.rsp.in_progress == Some(kind)
    };
    if !fits {
        return Err(Refused::INVALID);
    }
    if kind == SlotKind::Read {
        return read::execute(qp, units, packet);
    }
    let index = packet.psn().steps_from(qp.hot.rsp.message_psn);
    let write = qp.cold.plain.as_deref().and_then(|plain| plain.rsp.write);
    let request = RequestPacket::in_order(qp.hot, packet, index, write);
    place(qp, units, &request)?;
    note_placed(qp.cold, &request);
    let reported = !opcode.is_end() || report(qp, units, &request.end_of_message(qp.hot.id.pmtu));
    pass(qp.hot, &mut units.counters, InOrder::one(kind, opcode.is_end()), 1);
    if !reported {
        refuse(qp, units, packet.psn(), NakCode::RemoteOperational, None);
        return Ok(());
    }
    // Standard peers ask for what they want to hear.
    if qp.hot.rsp.owed.is_owed() {
        qp.owe_ack(units);
    }
    Ok(())
}

/// A packet of a SEND or WRITE was placed: where the next one goes, and what is acknowledged.
fn note_placed(cold: &mut QpCold, request: &RequestPacket<'_>) {
    let Some(plain) = cold.plain.as_deref_mut() else { return };
    plain.rsp.taken = request.psn.next();
    plain.rsp.write = request.reth.filter(|_| !request.is_end()).map(|reth| behind(reth, request.len()));
}

/// Something is missing at ePSN: the peer is told once, until it comes.
fn report_gap(qp: &mut Qp<'_>, units: &mut Units) {
    let Some(plain) = qp.cold.plain.as_deref_mut() else { return };
    if !core::mem::replace(&mut plain.rsp.gap_reported, true) {
        answer(qp, units, ControlKind::NackAll);
    }
}

/// A NAK acknowledges everything before it, so it must not overtake a response.
fn answer(qp: &mut Qp<'_>, units: &mut Units, kind: ControlKind) {
    match qp.cold.plain.as_deref_mut() {
        Some(plain) if plain.rsp.resources.is_pending() => plain.rsp.held = Some(kind),
        _ => qp.answer(units, kind),
    }
}

/// SEND and WRITE are acknowledged again, READs and atomics answered again.
fn answer_duplicate(qp: &mut Qp<'_>, units: &mut Units, packet: &Packet<'_>) {
    if matches!(packet.opcode().kind(), Kind::ReadRequest | Kind::Atomic) {
        read::replay(qp, units, packet);
        return;
    }
    qp.hot.rsp.owed.insist();
    qp.owe_ack(units);
}

/// What cannot be done at ePSN.
fn raise(qp: &mut Qp<'_>, units: &mut Units, packet: &Packet<'_>, refused: Refused) {
    match refused {
        Refused::Rnr | Refused::OverShare => {
            if let Some(plain) = qp.cold.plain.as_deref_mut() {
                plain.rsp.gap_reported = true;
            }
            answer(qp, units, ControlKind::Rnr { psn: packet.psn() });
        }
        Refused::Nak(code, status) => {
            let opcode = packet.opcode();
            let holds_receive = opcode.kind() == Kind::Send || opcode.consumes_rwqe();
            refuse(qp, units, packet.psn(), code, holds_receive.then_some(status));
        }
    }
}

/// Refuses the message at `psn`, which may have held a receive.
pub(super) fn refuse(
    qp: &mut Qp<'_>,
    units: &mut Units,
    psn: Psn,
    code: NakCode,
    receive_status: Option<WcStatus>,
) {
    refuse_receive(qp, units, psn, code, receive_status);
    finish_refusal(qp, units);
}

/// After a refusal: once the responses before it are sent, the NAK goes out and the queue pair to
/// ERR.
pub(super) fn finish_refusal(qp: &mut Qp<'_>, units: &mut Units) {
    let waits = qp.cold.plain.as_deref().is_some_and(|plain| plain.rsp.resources.is_pending());
    if qp.cold.refusal.is_none() || waits {
        return;
    }
    qp.answer(units, ControlKind::ErrorNak);
    crate::qp::fail(qp, units, None);
}
