//! What one side of a connection posted in one life, and what has become of it.

use crate::memory;
use crate::packet::Cell;
use crate::requester::read_source;
use crate::schedule::{FLAGS, Op, Verb};
use crate::slots::{Effect, Slot};

/// Completion status, as in verbs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// SUCCESS.
    Success,
    /// REM_INV_REQ_ERR.
    RemoteInvalidRequest,
    /// REM_ACCESS_ERR.
    RemoteAccess,
    /// RETRY_EXC_ERR.
    RetryExceeded,
    /// RNR_RETRY_EXC_ERR.
    RnrRetryExceeded,
    /// WR_FLUSH_ERR.
    Flushed,
}

/// A message, and the values of flags and counter that it finds.
#[derive(Clone, Copy, Debug)]
struct Issued {
    op: Op,
    flags_before: [Cell; FLAGS],
    adds_before: Cell,
}

/// The messages of one life in one direction.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// What the payloads are made from.
    pub tag: u64,
    issued: Vec<Issued>,
    emitted: usize,
    receives: usize,
    completed: usize,
    failed: bool,
    words_revoked: bool,
    flags_posted: [Cell; FLAGS],
    flags: [Cell; FLAGS],
    adds_posted: Cell,
    adds: Cell,
}

impl Ledger {
    /// An empty ledger.
    #[must_use]
    pub fn new(tag: u64) -> Self {
        Self {
            tag,
            issued: Vec::new(),
            emitted: 0,
            receives: 0,
            completed: 0,
            failed: false,
            words_revoked: false,
            flags_posted: [0; FLAGS],
            flags: [0; FLAGS],
            adds_posted: 0,
            adds: 0,
        }
    }

    /// From now on no message may touch flags or counter.
    pub fn revoke_words(&mut self) {
        self.words_revoked = true;
    }

    /// Messages posted so far.
    #[must_use]
    pub fn posted(&self) -> usize {
        self.issued.len()
    }

