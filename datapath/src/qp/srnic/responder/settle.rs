//! What packets taken in order change of their queue pair: ePSN, MSN, counters, and the
//! acknowledgement that is owed.

use crate::qp::responder::{InOrder, pass};
use crate::qp::srnic::ReceiveStream;
use crate::qp::{Qp, Units};

/// Does what [`pass`] does, and their acknowledgement is owed (protocol.md 2.5). Their arrival was
/// noted before.
#[inline(always)]
pub(super) fn settle(qp: &mut Qp<'_>, units: &mut Units, taken: InOrder) {
    pass(qp.hot, &mut units.counters, taken, taken.packets.into());
    ReceiveStream::of_requests(qp).settle(units, taken.packets);
}
