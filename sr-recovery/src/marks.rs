//! Marks of resent packets, oldest first.

use wire::Psn;

/// End of the list.
const END: u16 = u16::MAX;
/// In place of the link to the one before: not in the list.
const UNMARKED: u16 = u16::MAX - 1;

#[derive(Clone, Copy, Debug)]
struct Node {
    psn: Psn,
    mark: Psn,
    /// Number of the resend, counted up and wrapping.
    order: u32,
    /// The packet had been declared lost: what arrives is the resend, not a copy sent before.
    was_lost: bool,
    prev: u16,
    next: u16,
}

/// A first-in-first-out list of (PSN, mark) with one entry per PSN at most, so that it never
/// outgrows the window.
///
/// Marks are values of `snd_nxt`, which never decreases: the front has the lowest mark, and if that
/// one is not yet evidence of a loss then no other is. Linked through an array indexed by the PSN
/// modulo the capacity, so that a packet that is SACKed or resent once more leaves the middle of
/// the list in constant time.
#[derive(Clone, Debug)]
pub(crate) struct MarkList {
    nodes: Box<[Node]>,
    head: u16,
    tail: u16,
    len: u32,
    /// Resends so far.
    resends: u32,
}

impl MarkList {
    /// For windows of `capacity` packets, a power of two up to 2^15.
    pub(crate) fn new(capacity: u32) -> Self {
        debug_assert!(capacity.is_power_of_two() && capacity <= 1 << 15);
        let unmarked = Node {
            psn: Psn::new(0),
            mark: Psn::new(0),
            order: 0,
            was_lost: false,
            prev: UNMARKED,
            next: END,
        };
        Self {
            nodes: vec![unmarked; capacity as usize].into_boxed_slice(),
            head: END,
            tail: END,
            len: 0,
            resends: 0,
        }
    }

    /// Bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.nodes)
    }

    /// Number of marked PSNs.
    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    /// Is this PSN marked?
    pub(crate) fn contains(&self, psn: Psn) -> bool {
        let node = &self.nodes[self.index(psn)];
        node.prev != UNMARKED && node.psn == psn
    }

    /// The PSN with the oldest mark, and the mark.
    pub(crate) fn front(&self) -> Option<(Psn, Psn)> {
        self.nodes.get(usize::from(self.head)).map(|node| (node.psn, node.mark))
    }

    /// Was the PSN with the oldest mark resent before the resend of this number?
    pub(crate) fn front_is_before(&self, order: u32) -> bool {
        let front = self.nodes.get(usize::from(self.head));
        front.is_some_and(|node| node.order.wrapping_sub(order).cast_signed() < 0)
    }

    /// Gives the PSN a mark, in place of one that it had. A mark before the newest one counts as
    /// the newest one. `was_lost`: it was resent because it had been declared lost.
    pub(crate) fn mark(&mut self, psn: Psn, mark: Psn, was_lost: bool) {
        let newest = self.nodes.get(usize::from(self.tail)).map_or(mark, |node| node.mark);
        let mark = if mark.is_before(newest) { newest } else { mark };
        let index = self.index(psn);
        self.unlink(index);
        self.resends = self.resends.wrapping_add(1);
        self.nodes[index] = Node { psn, mark, order: self.resends, was_lost, prev: self.tail, next: END };
        let link = self.link(index);
        match self.nodes.get_mut(usize::from(self.tail)) {
            Some(tail) => tail.next = link,
            None => self.head = link,
        }
        self.tail = link;
        self.len += 1;
    }

    /// Takes the PSN's mark away, if it has one. Returns the number of its resend if it had been
    /// declared lost before: of others it is not known which copy arrived.
    pub(crate) fn remove(&mut self, psn: Psn) -> Option<u32> {
        let index = self.index(psn);
        if !self.contains(psn) {
            return None;
        }
        self.unlink(index);
        let Node { order, was_lost, .. } = self.nodes[index];
        was_lost.then_some(order)
    }

    /// Takes all marks away.
    pub(crate) fn clear(&mut self) {
        while let Some((psn, _)) = self.front() {
            self.remove(psn);
        }
    }

    fn index(&self, psn: Psn) -> usize {
        psn.get() as usize & (self.nodes.len() - 1)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the capacity is at most 2^15")]
    const fn link(&self, index: usize) -> u16 {
        index as u16
    }

    fn unlink(&mut self, index: usize) {
        let Node { prev, next, .. } = self.nodes[index];
        if prev == UNMARKED {
            return;
        }
        match self.nodes.get_mut(usize::from(prev)) {
            Some(node) => node.next = next,
            None => self.head = next,
        }
        match self.nodes.get_mut(usize::from(next)) {
            Some(node) => node.prev = prev,
            None => self.tail = prev,
        }
        self.nodes[index].prev = UNMARKED;
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests;
