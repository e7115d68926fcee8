//! Congestion notification packets: who receives a mark tells the sender, whose controller reacts
//! (protocol.md 1.8).

use super::requester::adopt_window;
use crate::qp::packet::{PacketBuilder, Zeros};
use crate::qp::{ControlKind, Qp, Qpc, Units};
use crate::time::Time;
use wire::emit::CNP_RESERVED_LEN;
use wire::{Bth, Fields, Opcode, Packet, WireMode};

/// Least time between two notifications of a queue pair's.
const INTERVAL_NS: u64 = 50_000;

/// A request or response came with a mark, or is marked here: its sender is told, unless it was
/// just now.
pub(crate) fn on_mark(qp: &mut Qp<'_>, units: &mut Units) {
    let now = units.now;
    let Some(plain) = qp.cold.plain.as_deref_mut().filter(|_| qp.hot.id.state.receives()) else { return };
    if plain.cnp_at.is_none_or(|next: Time| next <= now) {
        plain.cnp_at = Some(now.after(INTERVAL_NS));
        qp.answer(units, ControlKind::Cnp);
    }
}

/// A notification came: what we send is marked on its way.
pub(super) fn on_notification(qp: &mut Qp<'_>, units: &mut Units, packet: &Packet<'_>) {
    let Some(plain) = qp.cold.plain.as_deref().filter(|_| qp.hot.id.state.continues_sends()) else {
        units.counters.drop_qp_state += 1;
        return;
    };
    if !packet.becn() {
        units.counters.drop_malformed += 1;
    } else {
        units.counters.rx_cnps += 1;
        qp.hot.controller.on_cnp(units.now.0);
        adopt_window(qp.hot, &plain.req);
    }
}

/// Writes a notification into `frame` and returns the frame's length.
pub(super) fn write(qpc: &Qpc, units: &mut Units, frame: &mut [u8]) -> Option<usize> {
    let bth = Bth { becn: true, ..qpc.id.bth(WireMode::Plain, Opcode::Cnp) };
    let packet = PacketBuilder::new(&qpc.template, WireMode::Plain, bth, Fields::default()).ok()?;
    let len = packet.build(&Zeros(CNP_RESERVED_LEN), frame).ok()?;
    units.counters.tx_cnps += 1;
    Some(len)
}
