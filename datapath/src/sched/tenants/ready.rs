//! Ready queue pairs of a tenant.

use crate::sched::slot_lists::{Ends, Links};

/// Ready queue pairs, in the order of their turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    ends: Ends,
    len: u32,
}

impl Ready {
    pub const NONE: Self = Self { ends: Ends::EMPTY, len: 0 };

    /// How many there are.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Puts a slot last, which must be in no queue.
    #[inline]
    pub fn push_back(&mut self, links: &mut Links, slot: u32) {
        links.push_back(&mut self.ends, slot);
        self.len += 1;
    }

    /// Puts a slot first, which must be in no queue.
    pub fn push_front(&mut self, links: &mut Links, slot: u32) {
        links.push_front(&mut self.ends, slot);
        self.len += 1;
    }

    /// Takes the first.
    #[inline]
    pub fn pop_front(&mut self, links: &mut Links) -> Option<u32> {
        let slot = links.pop_front(&mut self.ends)?;
        self.len -= 1;
        Some(slot)
    }

    /// Takes a slot out, wherever it stands. False if it is not there.
    pub fn remove(&mut self, links: &mut Links, slot: u32) -> bool {
        let was_there = links.remove(&mut self.ends, slot);
        self.len -= u32::from(was_there);
        was_there
    }

    /// The one so many places behind the first.
    pub fn nth(&self, links: &Links, places: usize) -> Option<u32> {
        links.nth(&self.ends, places)
    }
}
