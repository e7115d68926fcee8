//! How a queue pair comes to rest, in two steps with [`QpShared::order_rests`](crate::queue::QpShared::order_rests) between them.

use super::has_new_work;
use crate::qp::context::{QpCold, Qpc};
use crate::qp::flags::QpFlags;

/// The first: from here on a post rings. False if it stays active, as it has work, or will have without a doorbell; or if it is
/// not active, so that a post rings already, or a doorbell is under way.
///
/// While who posts to it waits for the engine, this is all: nothing can come meanwhile.
#[inline]
pub(crate) fn lie_down(qpc: &mut Qpc, cold: &QpCold) -> bool {
    // A request that waits for a READ stays in the queue, and nothing rings for it.
    let waits = qpc.flags.contains(QpFlags::READ_WAIT);
    if waits || has_new_work(qpc, cold) || !qpc.flags.contains(QpFlags::ACTIVE) {
        return false;
    }
    cold.send_queue.shared().rest_quietly();
    qpc.flags.remove(QpFlags::ACTIVE);
    true
}

/// The second: true if work came before the first one was seen, and no doorbell with it.
#[inline]
pub(crate) fn get_up_for_work(qpc: &mut Qpc, cold: &QpCold) -> bool {
    let awake = has_new_work(qpc, cold) && cold.send_queue.shared().reactivate();
    qpc.flags.set(QpFlags::ACTIVE, awake);
    awake
}
