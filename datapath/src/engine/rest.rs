//! Queue pairs that have nothing more to send come to rest: then their next post rings.
//!
//! Those of a turn do so together, behind everything else: between the step to rest and the look
//! whether work came meanwhile stands a fence, which waits until all that was stored before it,
//! frames among it, has left the processor's core.

use super::Engine;
use crate::port::Port;
use crate::qp;
use crate::queue::QpShared;
use crate::tuning;
use arrayvec::ArrayVec;

/// Queue pairs that are put to rest together at most.
const MOST: usize = 64;

const _: () = assert!(MOST >= tuning::TX_BATCH, "a batch has a turn of so many at most");

/// Those that have nothing more to send, by slot.
pub(super) type Idle = ArrayVec<u32, MOST>;

impl<P: Port> Engine<P> {
    /// The queue pair of that slot is put to rest before the turn is over, if it has nothing to
    /// send then.
    #[inline]
    pub(super) fn note_idle(&mut self, slot: u32) {
        if self.idle.is_full() {
            self.put_to_rest();
        }
        self.idle.push(slot);
    }

    /// Puts those to rest that were noted.
    #[inline]
    pub(super) fn rest_idle(&mut self) {
        if !self.idle.is_empty() {
            self.put_to_rest();
        }
    }

    fn put_to_rest(&mut self) {
        let Self { idle, qps, units, .. } = self;
        idle.retain(|slot| {
            let Some(mut qp) = qps.get(*slot) else { return false };
            let rests = qp::lie_down(&mut qp);
            if !rests {
                // Something may have been posted since it was noted, and found it active: nothing
                // rings for that.
                qp.wake(qp.cold.requests(), units);
            }
            rests
        });
        if idle.is_empty() {
            return;
        }
        QpShared::fence_idle();
        for slot in idle.drain(..) {
            if let Some(mut qp) = qps.get(slot)
                && qp::get_up_for_work(&mut qp)
            {
                qp.wake(qp.cold.requests(), units);
            }
        }
    }
}
