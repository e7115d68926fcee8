//! What packets taken in order change of their queue pair: ePSN, MSN, counters, and the
//! acknowledgement that is owed.

use super::queue_plain_nack;
use crate::counters::Counters;
use crate::qp::Units;
use crate::qp::context::Qpc;
use crate::qp::pair::Qp;
use crate::stream::SlotKind;

/// Packets in place, one behind the other, from ePSN on.
#[derive(Clone, Copy, Debug)]
pub(in crate::qp) struct InOrder {
    packets: u8,
    /// Messages that end with them.
    messages: u8,
    /// The message that they leave in progress.
    within: Option<SlotKind>,
}

impl InOrder {
    /// One packet of a message, which may be its end.
    #[inline(always)]
    pub const fn one(kind: SlotKind, is_end: bool) -> Self {
        if is_end { Self::messages(1) } else { Self::within(kind, 1) }
    }

    /// Packets of one message, which goes on.
    #[inline(always)]
    pub const fn within(kind: SlotKind, packets: u8) -> Self {
        Self { packets, messages: 0, within: Some(kind) }
    }

    /// The only packets of their messages.
    #[inline(always)]
    pub const fn messages(count: u8) -> Self {
        Self { packets: count, messages: count, within: None }
    }
}

/// ePSN and MSN move behind packets in order, which have so many PSNs together.
#[inline(always)]
pub(in crate::qp) fn pass(qpc: &mut Qpc, counters: &mut Counters, taken: InOrder, psns: u32) {
    qpc.rx.advance(psns);
    counters.rx_in_order += u64::from(taken.packets);
    if taken.within.is_some() {
        qpc.rsp.in_progress = taken.within;
    } else {
        qpc.rsp.complete(taken.messages.into(), qpc.rx.epsn());
    }
}

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
