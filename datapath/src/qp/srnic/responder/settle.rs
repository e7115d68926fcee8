//! What packets taken in order change of their queue pair: ePSN, MSN, counters, and the
//! acknowledgement that is owed.

use crate::qp::responder::{InOrder, pass};
use crate::qp::{ControlKind, Qp, Units};

/// Does what [`pass`] does, and their acknowledgement is owed (protocol.md 2.5). Their arrival was
/// noted before.
#[inline(always)]
pub(super) fn settle(qp: &mut Qp<'_>, units: &mut Units, taken: InOrder) {
    pass(qp.hot, &mut units.counters, taken, taken.packets.into());
    qp.hot.rsp.owed.note_in_order(units.turn, taken.packets);
    if qp.hot.rx.take_dropped() {
        queue_plain_nack(&mut qp.reborrow(), units);
    }
    units.owe_ack(qp.cold.requests(), qp.hot);
}

/// NACK without SACK, once for each ePSN.
#[cold]
#[inline(never)]
pub(super) fn queue_plain_nack(qp: &mut Qp<'_>, units: &mut Units) {
    if qp.cold.plain_nack_at != Some(qp.hot.rx.epsn()) {
        qp.cold.plain_nack_at = Some(qp.hot.rx.epsn());
        units.queue_control(qp.cold.requests(), qp.hot, ControlKind::NackAll);
    }
}
