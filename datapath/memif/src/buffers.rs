//! The buffers of a ring: where they are in the shared memory.

use crate::region::Region;
use crate::ring::Desc;
use std::ptr::NonNull;
use std::sync::Arc;

/// Where the buffers of a ring are.
#[derive(Debug)]
pub(crate) enum Buffers {
    /// Ours, one for each slot, whatever the peer writes into descriptors: of a client.
    Own(Own),
    /// Where descriptors say, in these regions: of a server.
    Peers(Box<[Arc<Region>]>),
}

impl Buffers {
    /// `len`, or the length of our own buffers if that is less.
    pub(crate) fn limit(&self, len: usize) -> usize {
        if let Self::Own(own) = self { len.min(own.stride) } else { len }
    }
}

/// Buffers of one length side by side, as many as a ring has slots.
#[derive(Debug)]
pub(crate) struct Own {
    first: NonNull<u8>,
    stride: usize,
    /// Slots of the ring, less one.
    mask: u16,
    /// Keeps the memory.
    _region: Arc<Region>,
}

// SAFETY: `first` points into memory that the region keeps mapped wherever this goes.
unsafe impl Send for Own {}

impl Own {
    /// `slots` buffers, a power of two, from byte `first` of `region` on; `None` if it has not as
    /// many.
    pub(crate) fn new(region: &Arc<Region>, first: usize, stride: usize, slots: u16) -> Option<Self> {
        let first = NonNull::new(region.at(first, stride.checked_mul(slots.into())?)?)?;
        Some(Self { first, stride, mask: slots - 1, _region: Arc::clone(region) })
    }

    /// From one buffer to the next, and what each has, in bytes.
    #[inline]
    pub(crate) const fn stride(&self) -> usize {
        self.stride
    }

    /// The buffer of a slot.
    #[inline]
    pub(crate) fn at(&self, number: u16) -> *mut u8 {
        // Within the region, as was checked, so it does not wrap.
        self.first.as_ptr().wrapping_add(usize::from(number & self.mask) * self.stride)
    }
}

/// The `len` bytes that a descriptor of the peer's names, if the peer has them.
#[inline]
pub(crate) fn of_peer(regions: &[Arc<Region>], desc: Desc, len: usize) -> Option<*mut u8> {
    regions.get(usize::from(desc.region))?.at(desc.offset as usize, len)
}
