//! Several queues of slots that share one array of links, as each slot is in one of them at most.

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Ends {
    head: u32,
    tail: u32,
}

/// `N` queues.
#[derive(Debug)]
pub struct SlotLists<const N: usize> {
    ends: [Ends; N],
    /// The slot behind each slot.
    next: Box<[u32]>,
    len: usize,
}

impl<const N: usize> SlotLists<N> {
    /// Queues for slots below `slots`.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        Self { ends: [Ends { head: NONE, tail: NONE }; N], next: vec![NONE; slots].into(), len: 0 }
    }

    /// Puts a slot at the end of a queue. The slot must be in none.
    pub fn push_back(&mut self, list: usize, slot: u32) {
        let ends = &mut self.ends[list];
        self.next[slot as usize] = NONE;
        if ends.head == NONE {
            ends.head = slot;
        } else {
            self.next[ends.tail as usize] = slot;
        }
        ends.tail = slot;
        self.len += 1;
    }

    /// Puts a slot at the front of a queue. The slot must be in none.
    pub fn push_front(&mut self, list: usize, slot: u32) {
        let ends = &mut self.ends[list];
        self.next[slot as usize] = ends.head;
        if ends.head == NONE {
            ends.tail = slot;
        }
        ends.head = slot;
        self.len += 1;
    }

    /// Takes the front of a queue.
    pub fn pop_front(&mut self, list: usize) -> Option<u32> {
        let ends = &mut self.ends[list];
        let slot = (ends.head != NONE).then_some(ends.head)?;
        ends.head = self.next[slot as usize];
        self.len -= 1;
        Some(slot)
    }

    /// Returns `true` if a queue is empty.
    #[must_use]
    pub fn is_empty(&self, list: usize) -> bool {
        self.ends[list].head == NONE
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.next)
    }

    /// Slots in all of them.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }
}
