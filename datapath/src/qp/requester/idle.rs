//! How a queue pair becomes idle, in two steps with
//! [`QpShared::fence_idle`](crate::queue::QpShared::fence_idle) between them.

use super::has_new_work;
use crate::qp::{Qp, QpFlags};

/// The first: from here on a post rings. False if it stays active, as it has work, or will have
/// without a doorbell; or if it is not active, so that a post rings already, or a doorbell is under
/// way.
///
/// While who posts to it waits for the engine, this is all: nothing can come meanwhile.
#[inline]
pub(crate) fn become_idle(qp: &mut Qp<'_>) -> bool {
    // A request that waits for a READ stays in the queue, and nothing rings for it.
    let waits = qp.hot.flags.contains(QpFlags::READ_WAIT);
    if waits || has_new_work(qp) || !qp.hot.flags.contains(QpFlags::ACTIVE) {
        return false;
    }
    qp.cold.send_queue.shared().set_idle_unfenced();
    qp.hot.flags.remove(QpFlags::ACTIVE);
    true
}

/// The second: true if work came before the first one was seen, and no doorbell with it. It is
/// active again then.
#[inline]
pub(crate) fn reactivate(qp: &mut Qp<'_>) -> bool {
    let active = has_new_work(qp) && qp.cold.send_queue.shared().reactivate();
    qp.hot.flags.set(QpFlags::ACTIVE, active);
    active
}
