//! Packets one way: buffers of a ring, lent one after the other.

use crate::buffers::{Buffers, of_peer};
use crate::distance::{Distance, clock_step};
use crate::error::Refusal;
use crate::heads::{HEAD_LEN, Heads};
use crate::interrupt::Interrupt;
use crate::prefetch;
use crate::ring::{Desc, Ring};
use crate::stage::Stage;
use std::hint::black_box;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// Most packets in one burst.
pub(crate) const BURST: usize = 32;

/// Packets between the one that is lent and the one whose buffer is fetched.
const PREFETCH_DISTANCE: u16 = 8;

/// Both sides' counts of a ring. The client's is `head`, which is ahead of the server's by what the
/// client has handed over: packets, or free buffers.
#[derive(Debug)]
struct Counts {
    ring: Ring,
    is_client: bool,
}

impl Counts {
    /// Whose buffers they are says which side this is.
    const fn new(ring: Ring, buffers: &Buffers) -> Self {
        Self { ring, is_client: matches!(buffers, Buffers::Own(_)) }
    }

    fn ours(&self) -> &AtomicU16 {
        if self.is_client { self.ring.head() } else { self.ring.tail() }
    }

    fn theirs(&self) -> &AtomicU16 {
        if self.is_client { self.ring.tail() } else { self.ring.head() }
    }

    /// Starts to fetch the line of our count, which will be stored soon. The peer polls on that
    /// line, so it comes from there: asked for when a packet is finished, it comes while the
    /// packet's own lines leave. Asked for much earlier, as for a long batch, the peer may have it
    /// back before the store, which then waits as it would without.
    #[inline]
    fn prefetch_count(&self) {
        prefetch::write(self.ours().as_ptr().cast(), size_of::<AtomicU16>());
    }

    /// Slots from number `next` on that the peer has left to us; `all` of them are ours when it
    /// counts as many as we do.
    fn left(&self, next: u16, all: u16) -> Result<u16, Refusal> {
        let left = self.theirs().load(Ordering::Acquire).wrapping_add(all).wrapping_sub(next);
        if left > self.ring.size() {
            return Err(Refusal::Protocol("it counts more slots than a ring has"));
        }
        Ok(left)
    }
}

/// Packets to the peer.
#[derive(Debug)]
pub struct Sender {
    counts: Counts,
    buffers: Buffers,
    /// Longest packet, in bytes.
    max_len: usize,
    /// What of the next buffers is fetched ahead, in bytes: they will have a packet like the one
    /// before.
    expected_len: usize,
    /// The slot to lend next.
    next: u16,
    /// That up to which the peer has been told.
    told: u16,
    /// `told` has passed 0 again: more packets were committed than it says.
    went_round: bool,
    /// Slots from `next` on that are known to be free.
    free: u16,
    /// Region of the buffer lent last.
    region: u16,
    /// Where long packets are built while the peer is far away.
    stage: Stage,
    distance: Distance,
    /// Wakes a peer that sleeps.
    wake: Option<Interrupt>,
    broken: Option<Refusal>,
}

impl Sender {
    pub(crate) fn new(ring: Ring, buffers: Buffers, max_len: usize, wake: Option<Interrupt>) -> Self {
        let max_len = buffers.limit(max_len);
        Self {
            counts: Counts::new(ring, &buffers),
            max_len,
            buffers,
            expected_len: 0,
            next: 0,
            told: 0,
            went_round: false,
            free: 0,
            region: 0,
            stage: Stage::new(max_len),
            distance: Distance::new(clock_step()),
            wake,
            broken: None,
        }
    }

