//! A UC packet's way in. A message with a hole is dropped without a word, what comes of it later
//! too, and the next packet that begins a message is taken whatever its PSN (IBA 9.9.2; protocol.md
//! 1.11).

use super::datagram::fail_receive;
use crate::qp::first_packet::takes_packets;
use crate::qp::responder::{Refused, RequestPacket, behind, fits_packet, put, report};
use crate::qp::{Qp, QpCold, Units, fail};
use crate::queue::WcStatus;
use wire::{Kind, Packet, Reth};

/// The message that a UC queue pair is receiving.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Incoming {
    message: Option<Message>,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    kind: Kind,
    /// Packets that were placed.
    packets: u32,
    /// Of a WRITE, where what is left of it goes.
    reth: Option<Reth>,
}

/// Why a packet, and with it its message, was dropped.
enum Dropped {
    /// It does not continue the message in progress.
    Sequence,
    /// It cannot go where it is to go.
    Refused(Refused),
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
        Dropped::Refused(Refused::Rnr | Refused::OverShare) => counters.drop_no_receive += 1,
        Dropped::Refused(Refused::TOO_SHORT) => counters.drop_receive_too_short += 1,
        // This is our own program's fault.
        Dropped::Refused(Refused::OWN_MEMORY) => fail_receive(qp, units, WcStatus::LocProtErr),
        // A WRITE may not go where it says, or is not as long as it says.
        Dropped::Refused(Refused::Nak(..)) => counters.drop_uc_access += 1,
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
    if opcode.is_start() {
        abandon(qp.cold, units);
        qp.cold.receives.put_back(units);
    } else if packet.psn() != qp.hot.rx.epsn() {
        return Err(Dropped::Sequence);
    }
    qp.hot.rx.resume_at(packet.psn().next());
    let message = if opcode.is_start() {
        Message { kind: opcode.kind(), packets: 0, reth: packet.reth() }
    } else {
        let in_progress = qp.cold.incoming.as_deref().and_then(|incoming| incoming.message);
        in_progress.filter(|message| message.kind == opcode.kind()).ok_or(Dropped::Sequence)?
    };
    if !fits_packet(qp.hot, opcode.position(), packet.payload()) {
        return Err(Dropped::Sequence);
    }
    // The key and the whole rest of the range are checked for each packet: the region may be gone
    // meanwhile.
    let request = RequestPacket::in_order(qp.hot, packet, message.packets, message.reth);
    put(qp, units, &request).map_err(Dropped::Refused)?;
    if request.is_end() && !report(qp, units, &request.end_of_message(qp.hot.id.pmtu)) {
        fail(qp, units, None);
    }
    if let Some(incoming) = qp.cold.incoming.as_deref_mut() {
        let reth = message.reth.map(|reth| behind(reth, request.len()));
        let packets = message.packets.saturating_add(1);
        incoming.message = (!request.is_end()).then_some(Message { packets, reth, ..message });
    }
    Ok(())
}
