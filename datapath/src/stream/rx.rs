//! RxStream: the receiving end of a reliable packet stream (protocol.md 2.4, receiving).
//!
//! The fast path keeps ePSN and, in Recovery, the run `[left, right]` that arrived last; the bitmap
//! is the slow path's.

use sr_recovery::{Generation, Record, StreamId};
use wire::Psn;

/// Where an arriving packet stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// In order, nothing missing: the fast path.
    InOrder,
    /// In Recovery, exactly at ePSN.
    AtEpsn,
    /// Ahead of ePSN by this many packets.
    Ahead(u32),
    /// Before ePSN.
    Duplicate,
    /// Already part of the run that arrived last.
    DuplicateAhead,
    /// Behind the end of the window.
    BeyondWindow,
}

/// Effect of an Advance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advanced {
    /// Late or of another episode.
    Ignored,
    /// ePSN moved, something is still missing.
    StillMissing,
    /// Nothing is missing any more.
    Left,
}

/// The receiving end.
#[derive(Clone, Copy, Debug)]
pub struct RxStream {
    epsn: Psn,
    left: Psn,
    right: Psn,
    /// Number of the last recovery episode; belongs to the slot and survives RESET.
    generation: Generation,
    window: u16,
    recovery: bool,
    /// Something was dropped that the sender cannot know of.
    dropped: bool,
}

impl RxStream {
    /// Expects `epsn` first, takes packets up to `window` ahead.
    #[must_use]
    pub const fn new(epsn: Psn, window: u16, generation: Generation) -> Self {
        Self { epsn, left: epsn, right: epsn, generation, window, recovery: false, dropped: false }
    }

    /// The next PSN in order.
    #[inline]
    #[must_use]
    pub const fn epsn(&self) -> Psn {
        self.epsn
    }

    /// Highest PSN of the run that arrived last; meaningful in Recovery.
    #[must_use]
    pub const fn right(&self) -> Psn {
        self.right
    }

    /// First packet of the run that ends at `psn`, if `psn` is the highest that arrived.
    #[must_use]
    pub fn run_start(&self, psn: Psn) -> Option<Psn> {
        (self.recovery && psn == self.right).then_some(self.left)
    }

    /// True while something is missing.
    #[inline]
    #[must_use]
    pub const fn in_recovery(&self) -> bool {
        self.recovery
    }

    /// Number of the current or last recovery episode.
    #[must_use]
    pub const fn generation(&self) -> Generation {
        self.generation
    }

    /// Where `psn` stands.
    #[inline(always)]
    #[must_use]
    pub fn classify(&self, psn: Psn) -> Arrival {
        let ahead = psn.distance_from(self.epsn);
        let Ok(ahead) = u32::try_from(ahead) else { return Arrival::Duplicate };
        if ahead == 0 {
            return if self.recovery { Arrival::AtEpsn } else { Arrival::InOrder };
        }
        if ahead >= u32::from(self.window) {
            Arrival::BeyondWindow
        } else if self.recovery && !psn.is_before(self.left) && !self.right.is_before(psn) {
            Arrival::DuplicateAhead
        } else {
            Arrival::Ahead(ahead)
        }
    }

    /// Expects `psn` next, whatever was missing (UC).
    #[inline]
    pub const fn resume_at(&mut self, psn: Psn) {
        self.epsn = psn;
    }

    /// So many PSNs were taken in order: packets, or those that the response of a READ has in the
    /// Plain mode.
    #[inline]
    pub const fn advance(&mut self, packets: u32) {
        self.epsn = self.epsn.add(packets);
    }

    /// Something was dropped un-SACKed that must be asked for again when Recovery ends.
    pub const fn note_dropped(&mut self) {
        self.dropped = true;
    }

    /// Clears the note of [`RxStream::note_dropped`] and says whether it was there.
    pub const fn take_dropped(&mut self) -> bool {
        core::mem::replace(&mut self.dropped, false)
    }

    /// A packet was placed out of order, or at ePSN in Recovery. Hands the metadata to `emit`: one
    /// record at the start of a run, one when a new run replaces a longer one, one for a packet
    /// that fills a hole. Returns true if `psn` is now the highest.
    pub fn on_placed_out_of_order(
        &mut self,
        stream: StreamId,
        psn: Psn,
        mut emit: impl FnMut(Record),
    ) -> bool {
        if !self.recovery {
            self.recovery = true;
            self.generation = self.generation.wrapping_add(1);
            self.left = psn;
            self.right = psn;
            emit(self.run(stream, psn, psn));
            return true;
        }
        if psn == self.right.next() {
            self.right = psn;
            return true;
        }
        if self.right.is_before(psn) {
            // A run of one packet was told of when it began.
            if self.left != self.right {
                emit(self.run(stream, self.left, self.right));
            }
            self.left = psn;
            self.right = psn;
            emit(self.run(stream, psn, psn));
            return true;
        }
        emit(self.run(stream, psn, psn));
        false
    }

    /// Metadata records that the next packet may need: two if it opens a new run, else one.
    pub const RECORDS_MAX: usize = 2;

    /// The slow path says that everything below `epsn` arrived.
    pub fn on_advance(&mut self, generation: Generation, epsn: Psn) -> Advanced {
        if !self.recovery || generation != self.generation {
            return Advanced::Ignored;
        }
        if !epsn.is_before(self.left) && !self.right.next().is_before(epsn) {
            self.epsn = self.right.next();
            self.recovery = false;
            return Advanced::Left;
        }
        if self.epsn.is_before(epsn) {
            self.epsn = epsn;
        }
        Advanced::StillMissing
    }

    /// Ends the episode, if there is one, so that nothing of it can come back: RESET, or a fatal
    /// error.
    pub const fn abandon(&mut self) {
        self.recovery = false;
        self.dropped = false;
        self.generation = self.generation.wrapping_add(1);
    }

    const fn run(&self, stream: StreamId, first: Psn, last: Psn) -> Record {
        Record::RxRun { stream, generation: self.generation, first, last, epsn: self.epsn }
    }
}
