//! Queues of slots that share one array of links, as each slot is in one of them at most.

const NONE: u32 = u32::MAX;

/// The ends of a queue.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    head: u32,
    tail: u32,
}

impl Ends {
    /// Of a queue without slots.
    pub const EMPTY: Self = Self { head: NONE, tail: NONE };

    /// The first slot.
    #[inline]
    #[must_use]
    pub const fn first(&self) -> Option<u32> {
        if self.head == NONE { None } else { Some(self.head) }
    }

    /// Returns `true` if there is none.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.head == NONE
    }
}

/// The slot behind each slot, of queues whose [`Ends`] are elsewhere.
#[derive(Debug)]
pub struct Links(Box<[u32]>);

impl Links {
    /// Links of slots below `slots`.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        Self(vec![NONE; slots].into())
    }

    /// Puts a slot at the end of a queue. The slot must be in none.
    #[inline]
    pub fn push_back(&mut self, ends: &mut Ends, slot: u32) {
        self.0[slot as usize] = NONE;
        let last = core::mem::replace(&mut ends.tail, slot);
        if ends.head == NONE {
            ends.head = slot;
        } else {
            self.0[last as usize] = slot;
        }
    }

    /// Puts a slot at the front of a queue. The slot must be in none.
    pub fn push_front(&mut self, ends: &mut Ends, slot: u32) {
        self.0[slot as usize] = ends.head;
        if ends.head == NONE {
            ends.tail = slot;
        }
        ends.head = slot;
    }

    /// Takes the front of a queue.
    #[inline]
    pub fn pop_front(&mut self, ends: &mut Ends) -> Option<u32> {
        let slot = ends.first()?;
        ends.head = self.0[slot as usize];
        Some(slot)
    }

    /// Takes a slot out of a queue, wherever it stands. False if it is not there.
    pub fn remove(&mut self, ends: &mut Ends, slot: u32) -> bool {
        let (mut before, mut at) = (NONE, ends.head);
        while at != NONE && at != slot {
            (before, at) = (at, self.0[at as usize]);
        }
        if at == NONE {
            return false;
        }
        let behind = self.0[at as usize];
        if before == NONE {
            ends.head = behind;
        } else {
            self.0[before as usize] = behind;
        }
        if behind == NONE {
            ends.tail = before;
        }
        true
    }

    /// The slot that stands so many places behind the first of a queue.
    pub fn nth(&self, ends: &Ends, places: usize) -> Option<u32> {
        let behind = |slot: u32| self.0.get(slot as usize).copied().filter(|next| *next != NONE);
        (0..places).try_fold(ends.first()?, |slot, _| behind(slot))
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

/// `N` queues.
#[derive(Debug)]
pub struct SlotLists<const N: usize> {
    ends: [Ends; N],
    links: Links,
    len: usize,
}

impl<const N: usize> SlotLists<N> {
    /// Queues for slots below `slots`.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        Self { ends: [Ends::EMPTY; N], links: Links::new(slots), len: 0 }
    }

    /// Puts a slot at the end of a queue. The slot must be in none.
    pub fn push_back(&mut self, list: usize, slot: u32) {
        self.links.push_back(&mut self.ends[list], slot);
        self.len += 1;
    }

    /// Puts a slot at the front of a queue. The slot must be in none.
    pub fn push_front(&mut self, list: usize, slot: u32) {
        self.links.push_front(&mut self.ends[list], slot);
        self.len += 1;
    }

    /// Takes the front of a queue.
    pub fn pop_front(&mut self, list: usize) -> Option<u32> {
        let slot = self.links.pop_front(&mut self.ends[list])?;
        self.len -= 1;
        Some(slot)
    }

    /// Returns `true` if a queue is empty.
    #[must_use]
    pub fn is_empty(&self, list: usize) -> bool {
        self.ends[list].is_empty()
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.links.bytes()
    }

    /// Slots in all of them.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }
}
