//! Where the frames of a ring are.

/// Where a received frame without a VLAN tag begins in its slot, in bytes: on a cache line. Before
/// it are the kernel's head of the slot, the frame's address, and room for a tag.
pub(crate) const RECEIVED_AT: usize = 128;
/// Where the kernel has it by itself: behind a head of 32 bytes, an address of 20 and 16 for an
/// Ethernet header, up to a multiple of 16, less an Ethernet header
/// (Documentation/networking/packet_mmap.rst).
const KERNEL_AT: usize = 80 - 14;
/// What the kernel is asked to leave free besides.
pub(crate) const RESERVE: usize = RECEIVED_AT - KERNEL_AT;
/// Where a frame to send begins in its slot, in bytes: on the first cache line behind the head.
pub(crate) const SENT_AT: usize = 64;
/// Where what the kernel is told of such a frame begins: a `virtio_net_hdr`, right before it.
pub(crate) const TOLD_AT: usize = SENT_AT - TOLD_LEN;
/// Its length in bytes.
pub(crate) const TOLD_LEN: usize = 10;
/// Where in it the length stands of what the kernel copies: `hdr_len`.
pub(crate) const COPIED_AT: usize = 2;
/// Bytes of a block, which is a piece of memory of the kernel's. It is in one piece if it is not
/// long.
const BLOCK: usize = 64 * 1024;
const LINE: usize = 64;

/// The slots of a ring: blocks of equal length, each with as many slots as it has room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// From a slot to the next in its block, in bytes.
    pub stride: usize,
    pub per_block: usize,
    pub blocks: usize,
}

impl Layout {
    /// At least so many slots, each for a frame of up to `max_frame` bytes behind `first` bytes.
    ///
    /// A slot is an odd number of cache lines long, so that the beginnings of frames, which are
    /// read first, are spread over all sets of a cache.
    pub(crate) const fn new(slots: usize, first: usize, max_frame: u16) -> Self {
        let stride = ((first + max_frame as usize).div_ceil(LINE) | 1) * LINE;
        let per_block = BLOCK / stride;
        Self { stride, per_block, blocks: slots.div_ceil(per_block) }
    }

    pub(crate) const fn slots(&self) -> usize {
        self.blocks * self.per_block
    }

    /// In bytes.
    pub(crate) const fn len(&self) -> usize {
        self.blocks * BLOCK
    }

    /// The next slot; behind the last comes the first.
    #[inline]
    pub(crate) const fn next(&self, slot: Slot) -> Slot {
        if slot.left > 1 {
            return Slot { at: slot.at + self.stride, left: slot.left - 1 };
        }
        let at = slot.at - (self.per_block - 1) * self.stride + BLOCK;
        Slot { at: if at == self.len() { 0 } else { at }, left: self.per_block }
    }

    /// The first slot.
    pub(crate) const fn first(&self) -> Slot {
        Slot { at: 0, left: self.per_block }
    }

    /// The slot that is `distance` slots behind this one.
    pub(crate) const fn skip(&self, slot: Slot, distance: usize) -> Slot {
        let number = slot.at / BLOCK * self.per_block + (self.per_block - slot.left);
        let number = (number + distance) % self.slots();
        let (block, in_block) = (number / self.per_block, number % self.per_block);
        Slot { at: block * BLOCK + in_block * self.stride, left: self.per_block - in_block }
    }

    /// As the kernel wants it.
    pub(crate) fn request(&self) -> libc::tpacket_req {
        let number = |value: usize| value.try_into().unwrap_or(libc::c_uint::MAX);
        libc::tpacket_req {
            tp_block_size: number(BLOCK),
            tp_block_nr: number(self.blocks),
            tp_frame_size: number(self.stride),
            tp_frame_nr: number(self.slots()),
        }
    }
}

/// A slot of a ring. Whoever has one has it of that ring's [`Layout`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    /// In bytes from the beginning of the ring.
    pub at: usize,
    /// Slots from this one to the end of its block.
    left: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_room_and_lies_in_one_block() {
        for max_frame in 366..=9234 {
            let layout = Layout::new(512, RECEIVED_AT, max_frame);
            assert!(layout.slots() >= 512 && layout.stride >= RECEIVED_AT + usize::from(max_frame));
            assert!(layout.stride.is_multiple_of(64) && layout.stride / 64 % 2 == 1, "{layout:?}");
            assert!(layout.per_block * layout.stride <= BLOCK && BLOCK.is_multiple_of(4096));
        }
    }

    #[test]
    fn slots_follow_each_other_around_the_ring() {
        let layout = Layout::new(100, SENT_AT, 4218);
        let mut slot = layout.first();
        for number in 0..2 * layout.slots() {
            assert_eq!(slot, layout.skip(layout.first(), number), "{number}");
            assert_eq!(layout.skip(slot, layout.slots()), slot);
            assert_eq!(slot.at % BLOCK % layout.stride, 0);
            assert!(slot.at + layout.stride <= layout.len());
            slot = layout.next(slot);
        }
        assert_eq!(slot, layout.first());
    }
}