    /// Messages without a completion.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.issued.len() - self.completed
    }

    /// True if some message failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Notes a posted message and returns its number.
    pub fn post(&mut self, op: Op) -> usize {
        let index = self.issued.len();
        self.issued.push(Issued { op, flags_before: self.flags_posted, adds_before: self.adds_posted });
        match op.verb {
            Verb::Flag(flag) => self.flags_posted[flag] = index as Cell + 1,
            Verb::FetchAdd => self.adds_posted += 1,
            _ => {}
        }
        index
    }

    /// A message was executed: the right one, with all its bytes. The application takes it at once.
    pub fn on_emission(&mut self, slot: &Slot, cells: &mut [Cell]) -> Result<(), String> {
        let index = self.emitted;
        let Some(issued) = self.issued.get(index) else { return Err("a message that nobody posted".into()) };
        let op = issued.op;
        if op.bad_at.is_some() {
            return Err(format!("message {index} executed in spite of its bad key"));
        }
        if self.words_revoked && op.touches_words() {
            return Err(format!("message {index} executed with a key that was withdrawn"));
        }
        let kind = match slot.effect {
            Effect::Write => matches!(op.verb, Verb::Write | Verb::Flag(_)) && !op.imm,
            Effect::Receive { .. } => op.receives(),
            Effect::Read { .. } => matches!(op.verb, Verb::Read | Verb::ReadFlag(_)),
            Effect::FetchAdd { .. } => op.verb == Verb::FetchAdd,
        };
        if !kind {
            return Err(format!("message {index} is {op:?}, executed as {:?}", slot.effect));
        }
        self.emitted += 1;
        match op.verb {
            Verb::Flag(flag) => self.flags[flag] = index as Cell + 1,
            Verb::FetchAdd => self.adds += 1,
            Verb::Send => self.take(memory::receive_buffer(self.receives), index, op.cells, cells)?,
            Verb::Write => self.take(memory::write_target(index), index, op.cells, cells)?,
            Verb::Read | Verb::ReadFlag(_) => {}
        }
        self.receives += usize::from(op.receives());
        self.check_words(cells)
    }

    fn take(&self, at: usize, index: usize, n: u32, cells: &mut [Cell]) -> Result<(), String> {
        for (offset, cell) in (0..n).zip(&mut cells[at..]) {
            if *cell != memory::payload(self.tag, index, offset) {
                return Err(format!("message {index} executed without its cell {offset}"));
            }
            *cell = memory::TAKEN;
        }
        Ok(())
    }

    /// Small WRITEs leave the value of the last one executed, and each FETCH_ADD counted once.
    fn check_words(&self, cells: &[Cell]) -> Result<(), String> {
        if cells[..FLAGS] != self.flags {
            return Err(format!("flags are {:?}, should be {:?}", &cells[..FLAGS], self.flags));
        }
        if cells[memory::COUNTER] != self.adds {
            return Err(format!("the counter is {}, should be {}", cells[memory::COUNTER], self.adds));
        }
        Ok(())
    }

    /// The oldest pending message completed.
    pub fn on_completion(&mut self, status: Status, local: &mut [Cell]) -> Result<(), String> {
        let index = self.completed;
        let Some(issued) = self.issued.get(index).copied() else {
            return Err("a completion for nothing".into());
        };
        self.completed += 1;
        if self.failed && status != Status::Flushed {
            return Err(format!("message {index}: {status:?} after an error"));
        }
        self.failed |= status != Status::Success;
        let bad = issued.op.bad_at.is_some();
        let withdrawn = self.words_revoked && issued.op.touches_words();
        match status {
            Status::Success if bad => Err(format!("message {index}: success with a bad key")),
            Status::Success if self.emitted <= index => {
                Err(format!("message {index}: success, not executed"))
            }
            Status::Success => self.take_answer(index, &issued, local),
            Status::RemoteAccess if !(bad || withdrawn) => {
                Err(format!("message {index}: {status:?} with a good key"))
            }
            Status::RemoteInvalidRequest => Err(format!("message {index}: {status:?}")),
            _ => Ok(()),
        }
    }

    fn take_answer(&self, index: usize, issued: &Issued, local: &mut [Cell]) -> Result<(), String> {
        let at = memory::local_buffer(index);
        let answer = local[at];
        let right = match issued.op.verb {
            Verb::FetchAdd => answer == issued.adds_before,
            Verb::ReadFlag(flag) => (issued.flags_before[flag]..=self.flags_posted[flag]).contains(&answer),
            Verb::Read => {
                let source = read_source(index);
                let expected = (source..).map(|addr| memory::constant(self.tag, addr));
                let n = usize::try_from(issued.op.cells).expect("small");
                local[at..at + n].iter().copied().eq(expected.take(n))
            }
            _ => return Ok(()),
        };
        if !right {
            return Err(format!("message {index} {issued:?} got {answer:#x}"));
        }
        let n = usize::try_from(issued.op.cells).expect("small");
        local[at..at + n].fill(memory::TAKEN);
        Ok(())
    }

    /// At the end of a life: what was taken is as it was left, and nothing else was written but
    /// what is under way.
    pub fn settle_memory(&self, cells: &[Cell]) -> Result<(), String> {
        self.check_words(cells)?;
        let mut expected = memory::fresh(self.tag);
        expected[..FLAGS].copy_from_slice(&self.flags);
        expected[memory::COUNTER] = self.adds;
        let mut receives = 0;
        for (index, issued) in self.issued.iter().enumerate() {
            let at = match issued.op.verb {
                Verb::Send => memory::receive_buffer(receives),
                _ => memory::write_target(index),
            };
            receives += usize::from(issued.op.receives());
            if matches!(issued.op.verb, Verb::Send | Verb::Write) {
                for (offset, addr) in (0..issued.op.cells).zip(at..) {
                    let arrived = cells[addr] == memory::payload(self.tag, index, offset);
                    expected[addr] = match index < self.emitted {
                        true => memory::TAKEN,
                        false if arrived => cells[addr],
                        false => memory::UNTOUCHED,
                    };
                }
            }
        }
        if let Some(addr) = (0..expected.len()).find(|&addr| cells[addr] != expected[addr]) {
            return Err(format!("cell {addr} is {:#x}, should be {:#x}", cells[addr], expected[addr]));
        }
        Ok(())
    }

    /// Checks the requester's buffers at the end of a run.
    pub fn settle_local(&self, local: &[Cell]) -> Result<(), String> {
        for (index, issued) in self.issued.iter().enumerate() {
            let at = memory::local_buffer(index);
            let n = usize::try_from(issued.op.cells).expect("small");
            let done = index < self.completed && issued.op.answers() > 0;
            let taken = !done || self.failed || local[at..at + n].iter().all(|cell| *cell == memory::TAKEN);
            if !taken {
                return Err(format!("answer of message {index} changed after its completion"));
            }
        }
        Ok(())
    }
}
