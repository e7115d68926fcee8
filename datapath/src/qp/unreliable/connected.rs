//! A UC packet's way in. A message with a hole is dropped without a word, what comes of it later
//! too, and the next packet that begins a message is taken whatever its PSN (IBA 9.9.2; protocol.md
//! 1.11).

use super::datagram::fail_receive;
use crate::qp::first_packet::takes_packets;
use crate::qp::responder::{
    EndOfMessage, Refused, behind, fits_message, fits_packet, in_region, permits_writes, report, to_receive,
};
use crate::qp::{Qp, QpCold, Qpc, Units, fail};
use crate::queue::WcStatus;
use crate::stream::SlotKind;
use wire::{Kind, Packet, Reth};

/// The message that a UC queue pair is receiving.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Incoming {
    message: Option<Message>,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    kind: Kind,
    /// Bytes that were placed.
    placed: u32,
    /// Of a WRITE, where what is left of it goes.
    reth: Reth,
}

/// Why a packet, and with it its message, was dropped.
enum Dropped {
    /// It does not continue the message in progress.
    Sequence,
    NoReceive,
    TooShort,
    /// A WRITE may not go where it says, or is not as long as it says.
    Access,
    /// The receive may not be written: this is our own program's fault.
    OwnReceive,
}

/// Handles a packet from the peer of a UC queue pair whose P_Key and ICRC are right.
pub(crate) fn on_unreliable(qp: &mut Qp<'_>, units: &mut Units, packet: &Packet<'_>) {
    if !takes_packets(qp, units) {
        units.counters.drop_qp_state += 1;
        return;
    }
    match take(qp, units, packet) {
        Ok(()) => units.counters.rx_unreliable += 1,
        Err(dropped) => drop_message(qp, units, &dropped),
    }
}

#[cold]
fn drop_message(qp: &mut Qp<'_>, units: &mut Units, dropped: &Dropped) {
    abandon(qp.cold, units);
    let counters = &mut units.counters;
    match dropped {
        Dropped::Sequence => counters.drop_uc_sequence += 1,
        Dropped::NoReceive => counters.drop_no_receive += 1,
        Dropped::TooShort => counters.drop_receive_too_short += 1,
        Dropped::Access => counters.drop_uc_access += 1,
        Dropped::OwnReceive => fail_receive(qp, units, WcStatus::LocProtErr),
    }
    qp.cold.receives.put_back(units);
}

/// The message in progress, if there is one, will not complete. The receive that it was using is
/// the next one's, of a shared queue that of whoever comes next.
fn abandon(cold: &mut QpCold, units: &mut Units) {
    if let Some(incoming) = cold.incoming.as_deref_mut()
        && incoming.message.take().is_some()
    {
        units.counters.uc_messages_lost += 1;
    }
}

fn take(qp: &mut Qp<'_>, units: &mut Units, packet: &Packet<'_>) -> Result<(), Dropped> {
    let opcode = packet.opcode();
    let expected = packet.psn() == qp.hot.rx.epsn();
    if opcode.is_start() {
        abandon(qp.cold, units);
        qp.cold.receives.put_back(units);
    } else if !expected {
        return Err(Dropped::Sequence);
    }
    qp.hot.rx.resume_at(packet.psn().next());
    let message = if opcode.is_start() {
        begin(packet)?
    } else {
        let in_progress = qp.cold.incoming.as_deref().and_then(|incoming| incoming.message);
        in_progress.filter(|message| message.kind == opcode.kind()).ok_or(Dropped::Sequence)?
    };
    if !fits_packet(qp.hot, opcode.position(), packet.payload()) {
        return Err(Dropped::Sequence);
    }
    if opcode.consumes_rwqe() && qp.cold.receives.find(units, qp.hot.rsp.recv_head, 0).is_err() {
        return Err(Dropped::NoReceive);
    }
    if opcode.kind() == Kind::Write {
        place_write(qp.hot, units, packet, &message.reth)?;
    } else {
        place_send(qp, units, packet, &message)?;
    }
    let len = u32::try_from(packet.payload().len()).unwrap_or(u32::MAX);
    let (placed, reth) = (message.placed.saturating_add(len), behind(message.reth, len));
    let message = Message { placed, reth, ..message };
    if opcode.is_end() {
        end(qp, units, packet, &message);
    }
    if let Some(incoming) = qp.cold.incoming.as_deref_mut() {
        incoming.message = (!opcode.is_end()).then_some(message);
    }
    Ok(())
}

fn begin(packet: &Packet<'_>) -> Result<Message, Dropped> {
    let kind = packet.opcode().kind();
    let reth = packet.reth();
    if kind == Kind::Write && reth.is_none() {
        return Err(Dropped::Sequence);
    }
    Ok(Message { kind, placed: 0, reth: reth.unwrap_or_default() })
}

/// The key and the whole rest of the range are checked for each packet: the region may be gone
/// meanwhile.
fn place_write(qpc: &Qpc, units: &Units, packet: &Packet<'_>, reth: &Reth) -> Result<(), Dropped> {
    let payload = packet.payload();
    if !fits_message(packet.opcode().is_end(), payload, reth) || !permits_writes(qpc) {
        return Err(Dropped::Access);
    }
    in_region(qpc, &units.memory, reth).map_err(|_| Dropped::Access)?.write(payload);
    Ok(())
}

fn place_send(
    qp: &mut Qp<'_>,
    units: &mut Units,
    packet: &Packet<'_>,
    message: &Message,
) -> Result<(), Dropped> {
    let found = qp.cold.receives.find(units, qp.hot.rsp.recv_head, 0);
    let receive = found.ok().and_then(|found| qp.cold.receives.wqe(units, found, qp.hot.id.pd));
    let (wqe, pd) = receive.ok_or(Dropped::NoReceive)?;
    let placed = to_receive(&units.memory, pd, &wqe, message.placed.into(), packet.payload());
    placed.map_err(|refused| match refused {
        Refused::TOO_SHORT => Dropped::TooShort,
        _ => Dropped::OwnReceive,
    })
}

/// The last packet was placed: the receive completes, if there is one.
fn end(qp: &mut Qp<'_>, units: &mut Units, packet: &Packet<'_>, message: &Message) {
    let end = EndOfMessage {
        kind: if message.kind == Kind::Write { SlotKind::Write } else { SlotKind::Send },
        consumes_receive: packet.opcode().consumes_rwqe(),
        imm: packet.imm(),
        invalidates: false,
        solicited: packet.solicited(),
        byte_len: message.placed,
    };
    if !report(qp, units, &end) {
        fail(qp, units, None);
    }
}
