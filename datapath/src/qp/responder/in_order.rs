//! Packets in order move ePSN and MSN.

use crate::counters::Counters;
use crate::qp::context::Qpc;
use crate::stream::SlotKind;

/// Packets in place, one behind the other, from ePSN on.
#[derive(Clone, Copy, Debug)]
pub(in crate::qp) struct InOrder {
    pub packets: u8,
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
