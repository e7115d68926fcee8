//! Memory that is shared with the kernel, as slots.

use crate::layout::{Layout, Slot};
use memmap2::MmapRaw;
use std::sync::atomic::AtomicU32;

/// A ring of slots. Each begins with a status, which says whose it is.
#[derive(Debug)]
pub(crate) struct Ring {
    map: MmapRaw,
    layout: Layout,
}

impl Ring {
    /// The ring of this layout in memory of a socket.
    pub(crate) fn new(map: MmapRaw, layout: Layout) -> Self {
        assert!(layout.len() <= map.len(), "the whole ring is mapped");
        Self { map, layout }
    }

    #[inline]
    pub(crate) const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Where a slot is, which has as many bytes as the layout's stride.
    #[inline]
    pub(crate) fn at(&self, slot: Slot) -> *mut u8 {
        debug_assert!(slot.at + self.layout.stride <= self.layout.len());
        // In bounds, so the pointer does not wrap.
        self.map.as_mut_ptr().wrapping_add(slot.at)
    }

    /// Whose a slot is.
    #[inline]
    pub(crate) fn status(&self, slot: Slot) -> &AtomicU32 {
        // SAFETY: each slot begins with its status, aligned, within the ring, which `self` keeps
        // mapped; both sides use it by atomic accesses only while it may be the other's.
        unsafe { AtomicU32::from_ptr(self.at(slot).cast()) }
    }
}
