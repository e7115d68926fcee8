//! The sending half: which packets are SACKed, which are lost (protocol.md 2.4, "Sending").
//!
//! A PSN `q` of the window is lost when it is un-SACKed, does not wait in the RetryQ already,
//! `highest_sack - q > threshold`, and it has no mark or `highest_sack - mark[q] >= threshold`; or,
//! with a threshold of 0, when it was resent and a packet that was lost and resent after it has
//! arrived (docs/adr/0008). Nobody searches for such PSNs. Those without a mark are found by a
//! pointer that only moves forward: everything before it is SACKed, waits or is marked. Those with
//! a mark are found at the front of the list of marks, the oldest first. Hence a PSN costs constant
//! work for each time that it is sent.

use wire::Psn;

use crate::{
    bitmap::PsnBitmap,
    contexts::Context,
    marks::MarkList,
    message::{Generation, StreamId},
    outbox::Outbox,
};

/// The scoreboard of one sender.
#[derive(Debug)]
pub(crate) struct Scoreboard {
    sacked: PsnBitmap,
    /// Declared lost and not sent again yet: in the RetryQ, or on the way to it.
    waiting: PsnBitmap,
    marks: MarkList,
    una: Psn,
    snd_nxt: Psn,
    /// The PSN after the highest SACKed one; `una` or before it if nothing is SACKed.
    sack_end: Psn,
    /// Every PSN of `[una, examined)` is SACKed, waits or is marked.
    examined: Psn,
    /// Number of the latest resend that is known to have arrived.
    resend_arrived: Option<u32>,
    /// Is `una` known? A first record that has none is about a PSN at or above it.
    anchored: bool,
}

/// What the receiver said it has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sacks {
    pub(crate) sack: Option<Psn>,
    pub(crate) bitmap_base: Psn,
    pub(crate) bitmap: u64,
}

/// Where what one record says of losses goes, and what finding them cost.
pub(crate) struct Losses<'a> {
    pub(crate) stream: StreamId,
    pub(crate) generation: Generation,
    pub(crate) outbox: &'a mut Outbox,
    pub(crate) packets: u64,
    pub(crate) work: u64,
}

impl Losses<'_> {
    /// A packet is lost.
    pub(crate) fn push(&mut self, psn: Psn) {
        self.outbox.push_lost(self.stream, self.generation, psn);
        self.packets += 1;
    }

    /// What was declared lost has arrived.
    fn found(&mut self, psn: Psn) {
        self.outbox.push_found(self.stream, self.generation, psn);
    }
}

impl Context for Scoreboard {
    fn new(window: u32) -> Self {
        let sacked = PsnBitmap::new(window);
        Self {
            waiting: sacked.clone(),
            marks: MarkList::new(sacked.capacity()),
            sacked,
            una: Psn::new(0),
            snd_nxt: Psn::new(0),
            sack_end: Psn::new(0),
            examined: Psn::new(0),
            resend_arrived: None,
            anchored: false,
        }
    }

    fn bytes(&self) -> usize {
        self.sacked.bytes() + self.waiting.bytes() + self.marks.bytes()
    }
}

impl Scoreboard {
    /// Begins with nothing SACKed, lost or marked. `una` may turn out to be lower if the record had
    /// none.
    pub(crate) fn reset(&mut self, una: Psn, snd_nxt: Psn, anchored: bool) {
        self.marks.clear();
        self.sacked.reset(una);
        self.waiting.reset(una);
        (self.una, self.snd_nxt, self.sack_end, self.examined) = (una, snd_nxt, una, una);
        self.resend_arrived = None;
        self.anchored = anchored;
    }

    /// Number of SACKed PSNs in `[una, snd_nxt)`.
    pub(crate) const fn sacked(&self) -> u32 {
        self.sacked.count()
    }

    /// Is there nothing to remember?
    pub(crate) const fn is_clean(&self) -> bool {
        self.sacked.count() == 0 && self.waiting.count() == 0 && self.marks.len() == 0
    }

    /// The window after a record that says `una` (if it says) and `snd_nxt`; neither goes back.
    /// Where PSNs half the space apart leave `una` ahead of `snd_nxt`, it is larger than any
    /// window.
    pub(crate) fn window_with(&self, una: Psn, snd_nxt: Psn) -> u32 {
        let una = if self.anchored { later(una, self.una) } else { una };
        later(snd_nxt, self.snd_nxt).steps_from(una)
    }

    /// The lowest PSN that may be `una` as far as this scoreboard knows.
    pub(crate) fn una_for(&self, psn: Psn) -> Psn {
        if self.anchored || self.una.is_before(psn) { self.una } else { psn }
    }

    /// An acknowledgement: `una` is its cumulative part. Declares what it proves lost.
    pub(crate) fn on_ack(
        &mut self,
        una: Psn,
        snd_nxt: Psn,
        sacks: Sacks,
        threshold: u8,
        losses: &mut Losses<'_>,
    ) {
        self.anchor(una);
        self.slide(una, snd_nxt, losses);
        self.record_sacks(sacks, losses);
        self.detect_again(u32::from(threshold), losses);
        self.detect_first(u32::from(threshold), losses);
    }

    /// Declares lost what is un-SACKed in `first..=last` and does not wait already.
    pub(crate) fn on_resend_all(
        &mut self,
        (una, snd_nxt): (Psn, Psn),
        first: Psn,
        last: Psn,
        losses: &mut Losses<'_>,
    ) {
        self.anchor(una);
        self.slide(una, snd_nxt, losses);
        let mut psn = self.clip(first);
        let end = self.clip(last.next());
        losses.work += 1 + u64::from(u32::try_from(end.distance_from(psn)).unwrap_or(0) / u64::BITS);
        while psn.is_before(end) {
            psn = self.sacked.first_zero_in_both(&self.waiting, psn, end);
            if psn.is_before(end) {
                self.declare(psn, losses);
                psn = psn.next();
            }
        }
    }