    /// The next buffer, of as many bytes as the longest packet has, whatever is in it; `None` if
    /// all are full. The same again until [`Sender::commit`].
    #[inline]
    pub fn lend(&mut self) -> Option<&mut [u8]> {
        if self.free == 0 && !self.look() {
            return None;
        }
        let ring = &self.counts.ring;
        let expected = self.next.wrapping_add(PREFETCH_DISTANCE);
        // What lies beyond the free slots is the peer's still, and not worth to be taken away from
        // it.
        let expects = self.free > PREFETCH_DISTANCE;
        if expects {
            ring.prefetch(expected.wrapping_add(PREFETCH_DISTANCE));
        }
        let is_staged = self.stage.is_for(self.expected_len);
        let expects = expects && !is_staged;
        let at = match &self.buffers {
            Buffers::Own(own) => {
                if expects {
                    prefetch::write(own.at(expected), self.expected_len);
                }
                Some(own.at(self.next))
            }
            Buffers::Peers(regions) => {
                if expects && let Some(at) = of_peer(regions, ring.desc(expected), self.expected_len) {
                    prefetch::write(at, self.expected_len);
                }
                let desc = ring.desc(self.next);
                self.region = desc.region;
                of_peer(regions, desc, self.max_len).filter(|_| desc.length as usize >= self.max_len)
            }
        };
        let Some(at) = at else {
            self.broken = Some(Refusal::Protocol("a free buffer is too short, or not in its memory"));
            return None;
        };
        let staged = if is_staged { self.stage.lend(at) } else { None };
        // SAFETY: `max_len` bytes of the stage, or within a region, which `self` keeps mapped. The
        // slot is ours until the count that hands it over is stored, and is borrowed from `self`,
        // which stores it. That the peer keeps off it meanwhile is the contract of the protocol
        // (see "Trust" in the crate's documentation).
        Some(unsafe { std::slice::from_raw_parts_mut(staged.unwrap_or(at), self.max_len) })
    }

    /// Looks for free slots.
    fn look(&mut self) -> bool {
        let left = if self.distance.is_due() { self.measure() } else { self.left() };
        match left {
            Ok(free) => self.free = free,
            Err(refusal) => self.broken = Some(refusal),
        }
        self.free > 0
    }

    fn left(&self) -> Result<u16, Refusal> {
        self.counts.left(self.next, self.all())
    }

    /// Looks for free slots, and how long the line with the peer's count takes to come. If there
    /// are some, the peer has written it since the last look.
    #[cold]
    fn measure(&mut self) -> Result<u16, Refusal> {
        let begun = Instant::now();
        let left = self.left();
        let came = Instant::now();
        // The line is here now, so that this is what all but its way takes.
        let _ = black_box(self.left());
        let rest = came.elapsed();
        if matches!(left, Ok(1..)) {
            self.took(came.duration_since(begun).saturating_sub(rest));
        }
        left
    }

    /// A line took this time to come from the peer. No buffer is lent.
    fn took(&mut self, time: Duration) {
        if let Some(is_far) = self.distance.note(time) {
            self.stage.set_far(is_far);
        }
    }

    /// Lines come from afar from now on, or from nearby; none is measured.
    #[cfg(test)]
    pub(crate) fn move_peer(&mut self, is_far: bool) {
        self.distance = Distance::new(Duration::MAX);
        let time = Duration::from_nanos(if is_far { 170 } else { 30 });
        // A new `Distance` begins near.
        self.stage.set_far(false);
        (0..20).for_each(|_| self.took(time));
    }

    /// Returns `true` if the buffer that is lent is copied past the caches.
    #[cfg(test)]
    pub(crate) const fn is_staging(&self) -> bool {
        self.stage.has_packet()
    }

    /// Slots that are ours when both counts are equal: all of a client's ring, none of a server's.
    fn all(&self) -> u16 {
        if self.counts.is_client { self.counts.ring.size() } else { 0 }
    }

    /// The first `len` bytes of the buffer lent last are a packet, for the next [`Sender::flush`].
    ///
    /// # Panics
    /// If none is lent, or the packet is too long.
    #[inline]
    pub fn commit(&mut self, len: usize) {
        assert!(self.free > 0, "no buffer is lent");
        assert!(len <= self.max_len, "a packet of {len} bytes in a buffer of {}", self.max_len);
        if self.stage.has_packet() {
            // SAFETY: there is one, whose length was just looked at; its buffer is that of the slot
            // that is lent, as `lend` says.
            unsafe { self.stage.leave(len) };
        }
        #[expect(clippy::cast_possible_truncation, reason = "no buffer is that long")]
        self.counts.ring.set_length(self.next, self.region, len as u32);
        self.expected_len = len.min(prefetch::EXPECTED);
        if self.next == self.told {
            self.counts.prefetch_count();
        }
        self.next = self.next.wrapping_add(1);
        self.free -= 1;
    }

