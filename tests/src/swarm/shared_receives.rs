//! Shared receive queues: the receives of a node, from which several connections take.

use super::flow::{CONSUMED, Flow};
use super::message::Kind;
use datapath::queue::{Completion, SrqCaps, WcStatus};
use simnet::{NodeId, Region, Rig, Span, Srq};

/// Bytes between two receives that nobody may write.
const GAP: usize = 8;

/// A shared receive queue, before it is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedReceivesPlan {
    /// Receives.
    pub slots: usize,
    /// Bytes of each.
    pub slot_len: usize,
    /// Elements of each.
    pub pieces: usize,
    /// So many must be free before they are posted again.
    pub lump: usize,
}

/// A shared receive queue and its memory.
pub(super) struct SharedReceives {
    plan: SharedReceivesPlan,
    srq: Srq,
    region: Region,
    /// The number of the request that each slot is posted under.
    posted: Vec<Option<u64>>,
    posts: u64,
}

impl SharedReceives {
    /// Makes and fills it.
    pub fn new(rig: &mut Rig, node: NodeId, plan: SharedReceivesPlan) -> Self {
        let [max_wr, max_sge] =
            [plan.slots, plan.pieces].map(|count| u32::try_from(count).expect("a shared queue is small"));
        let srq = rig.create_srq(node, SrqCaps { max_wr, max_sge });
        let region = rig.region(node, plan.slots * (plan.slot_len + GAP));
        let mut shared_receives = Self { plan, srq, region, posted: vec![None; plan.slots], posts: 0 };
        for slot in 0..plan.slots {
            shared_receives.wipe(rig, slot);
        }
        shared_receives.refill(rig);
        shared_receives
    }

    /// What queue pairs are made with.
    pub const fn srq(&self) -> Srq {
        self.srq
    }

    /// Posts what is free again, if it is enough.
    pub fn refill(&mut self, rig: &mut Rig) {
        let free: Vec<usize> = (0..self.plan.slots).filter(|&slot| self.posted[slot].is_none()).collect();
        if free.len() < self.plan.lump {
            return;
        }
        for slot in free {
            self.check_idle(rig, slot);
            let number = self.posts * self.plan.slots as u64 + slot as u64;
            self.posts += 1;
            rig.post_srq(self.srq, number, &self.pieces(slot)).expect("a slot that is free has its place");
            self.posted[slot] = Some(number);
        }
    }

    /// The bytes of the slot that a receive named, which is free from here on.
    ///
    /// # Panics
    /// If the slot was not posted under that number, or is complete already.
    pub fn take(&mut self, rig: &mut Rig, done: &Completion) -> Vec<u8> {
        let slot = usize::try_from(done.wr_id).unwrap_or(usize::MAX) % self.plan.slots;
        let posted = self.posted[slot].take();
        assert_eq!(posted, Some(done.wr_id), "a shared receive completes once: {done:?}");
        let bytes = rig.bytes(self.span(slot));
        self.wipe(rig, slot);
        bytes
    }

    /// Checks it when all is done and nothing moves.
    ///
    /// # Panics
    /// If a receive was lost, or somebody wrote where nobody may.
    pub fn check(&self, rig: &Rig) {
        let posted = self.posted.iter().flatten().count();
        let available = rig.srq_attr(self.srq).available as usize;
        assert_eq!(available, posted, "receives of {:?} that nobody has given back", self.srq);
        for slot in (0..self.plan.slots).filter(|&slot| self.posted[slot].is_none()) {
            self.check_idle(rig, slot);
        }
        for slot in 0..self.plan.slots {
            let gap = self.region.at((slot + 1) * (self.plan.slot_len + GAP) - GAP, GAP);
            rig.verify_untouched(gap);
        }
    }

    /// Nobody writes a receive that is complete.
    fn check_idle(&self, rig: &Rig, slot: usize) {
        let bytes = rig.bytes(self.span(slot));
        let written = bytes.iter().position(|byte| *byte != CONSUMED);
        assert_eq!(written, None, "slot {slot} of {:?} was written after its completion", self.srq);
    }

    fn wipe(&self, rig: &mut Rig, slot: usize) {
        rig.set(self.span(slot), &vec![CONSUMED; self.plan.slot_len]);
    }

    fn span(&self, slot: usize) -> Span {
        self.region.at(slot * (self.plan.slot_len + GAP), self.plan.slot_len)
    }

    /// The elements of a slot, as long as each other but for the last.
    fn pieces(&self, slot: usize) -> Vec<Span> {
        let whole = self.span(slot);
        let part = self.plan.slot_len / self.plan.pieces;
        let piece = |number: usize| {
            let len = if number + 1 < self.plan.pieces { part } else { whole.len - number * part };
            self.region.at(whole.offset + number * part, len)
        };
        (0..self.plan.pieces).map(piece).collect()
    }
}

impl Flow {
    /// A shared receive completed. The application moves what it brought to where the message
    /// belongs, before anybody looks.
    ///
    /// # Panics
    /// If it is one too many, or did not bring what it says and nothing else.
    pub(super) fn land(&mut self, rig: &mut Rig, shared_receives: &mut SharedReceives, done: &Completion) {
        let bytes = shared_receives.take(rig, done);
        let index = self.receives.get(self.landed).copied();
        let index = index.unwrap_or_else(|| panic!("no message needs a receive: {done:?}"));
        self.landed += 1;
        if done.status != WcStatus::Success {
            return;
        }
        let takes = self.messages[index].kind == Kind::Send;
        let (brought, rest) = bytes.split_at(if takes { self.messages[index].len } else { 0 });
        assert!(!takes || brought == self.bytes_of(index), "{}", self.describe(index, done));
        assert!(rest.iter().all(|byte| *byte == CONSUMED), "more than message {index} was written");
        if takes {
            self.deliver(rig, index);
        }
    }
}