    /// `psn` has been sent again, when the next new PSN was `snd_nxt`.
    pub(crate) fn on_resent(&mut self, psn: Psn, snd_nxt: Psn, losses: &mut Losses<'_>) {
        if !self.anchored && psn.is_before(self.una) {
            self.rebase(psn);
        }
        self.slide(self.una, snd_nxt, losses);
        if psn.is_before(self.una) {
            return;
        }
        let was_lost = self.waiting.clear(psn);
        if !self.sacked.test(psn) {
            self.marks.mark(psn, snd_nxt, was_lost);
        }
    }

    /// The retransmission timer fired: what was resent may be declared lost again by the next
    /// acknowledgement.
    pub(crate) fn on_rto(&mut self, losses: &mut Losses<'_>) {
        losses.work += u64::from(self.marks.len());
        self.marks.clear();
        self.examined = self.una;
    }

    /// Moves the window forward, and forgets what leaves it.
    fn slide(&mut self, una: Psn, snd_nxt: Psn, losses: &mut Losses<'_>) {
        self.snd_nxt = later(snd_nxt, self.snd_nxt);
        let mut psn = self.una;
        let una = later(una, self.una);
        losses.work += 1 + u64::from(una.steps_from(psn));
        while psn != una && self.marks.len() != 0 {
            self.note_arrived(psn);
            psn = psn.next();
        }
        self.una = una;
        self.sacked.advance(una);
        self.waiting.advance(una);
        self.examined = later(self.examined, una);
        self.sack_end = later(self.sack_end, una);
    }

    /// The PSN of `[una, snd_nxt]` nearest to this one.
    fn clip(&self, psn: Psn) -> Psn {
        let outstanding = self.snd_nxt.steps_from(self.una);
        let offset = u32::try_from(psn.distance_from(self.una)).unwrap_or(0);
        self.una.add(offset.min(outstanding))
    }

    /// `una` is known from here on, and never goes back.
    fn anchor(&mut self, una: Psn) {
        if !self.anchored && una.is_before(self.una) {
            self.rebase(una);
        }
        self.anchored = true;
    }

    /// Lowers the base of a scoreboard that knows nothing yet but marks, which do not depend on the
    /// base.
    fn rebase(&mut self, una: Psn) {
        self.sacked.reset(una);
        self.waiting.reset(una);
        (self.una, self.examined, self.sack_end) = (una, una, una);
    }

    fn record_sacks(&mut self, sacks: Sacks, losses: &mut Losses<'_>) {
        if let Some(psn) = sacks.sack {
            self.sack(psn, losses);
        }
        let mut bits = sacks.bitmap;
        while bits != 0 {
            self.sack(sacks.bitmap_base.add(bits.trailing_zeros()), losses);
            bits &= bits - 1;
        }
    }

    fn sack(&mut self, psn: Psn, losses: &mut Losses<'_>) {
        if psn.is_before(self.una) || !psn.is_before(self.snd_nxt) {
            return;
        }
        if self.sacked.set(psn) {
            self.note_arrived(psn);
            self.sack_end = later(self.sack_end, psn.next());
            if self.waiting.clear(psn) {
                losses.found(psn);
            }
        }
    }

    /// A packet arrived: it needs no mark, and if its resend is what arrived, that one is the
    /// latest known to have done so.
    fn note_arrived(&mut self, psn: Psn) {
        let Some(order) = self.marks.remove(psn) else { return };
        let later = |seen: u32| order.wrapping_sub(seen).cast_signed() > 0;
        if self.resend_arrived.is_none_or(later) {
            self.resend_arrived = Some(order);
        }
    }

    /// PSNs with a mark: lost if a packet sent `threshold` or more after the mark has arrived, or,
    /// where nothing reorders, one that was resent after them.
    fn detect_again(&mut self, threshold: u32, losses: &mut Losses<'_>) {
        while let Some((psn, mark)) = self.marks.front() {
            losses.work += 1;
            // highest_sack - mark >= threshold; highest_sack is the PSN before sack_end
            let overtaken = mark.add(threshold).is_before(self.sack_end);
            let outrun =
                threshold == 0 && self.resend_arrived.is_some_and(|order| self.marks.front_is_before(order));
            if !overtaken && !outrun {
                break;
            }
            self.declare(psn, losses);
        }
    }

    /// PSNs without a mark: lost if the highest SACKed one is more than `threshold` further on.
    fn detect_first(&mut self, threshold: u32, losses: &mut Losses<'_>) {
        let end = self.sack_end.sub(threshold + 1);
        let start = self.examined;
        while self.examined.is_before(end) {
            let psn = self.sacked.first_zero_in_both(&self.waiting, self.examined, end);
            if psn.is_before(end) && !self.marks.contains(psn) {
                self.declare(psn, losses);
            }
            self.examined = earlier(psn.next(), end);
        }
        losses.work += 1 + u64::from(self.examined.steps_from(start));
    }

    fn declare(&mut self, psn: Psn, losses: &mut Losses<'_>) {
        self.marks.remove(psn);
        self.waiting.set(psn);
        losses.work += 1;
        losses.push(psn);
    }
}

/// The later of two PSNs.
pub(crate) fn later(a: Psn, b: Psn) -> Psn {
    if a.is_before(b) { b } else { a }
}

/// The earlier of two PSNs.
pub(crate) fn earlier(a: Psn, b: Psn) -> Psn {
    if a.is_before(b) { a } else { b }
}

#[cfg(test)]
mod tests;
