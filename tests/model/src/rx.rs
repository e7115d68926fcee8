//! The receiving half of a packet stream (protocol.md 2.4, "Receiving"): what the fast path keeps
//! of it.

use wire::serial::Psn;

use crate::defects::Defect;
use crate::slow_path::Record;

/// Whether the stream has seen a gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// All below epsn is here, and nothing above it.
    InOrder,
    /// There are gaps; epsn is what the slow path last said.
    Recovery,
}

/// Where a packet falls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// Below epsn.
    Duplicate,
    /// Beyond what any honest peer sends.
    BeyondWindow,
    /// At epsn, with no gap open.
    InOrder,
    /// Anything else.
    OutOfOrder,
}

/// What an Advance did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advance {
    /// It belongs to an earlier Recovery.
    Ignored,
    /// Gaps remain.
    StillRecovering,
    /// The last gap closed.
    Left,
}

/// The receiving half of a stream.
#[derive(Clone, Debug)]
pub struct RxStream {
    /// The next PSN in order.
    pub epsn: Psn,
    /// Recovery or not.
    pub state: State,
    /// Generation; belongs to the queue pair's place in the table, not to its life.
    pub gen_no: u32,
    /// First PSN of the newest run.
    pub left: Psn,
    /// Last PSN of the newest run, the highest PSN received.
    pub right: Psn,
    /// A packet was dropped that the peer may believe to be on its way.
    pub dropped: bool,
    /// The epsn for which StrictPlacement already asked for everything.
    pub asked_all: Option<Psn>,
    /// In-order packets since the last acknowledgement.
    pub unacked: u32,
    /// When they are acknowledged at the latest.
    pub flush_at: Option<u64>,
    window: u32,
}

impl RxStream {
    /// A stream that expects `first`.
    #[must_use]
    pub fn new(first: Psn, window: u32, gen_no: u32) -> Self {
        Self {
            epsn: first,
            state: State::InOrder,
            gen_no,
            left: first,
            right: first,
            dropped: false,
            asked_all: None,
            unacked: 0,
            flush_at: None,
            window,
        }
    }

    /// Classifies a packet.
    #[must_use]
    pub fn classify(&self, psn: Psn) -> Arrival {
        let ahead = psn.distance_from(self.epsn);
        if ahead < 0 {
            Arrival::Duplicate
        } else if ahead.unsigned_abs() >= self.window {
            Arrival::BeyondWindow
        } else if ahead == 0 && self.state == State::InOrder {
            Arrival::InOrder
        } else {
            Arrival::OutOfOrder
        }
    }

    /// Takes an out-of-order packet that the ring has room for, and returns the records that it
    /// costs.
    pub fn note_out_of_order(&mut self, psn: Psn, defect: Option<Defect>) -> [Option<Record>; 2] {
        let records = self.records_for(psn, defect);
        if self.state == State::InOrder {
            self.state = State::Recovery;
            self.gen_no = self.next_gen(defect);
            (self.left, self.right) = (psn, psn);
        } else if psn == self.right.next() {
            self.right = psn;
        } else if self.right.is_before(psn) {
            (self.left, self.right) = (psn, psn);
        }
        records
    }

    /// The records that `psn` would cost: one at the start of a run, one that closes the run before
    /// it if that has more than its start, one for a packet that fills a hole.
    #[must_use]
    pub fn records_for(&self, psn: Psn, defect: Option<Defect>) -> [Option<Record>; 2] {
        let gen_no = if self.state == State::InOrder { self.next_gen(defect) } else { self.gen_no };
        let record = |first, last| Some(Record { gen_no, first, last, epsn: self.epsn });
        let alone = record(psn, psn);
        if self.state == State::InOrder || psn.is_before(self.left) {
            return [alone, None];
        }
        let beyond = psn.distance_from(self.right);
        match beyond {
            ..=1 => [None, None],
            _ if self.left == self.right => [alone, None],
            _ => [record(self.left, self.right), alone],
        }
    }

    fn next_gen(&self, defect: Option<Defect>) -> u32 {
        self.gen_no.wrapping_add(u32::from(defect != Some(Defect::GenNotRaised)))
    }

    /// Obeys the slow path: everything below `base` is here.
    pub fn on_advance(&mut self, gen_no: u32, base: Psn, defect: Option<Defect>) -> Advance {
        let stale = gen_no != self.gen_no && defect != Some(Defect::LateAdvanceAccepted);
        if stale || self.state == State::InOrder {
            return Advance::Ignored;
        }
        let below_left = base.distance_from(self.left);
        let past_right = base.distance_from(self.right.next());
        let leaves = match defect {
            Some(Defect::ExitOnlyPastRight) => past_right == 0,
            Some(Defect::ExitNotPastRight) => below_left >= 0 && past_right < 0,
            Some(Defect::ExitBelowLeft) => below_left >= -1 && past_right <= 0,
            _ => below_left >= 0 && past_right <= 0,
        };
        if leaves {
            self.epsn = self.right.next();
            self.state = State::InOrder;
            return Advance::Left;
        }
        if self.epsn.is_before(base) {
            self.epsn = base;
        }
        Advance::StillRecovering
    }
}
