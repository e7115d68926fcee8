//! Queue pairs that have nothing more to send become idle: then their next post rings.
//!
//! Those of a turn do so together, behind everything else: between the step to idle and the look
//! whether work came meanwhile stands a fence, which waits until all that was stored before it,
//! frames among it, has left the processor's core.

use super::Core;
use crate::qp;
use crate::queue::QpShared;
use crate::tuning;
use arrayvec::ArrayVec;

/// Queue pairs that become idle together at most.
const MOST: usize = 64;

const _: () = assert!(MOST >= tuning::TX_BATCH, "a batch has a turn of so many at most");

/// Those that have nothing more to send, by slot.
pub(super) type Idle = ArrayVec<u32, MOST>;

impl Core {
    /// The queue pair of that slot becomes idle before the turn is over, if it has nothing to send
    /// then.
    #[inline]
    pub(super) fn note_idle(&mut self, slot: u32) {
        if self.idle.is_full() {
            self.deactivate_noted();
        }
        self.idle.push(slot);
    }

    /// Makes those idle that were noted.
    #[inline]
    pub(super) fn deactivate_idle(&mut self) {
        if !self.idle.is_empty() {
            self.deactivate_noted();
        }
    }

    fn deactivate_noted(&mut self) {
        let Self { idle, qps, units, .. } = self;
        idle.retain(|slot| {
            let Some(mut qp) = qps.get(*slot) else { return false };
            let is_idle = qp::become_idle(&mut qp);
            if !is_idle {
                // Something may have been posted since it was noted, and found it active: nothing
                // rings for that.
                qp.wake(qp.cold.requests(), units);
            }
            is_idle
        });
        if idle.is_empty() {
            return;
        }
        QpShared::fence_idle();
        for slot in idle.drain(..) {
            if let Some(mut qp) = qps.get(slot)
                && qp::reactivate(&mut qp)
            {
                qp.wake(qp.cold.requests(), units);
            }
        }
    }
}
