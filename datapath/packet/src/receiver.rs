//! Received frames: slots of a ring that the kernel fills, lent one burst after the other.

use crate::layout::Slot;
use crate::ring::Ring;
use libc::tpacket2_hdr;
use std::mem::size_of;
use std::sync::atomic::Ordering;

/// Most frames in one burst.
pub(crate) const BURST: usize = 32;
/// The kernel's head of a slot and the address behind it, before which nothing may be written.
const HEAD_LEN: usize = size_of::<tpacket2_hdr>() + size_of::<libc::sockaddr_ll>();
/// Destination and source of a frame, behind which its tag stands.
const MACS: usize = 12;
const TAG: usize = 4;

/// A frame's place.
#[derive(Clone, Copy, Debug)]
struct View {
    at: *const u8,
    len: usize,
}

/// Frames that came in.
#[derive(Debug)]
pub struct Receiver {
    ring: Ring,
    max_frame: usize,
    /// The slot that is read next.
    next: Slot,
    /// That up to which the kernel has got all back.
    returned: Slot,
    /// Slots between both.
    taken: usize,
    views: [View; BURST],
    count: usize,
}

// SAFETY: the views point into memory that `ring` keeps mapped wherever this goes.
unsafe impl Send for Receiver {}

impl Receiver {
    pub(crate) fn new(ring: Ring, max_frame: u16) -> Self {
        let first = ring.layout().first();
        Self {
            ring,
            max_frame: max_frame.into(),
            next: first,
            returned: first,
            taken: 0,
            views: [View { at: std::ptr::null(), len: 0 }; BURST],
            count: 0,
        }
    }

    /// Takes up to 32 frames; how many, and how many more were dropped because they are longer than
    /// a frame may be. Those of the burst before are given back.
    #[inline]
    pub fn burst(&mut self) -> (usize, usize) {
        self.release();
        while self.taken < BURST {
            let Some(head) = self.head(self.next) else { break };
            if let Some(view) = self.view(&head) {
                self.views[self.count] = view;
                self.count += 1;
            }
            self.next = self.ring.layout().next(self.next);
            self.taken += 1;
        }
        (self.count, self.taken - self.count)
    }

    /// What the kernel says of the frame in a slot, if one is there.
    #[inline]
    fn head(&self, slot: Slot) -> Option<tpacket2_hdr> {
        self.is_ours(slot).then(|| {
            // SAFETY: a slot begins with a head, and this one is ours: the kernel wrote the head
            // before the status that was read, and writes nothing until it has the slot back.
            unsafe { self.ring.at(slot).cast::<tpacket2_hdr>().read() }
        })
    }

    /// Returns `true` if the kernel has put a frame into this slot, which it has not got back.
    #[inline]
    fn is_ours(&self, slot: Slot) -> bool {
        self.ring.status(slot).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// The frame in the next slot, if it is whole and no longer than a frame may be.
    #[inline]
    fn view(&mut self, head: &tpacket2_hdr) -> Option<View> {
        let (mut first, mut len) = (usize::from(head.tp_mac), head.tp_snaplen as usize);
        // The kernel is trusted; the bounds of a view do not depend on that.
        if head.tp_len != head.tp_snaplen || first.checked_add(len)? > self.ring.layout().stride {
            return None;
        }
        if head.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
            first = self.put_tag_back(head, first, len)?;
            len += TAG;
        }
        let at = self.ring.at(self.next).wrapping_add(first).cast_const();
        (len <= self.max_frame).then_some(View { at, len })
    }

    /// The kernel keeps a VLAN tag beside the frame. Where the frame begins with it.
    #[cold]
    fn put_tag_back(&mut self, head: &tpacket2_hdr, first: usize, len: usize) -> Option<usize> {
        let tagged = first.checked_sub(TAG).filter(|tagged| *tagged >= HEAD_LEN && len >= MACS)?;
        let has_type = head.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
        let kind = if has_type { head.tp_vlan_tpid } else { libc::ETH_P_8021Q.try_into().ok()? };
        let at = self.ring.at(self.next).wrapping_add(tagged);
        // SAFETY: the slot is ours, and nobody has a view of it yet. The bytes lie behind the
        // kernel's head and end with the addresses of the frame, which lies within the slot.
        let moved = unsafe { std::slice::from_raw_parts_mut(at, TAG + MACS) };
        moved.copy_within(TAG.., 0);
        moved[MACS..MACS + 2].copy_from_slice(&kind.to_be_bytes());
        moved[MACS + 2..].copy_from_slice(&head.tp_vlan_tci.to_be_bytes());
        Some(tagged)
    }

    /// Frames that no burst has taken.
    #[must_use]
    pub fn waiting(&self) -> usize {
        // Full slots are in one piece, from the next one on.
        let (mut full, mut end) = (0, self.ring.layout().slots() - self.taken + 1);
        while full + 1 < end {
            let middle = full.midpoint(end);
            if self.is_ours(self.ring.layout().skip(self.next, middle - 1)) {
                full = middle;
            } else {
                end = middle;
            }
        }
        full
    }

    /// Frames of the burst.
    #[inline]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Frame `index` of the burst, from its Ethernet header on.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline]
    #[must_use]
    pub fn frame(&self, index: usize) -> &[u8] {
        let View { at, len } = self.views[..self.count][index];
        // SAFETY: `len` bytes of a slot, as was checked, in memory that `self` keeps mapped. The
        // slot is ours until `release`, which needs `self` for itself, and the kernel, which is
        // trusted, writes into no slot that is ours. No other process has the ring.
        unsafe { std::slice::from_raw_parts(at, len) }
    }

    /// Gives all slots of the burst back.
    #[inline]
    pub fn release(&mut self) {
        self.count = 0;
        while self.taken > 0 {
            self.ring.status(self.returned).store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.returned = self.ring.layout().next(self.returned);
            self.taken -= 1;
        }
    }
}