    /// Hands over what was committed; how many packets that were.
    #[inline]
    pub fn flush(&mut self) -> u16 {
        let count = self.next.wrapping_sub(self.told);
        if count > 0 {
            self.counts.ours().store(self.next, Ordering::Release);
            self.went_round |= self.next < self.told;
            self.told = self.next;
            if !self.counts.ring.is_polled() {
                self.wake();
            }
        }
        count
    }

    /// Packets that were committed, and that the peer has not given back yet: it may not have seen
    /// them.
    #[must_use]
    pub fn waiting(&self) -> u16 {
        let size = self.counts.ring.size();
        // Slots for which a client has given no buffers yet hold no packets.
        let most = if self.went_round || self.next < self.told { size } else { self.next };
        // A peer that counts nonsense has nothing of ours that it could still take.
        self.left().map_or(0, |free| (size - free).min(most))
    }

    #[cold]
    fn wake(&self) {
        if let Some(wake) = &self.wake {
            wake.raise();
        }
    }

    /// What the peer did that none may do.
    pub(crate) fn take_broken(&mut self) -> Option<Refusal> {
        self.broken.take()
    }
}

/// A packet's place.
#[derive(Clone, Copy, Debug)]
struct View {
    at: *const u8,
    len: usize,
    /// Bytes that may be read there, if they are fewer than a head has.
    room: usize,
}

impl View {
    const NONE: Self = Self { at: std::ptr::null(), len: 0, room: 0 };
}

/// Packets from the peer.
#[derive(Debug)]
pub struct Receiver {
    counts: Counts,
    buffers: Buffers,
    max_len: usize,
    /// The slot that is read next.
    next: u16,
    /// That up to which the peer has been told.
    told: u16,
    /// Slots up to the next are the rest of a packet that is dropped.
    in_dropped: bool,
    views: [View; BURST],
    heads: Heads,
    count: usize,
    /// Whether the first packet of the burst is being fetched since before it was known: 0 or 1.
    fetched: usize,
    /// The packet that came last.
    last: View,
    /// From the one before it to that, in bytes: buffers lie side by side, mostly.
    step: isize,
    /// Raised by the peer, if it was asked for that.
    interrupt: Option<Interrupt>,
    broken: Option<Refusal>,
}

// SAFETY: the views point into regions that `buffers` keeps mapped wherever this goes.
unsafe impl Send for Receiver {}

impl Receiver {
    pub(crate) fn new(ring: Ring, buffers: Buffers, max_len: usize, interrupt: Option<Interrupt>) -> Self {
        Self {
            counts: Counts::new(ring, &buffers),
            max_len: buffers.limit(max_len),
            buffers,
            next: 0,
            told: 0,
            in_dropped: false,
            views: [View::NONE; BURST],
            heads: Heads::new(),
            count: 0,
            fetched: 0,
            last: View::NONE,
            step: 0,
            interrupt,
            broken: None,
        }
    }

    /// Hands all buffers to the server: the client's first step once the connection stands.
    pub(crate) fn hand_over_all(&self) {
        self.counts.ours().store(self.counts.ring.size(), Ordering::Release);
    }

    /// Takes up to 32 packets; how many, and how many more were dropped because they were too long
    /// or in pieces. Those of the burst before are given back.
    #[inline]
    pub fn burst(&mut self) -> (usize, usize) {
        self.release();
        let left = match self.counts.left(self.next, 0) {
            Ok(left) => usize::from(left).min(BURST),
            Err(refusal) => {
                self.broken = Some(refusal);
                0
            }
        };
        let mut expected = (std::ptr::null(), 0);
        if left > 0 {
            // Fetched with the descriptor, which comes from the peer's processor, too, and not
            // after it.
            let at = match &self.buffers {
                Buffers::Own(own) => own.at(self.next).cast_const(),
                Buffers::Peers(_) => self.last.at.wrapping_offset(self.step),
            };
            expected = (at, self.last.len.min(prefetch::EXPECTED));
            prefetch::read(expected.0, expected.1);
        }
        let mut dropped = 0;
        for _ in 0..left {
            let desc = self.counts.ring.desc(self.next);
            if let Some(view) = self.view(desc) {
                self.step = view.at.addr().wrapping_sub(self.last.at.addr()).cast_signed();
                self.last = view;
                self.views[self.count] = view;
                self.count += 1;
            } else if !desc.more {
                // Of a packet in pieces the last one counts.
                dropped += 1;
            }
            self.next = self.next.wrapping_add(1);
        }
        let View { at, len, .. } = self.views[0];
        let is_expected = (at, len.min(prefetch::EXPECTED)) == expected;
        self.fetched = usize::from(is_expected && self.count > 0);
        (self.count, dropped)
    }

