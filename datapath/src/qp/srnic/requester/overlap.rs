//! WRITEs that overlap, kept in order (`ordered_overlap`, protocol.md 2.4).
//!
//! A packet that comes out of order is placed at once, and one that comes twice may be placed twice
//! while something is missing, so two WRITEs to the same bytes may end in either order. Only when
//! the first is acknowledged can no copy of it be placed any more.

use crate::qp::pair::Qp;
use crate::queue::{SendOpcode, SendWqe};
use crate::stream::PARKED_BYTES_MAX;

/// Addresses that the unacknowledged WRITEs of a queue pair lie in, and more: a WRITE outside
/// overlaps none of them, and nobody needs to look at each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hull {
    start: u64,
    /// One past the last address.
    end: u64,
}

impl Hull {
    fn of(wqe: &SendWqe<'_>) -> Option<Self> {
        let writes = matches!(wqe.opcode, SendOpcode::Write | SendOpcode::WriteWithImm) && wqe.length > 0;
        writes.then(|| {
            let (start, _) = wqe.remote();
            Self { start, end: start.saturating_add(wqe.length.into()) }
        })
    }

    const fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    fn with(self, other: Self) -> Self {
        if self.start == self.end {
            return other;
        }
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// Whether the request at the front must wait for a WRITE that is not acknowledged. If not, it
/// counts among them from here on.
#[cold]
pub(super) fn must_wait(qp: &mut Qp<'_>) -> bool {
    let wqe = qp.cold.send_queue.wqe(qp.hot.req.next);
    let Some(range) = Hull::of(&wqe) else { return false };
    // The responder parks a small one that comes out of order: it waits there.
    let small = wqe.length as usize <= PARKED_BYTES_MAX;
    if !small && range.overlaps(qp.cold.writes) {
        let (hull, overlaps) = look_at_each(qp, range);
        qp.cold.writes = hull;
        if overlaps {
            return true;
        }
    }
    qp.cold.writes = qp.cold.writes.with(range);
    false
}

/// The hull of all unacknowledged WRITEs, and whether one of them overlaps `range`.
fn look_at_each(qp: &Qp<'_>, range: Hull) -> (Hull, bool) {
    let (mut hull, mut overlaps) = (Hull::default(), false);
    let mut position = qp.hot.req.next;
    while position != qp.hot.req.head {
        position = position.wrapping_sub(1);
        let entry = qp.cold.entry(position);
        if !qp.hot.tx.una().is_before(entry.first_psn.add(entry.packets)) {
            // Nor is any before it: acknowledgements are cumulative.
            break;
        }
        if let Some(other) = Hull::of(&qp.cold.send_queue.wqe(position)) {
            hull = hull.with(other);
            overlaps |= range.overlaps(other);
        }
    }
    (hull, overlaps)
}
