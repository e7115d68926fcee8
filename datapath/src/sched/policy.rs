//! The interface of all scheduling policies, which decide whose turn it is.

use super::SchedAttributes;
use crate::time::Time;
use crate::tuning;

/// Whose turn it is, as a policy decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scheduled {
    /// The queue pair whose turn it is.
    pub slot: u32,
    /// Payload that it may send, in bytes; at most [`tuning::BYTES_PER_TURN`].
    pub bytes: usize,
}

/// What a queue pair sent in its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Payload in bytes.
    pub bytes: usize,
    /// Packets.
    pub packets: usize,
    /// Operations begun, of every kind.
    pub operations: u32,
    /// READs among them.
    pub reads: u32,
    /// Atomics among them.
    pub atomics: u32,
}

impl Usage {
    /// Bytes on the wire, about.
    pub(crate) const fn wire_bytes(self) -> u64 {
        (self.bytes + self.packets * tuning::PACKET_OVERHEAD) as u64
    }
}

/// An order of ready queue pairs. Each stands in it at most once, and nothing here grows with those
/// that are idle.
///
/// After [`pop`](Self::pop) the queue pair is out. Then the engine says what it used, and that it
/// is still ready ([`requeue`](Self::requeue)), found no room at all ([`resume`](Self::resume)) or
/// has nothing left ([`idle`](Self::idle)).
pub trait Policy {
    /// A queue pair became ready.
    fn push(&mut self, slot: u32);
    /// Takes the queue pair whose turn it is.
    fn pop(&mut self, now: Time) -> Option<Scheduled>;
    /// The queue pair whose turn comes after so many others, where that is known.
    #[inline]
    fn peek(&self, _turns: usize) -> Option<u32> {
        None
    }
    /// Its turn is over: what it sent.
    #[inline]
    fn charge(&mut self, _slot: u32, _usage: Usage) {}
    /// It is still ready.
    #[inline]
    fn requeue(&mut self, slot: u32) {
        self.push(slot);
    }
    /// The port had no room for anything of it: its turn is the next.
    fn resume(&mut self, slot: u32);
    /// It has nothing to send, or may not.
    #[inline]
    fn idle(&mut self, _slot: u32) {}
    /// Queue pairs that wait for their turn.
    fn waiting(&self) -> usize;
    /// Those of them whose turn comes before that of `slot`, if it becomes ready now, at least.
    #[inline]
    fn behind(&self, _slot: Option<u32>) -> usize {
        self.waiting()
    }
    /// Its weight and priority from its next turn on. What it had saved or owed is forgotten.
    fn set_attributes(&mut self, _slot: u32, _attributes: SchedAttributes) {}
    /// Bytes on the heap.
    fn bytes(&self) -> usize;
}