    /// The packet in the next slot, if it is whole.
    #[inline]
    fn view(&mut self, desc: Desc) -> Option<View> {
        if std::mem::replace(&mut self.in_dropped, desc.more) || desc.more {
            return None;
        }
        let len = desc.length as usize;
        if len > self.max_len {
            return None;
        }
        // A head is copied as a whole where there is one, whatever is behind the packet.
        let long = len.max(HEAD_LEN);
        let (at, room) = match &self.buffers {
            Buffers::Own(own) if len > own.stride() => return None,
            Buffers::Own(own) => (own.at(self.next), long.min(own.stride())),
            Buffers::Peers(regions) => match of_peer(regions, desc, long) {
                Some(at) => (at, long),
                None => (of_peer(regions, desc, len)?, len),
            },
        };
        Some(View { at, len, room: room.min(HEAD_LEN) })
    }

    /// Slots with packets that no burst has taken; of a packet in pieces each piece is one.
    #[must_use]
    pub fn waiting(&self) -> u16 {
        self.counts.left(self.next, 0).unwrap_or(0)
    }

    /// Packets of the burst.
    #[inline]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// The first bytes of packet `index` of the burst, in memory of our own: whatever the peer
    /// writes from now on, they stay as they are until [`Receiver::release`]. Those behind the end
    /// of a short packet are anything.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline]
    #[must_use]
    pub fn head(&self, index: usize) -> &[u8; HEAD_LEN] {
        let View { at, room, .. } = self.views[..self.count][index];
        // SAFETY: `room` bytes within a region, which `self` keeps mapped.
        unsafe { self.heads.get(index, at, room) }
    }

    /// Packets at the beginning of the burst that are fetched already, whole or as far as is worth
    /// it.
    #[inline]
    #[must_use]
    pub const fn fetched(&self) -> usize {
        self.fetched
    }

    /// Packet `index` of the burst.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline]
    #[must_use]
    pub fn packet(&self, index: usize) -> &[u8] {
        let View { at, len, .. } = self.views[..self.count][index];
        // SAFETY: `len` bytes within a region, which `self` keeps mapped; the slot is ours until
        // `release`, which needs `self` for itself. That the peer keeps off it meanwhile is the
        // contract of the protocol (see "Trust" in the crate's documentation).
        unsafe { std::slice::from_raw_parts(at, len) }
    }

    /// Asks the peer to raise an interrupt whenever it hands packets over, and returns it; `None`
    /// if it cannot.
    ///
    /// A peer that is handing packets over at this moment may not have seen it: memif asks no
    /// barrier of a sender, between the count that it stores and the flag that it loads. Who has
    /// asked waits for a while, as long as no store takes to become visible, and looks at the queue
    /// once more. From then on no packet comes without an interrupt.
    #[must_use]
    pub fn enable_interrupt(&self) -> Option<Interrupt> {
        let interrupt = self.interrupt.clone()?;
        self.counts.ring.unmask_interrupt();
        Some(interrupt)
    }

    /// Packets are polled for again: to raise an interrupt costs the peer a system call.
    pub fn disable_interrupt(&self) {
        self.counts.ring.mask_interrupt();
    }

    /// Gives all buffers of the burst back.
    #[inline]
    pub fn release(&mut self) {
        self.count = 0;
        self.heads.clear();
        if self.told == self.next {
            return;
        }
        let ahead = match &self.buffers {
            Buffers::Own(own) => {
                while self.told != self.next {
                    #[expect(clippy::cast_possible_truncation, reason = "no buffer is that long")]
                    self.counts.ring.set_length(self.told, 0, own.stride() as u32);
                    self.told = self.told.wrapping_add(1);
                }
                self.counts.ring.size()
            }
            Buffers::Peers(_) => 0,
        };
        self.told = self.next;
        self.counts.ours().store(self.next.wrapping_add(ahead), Ordering::Release);
    }

    /// What the peer did that none may do.
    pub(crate) fn take_broken(&mut self) -> Option<Refusal> {
        self.broken.take()
    }
}
