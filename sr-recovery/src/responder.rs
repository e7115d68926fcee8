//! The receiving half: which packets have arrived, and how far without a gap (protocol.md 2.4,
//! "Receiving").

use wire::Psn;

use crate::{bitmap::PsnBitmap, contexts::Context};

/// The arrivals of one recovery.
#[derive(Debug)]
pub(crate) struct Arrivals {
    bitmap: PsnBitmap,
    /// The PSN after the highest one reported.
    end: Psn,
}

/// What a run of arrivals led to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Filled {
    /// The gap at the base is still there.
    Waiting,
    /// All below `epsn` have arrived; bit i of the bitmap is that of `epsn + 1 + i`.
    Advanced { epsn: Psn, bitmap: u64 },
}

impl Context for Arrivals {
    fn new(window: u32) -> Self {
        Self { bitmap: PsnBitmap::new(window), end: Psn::new(0) }
    }

    fn bytes(&self) -> usize {
        self.bitmap.bytes()
    }
}

impl Arrivals {
    /// Begins a recovery: everything before `epsn` has arrived, nothing else is known.
    pub(crate) fn reset(&mut self, epsn: Psn) {
        self.bitmap.reset(epsn);
        self.end = epsn;
    }

    /// Number of packets from the base to `last`, the window that a run ending there needs; 0 if it
    /// is before the base.
    pub(crate) fn reach(&self, last: Psn) -> u32 {
        u32::try_from(last.distance_from(self.bitmap.base()) + 1).unwrap_or(0)
    }

    /// `first..=last` have arrived, and `epsn` is what the fast path knew; those before the base
    /// are ignored. The reach of `last` is within the window.
    pub(crate) fn fill(&mut self, first: Psn, last: Psn, epsn: Psn, work: &mut u64) -> Filled {
        let end = last.next();
        self.bitmap.set_range(first, end);
        if self.end.is_before(end) {
            self.end = end;
        }
        *work += u64::from(self.reach(last).min(last.steps_from(first)) / u64::BITS) + 1;
        let base = self.bitmap.base();
        if base.is_before(epsn) {
            // The fast path never runs ahead of a bitmap of its own generation; if it did, it would
            // be right.
            self.advance(epsn);
        }
        if self.bitmap.test(self.bitmap.base()) {
            let epsn = self.bitmap.first_zero(self.bitmap.base(), self.end);
            self.advance(epsn);
        }
        *work += u64::from(self.bitmap.base().steps_from(base) / u64::BITS);
        let epsn = self.bitmap.base();
        if epsn == base {
            return Filled::Waiting;
        }
        Filled::Advanced { epsn, bitmap: self.bitmap.word_at(epsn.next()) }
    }

    fn advance(&mut self, base: Psn) {
        self.bitmap.advance(base);
        if self.end.is_before(base) {
            self.end = base;
        }
    }
}

#[cfg(test)]
mod tests;
