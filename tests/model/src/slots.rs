//! The responder's tables: completion slots by MSN, and RSLOTs with the answers of READs and
//! ATOMICs.

use wire::serial::{Msn, Psn, Ssn};

use crate::defects::Defect;
use crate::packet::{Answer, Cell};

/// What emission does for a message.
#[derive(Clone, Copy, Debug)]
pub enum Effect {
    /// Nothing but counting.
    Write,
    /// A receive completion.
    Receive {
        /// Which WQE.
        ssn: Ssn,
    },
    /// Makes the answer available.
    Read {
        /// First cell.
        addr: usize,
        /// Responses.
        n: u32,
        /// Where.
        answer: Answer,
    },
    /// Adds one and keeps the old value.
    FetchAdd {
        /// The cell.
        addr: usize,
        /// Where.
        answer: Answer,
    },
}

/// A completion slot: the END packet of the message has been received.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Full message number.
    pub msn: Msn,
    /// PSN of its END packet.
    pub end_psn: Psn,
    /// What to do.
    pub effect: Effect,
    /// A small WRITE that waits for emission: address and cell.
    pub parked: Option<(usize, Cell)>,
}

/// Completion slots, indexed by MSN modulo their number.
#[derive(Clone, Debug)]
pub struct CompletionSlots(Vec<Option<Slot>>);

impl CompletionSlots {
    /// The least power of two that is at least `window`.
    #[must_use]
    pub fn new(window: u32, defect: Option<Defect>) -> Self {
        let enough = window.next_power_of_two();
        let n = if defect == Some(Defect::TooFewSlots) { enough / 2 } else { enough };
        Self(vec![None; usize::try_from(n).expect("a window")])
    }

    fn index(&self, msn: Msn) -> usize {
        usize::try_from(msn.get()).expect("16 bits") & (self.0.len() - 1)
    }

    /// Writes the slot of a message; the same again for a packet that came again.
    pub fn write(&mut self, slot: Slot) {
        let index = self.index(slot.msn);
        self.0[index] = Some(slot);
    }

    /// The slot of `msn`, if its END has come.
    #[must_use]
    pub fn get(&self, msn: Msn) -> Option<Slot> {
        self.0[self.index(msn)].filter(|slot| slot.msn == msn)
    }

    /// Frees the slot of `msn`.
    pub fn clear(&mut self, msn: Msn) {
        let index = self.index(msn);
        self.0[index] = None;
    }
}

/// Where the cells of an answer come from.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// Accepted, not executed yet.
    NotYet,
    /// Memory, read again for each (re)transmission.
    Memory {
        /// First cell.
        addr: usize,
        /// Length; an empty READ has none and still one response.
        cells: u32,
    },
    /// A saved result.
    Saved(Cell),
}

/// One RSLOT.
#[derive(Clone, Copy, Debug)]
pub struct Answering {
    /// MSN of the request.
    pub msn: Msn,
    /// First PSN of its responses.
    pub start: Psn,
    /// Number of responses.
    pub n: u32,
    /// Their data.
    pub source: Source,
}

/// What a request for an RSLOT finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// Free.
    Free,
    /// Held by the same message, whose packet came before.
    SameMessage,
    /// Held by an older message whose responses up to this PSN are thereby acknowledged.
    Retires(Psn),
    /// Does not exist, or is held by a message whose responses are not all sent.
    Refused,
}

/// The responder's RSLOTs.
#[derive(Clone, Debug)]
pub struct Rslots(Vec<Option<Answering>>);

impl Rslots {
    /// `n` slots.
    #[must_use]
    pub fn new(n: usize) -> Self {
        Self(vec![None; n])
    }

    /// What a request of `msn` for `rslot` finds, if all responses below `sent` have been sent.
    #[must_use]
    pub fn admit(&self, rslot: usize, msn: Msn, sent: Psn) -> Admission {
        match self.0.get(rslot) {
            None => Admission::Refused,
            Some(None) => Admission::Free,
            Some(Some(held)) if held.msn == msn => Admission::SameMessage,
            Some(Some(held)) => {
                let end = held.start.add(held.n);
                let all_sent = !matches!(held.source, Source::NotYet) && !sent.is_before(end);
                let older = held.msn.is_before(msn);
                if all_sent && older { Admission::Retires(end) } else { Admission::Refused }
            }
        }
    }

    /// The message that holds `rslot`.
    #[must_use]
    pub fn get(&self, rslot: usize) -> Option<Answering> {
        self.0.get(rslot).copied().flatten()
    }

    /// Fills `rslot`.
    pub fn set(&mut self, rslot: usize, answering: Answering) {
        self.0[rslot] = Some(answering);
    }

    /// The slot whose responses include `psn`, and the index of that response.
    #[must_use]
    pub fn find(&self, psn: Psn) -> Option<(usize, Answering, u32)> {
        self.0.iter().enumerate().find_map(|(rslot, held)| {
            let held = (*held)?;
            let offset = psn.steps_from(held.start);
            (offset < held.n && !matches!(held.source, Source::NotYet)).then_some((rslot, held, offset))
        })
    }
}
