//! Memory of which only a part is registered, so that the rest shows what was written outside.

use core::ops::Range;
use core::ptr::NonNull;
use datapath::memory::HeapBacking;
use std::sync::Arc;
use verbs_api::Backing;

/// Zeroed bytes.
pub struct Arena(HeapBacking);

/// A range of them, to be registered.
pub struct Part {
    arena: Arc<Arena>,
    range: Range<usize>,
}

impl Arena {
    pub fn new(len: usize) -> Arc<Self> {
        Arc::new(Self(HeapBacking::new(len)))
    }

    /// What they are now.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.0.len()];
        // SAFETY: both are that long; the copy is no registered memory.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(self.0.base().as_ptr(), bytes.len()) };
        bytes
    }

    /// Those outside `range`.
    pub fn outside(&self, range: &Range<usize>) -> Vec<u8> {
        let mut bytes = self.bytes();
        bytes.drain(range.clone());
        bytes
    }
}

impl Part {
    pub fn of(arena: &Arc<Arena>, range: Range<usize>) -> Self {
        assert!(range.end <= arena.0.len());
        Self { arena: Arc::clone(arena), range }
    }
}

// SAFETY: the range is inside the arena, which lives as long as this and never moves its bytes;
// they are reached by pointers only.
unsafe impl Backing for Part {
    fn base(&self) -> NonNull<u8> {
        // SAFETY: as above.
        unsafe { self.arena.0.base().add(self.range.start) }
    }

    fn len(&self) -> usize {
        self.range.len()
    }
}
