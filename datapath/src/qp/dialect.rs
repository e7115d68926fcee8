//! What a reliable connection does by its wire mode: the SRNIC dialect and Plain part here. Only
//! common frames, which are SRNIC's, go to their dialect without asking.

use super::owed::Owed;
use super::pair::Qp;
use super::requester::{Grant, TransmitEnd};
use super::{ControlKind, TxSlots, Units, plain, srnic};
use sr_recovery::StreamId;
use wire::{Packet, WireMode};

/// Handles a packet that passed the checks of protocol.md 1.2; `ce`: a switch marked it.
#[inline]
pub(crate) fn on_packet(qp: &mut Qp<'_>, units: &mut Units, packet: &Packet<'_>, ce: bool) {
    match qp.hot.id.mode {
        WireMode::Srnic => srnic::on_packet(qp, units, packet, ce),
        WireMode::Plain => plain::on_packet(qp, units, packet, ce),
    }
}

/// A packet of that stream comes next, and counts as marked, as this host falls behind.
pub(crate) fn mark(qp: &mut Qp<'_>, units: &mut Units, stream: StreamId) {
    units.counters.rx_host_marked += 1;
    match qp.hot.id.mode {
        WireMode::Srnic => qp.owed_of(stream).into_iter().for_each(Owed::note_host_mark),
        WireMode::Plain => plain::on_mark(qp, units),
    }
}

/// Lets a queue pair send requests. Reduces `grant` by what it used.
#[inline(always)]
pub(crate) fn transmit<T: TxSlots>(
    mut qp: Qp<'_>,
    units: &mut Units,
    slots: &mut T,
    grant: &mut Grant,
) -> TransmitEnd {
    match qp.hot.id.mode {
        WireMode::Srnic => srnic::transmit(qp, units, slots, grant),
        WireMode::Plain => plain::transmit(&mut qp, units, slots, grant),
    }
}

/// Lets a queue pair send responses. Reduces `grant` by what it used.
#[inline(always)]
pub(crate) fn transmit_responses<T: TxSlots>(
    mut qp: Qp<'_>,
    units: &mut Units,
    slots: &mut T,
    grant: &mut Grant,
) -> TransmitEnd {
    match qp.hot.id.mode {
        WireMode::Srnic => srnic::transmit_responses(qp, units, slots, grant),
        WireMode::Plain => plain::transmit_responses(&mut qp, units, slots, grant),
    }
}

/// The timer of its requests fired.
pub(crate) fn on_timer(qp: &mut Qp<'_>, units: &mut Units) {
    match qp.hot.id.mode {
        WireMode::Srnic => srnic::on_timer(qp, units),
        WireMode::Plain => plain::on_timer(qp, units),
    }
}

/// Writes an acknowledgement of what has arrived by now into `frame`, of the packets of `stream`;
/// `kind` is `None` for the plain one. Returns the frame's length; `None` if it is not to be sent.
#[inline]
pub(crate) fn write_ack(
    qp: &mut Qp<'_>,
    units: &mut Units,
    stream: StreamId,
    kind: Option<ControlKind>,
    frame: &mut [u8],
) -> Option<usize> {
    if stream.response || kind.is_some() || qp.cold.refusal.is_some() || qp.hot.id.mode == WireMode::Plain {
        return write_any_ack(&mut qp.reborrow(), units, stream, kind, frame);
    }
    srnic::write_in_order(qp, units, frame)
}

/// Does what [`write_ack`] does, which is faster for most.
#[inline(never)]
pub(super) fn write_any_ack(
    qp: &mut Qp<'_>,
    units: &mut Units,
    stream: StreamId,
    kind: Option<ControlKind>,
    frame: &mut [u8],
) -> Option<usize> {
    match qp.hot.id.mode {
        WireMode::Srnic => srnic::write_ack(qp, units, stream, kind, frame),
        WireMode::Plain => plain::write_ack(qp, units, kind, frame),
    }
}
