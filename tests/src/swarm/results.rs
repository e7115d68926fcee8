//! What READs and atomics must have brought and done.

use super::flow::{CONSUMED, Flow, SPENT, Withdrawn};
use super::message::{Kind, Message, Piece};
use super::reads::{WORD, after};
use simnet::Rig;

impl Flow {
    /// Checks what a READ or an atomic that is complete brought.
    ///
    /// # Panics
    /// If it is not what it must be.
    pub fn check_result(&self, rig: &Rig, index: usize) {
        let message = &self.messages[index];
        if message.kind.has_response() {
            assert!(
                self.brought(rig, index),
                "message {index} brought {:02x?}: {message:?}",
                self.sink(rig, index)
            );
        }
    }

    /// A message that was executed and had a fence began when all READs and atomics before it had
    /// what they brought.
    ///
    /// # Panics
    /// If one had not.
    pub fn check_fence(&self, rig: &Rig, index: usize) {
        if !self.messages[index].fenced {
            return;
        }
        for before in self.succeeded..index {
            let done = !self.messages[before].kind.has_response() || self.brought(rig, before);
            assert!(done, "message {index} passed its fence before message {before} was complete");
        }
    }

    /// Returns `true` if the sink of a READ or atomic holds what it must bring.
    pub fn brought(&self, rig: &Rig, index: usize) -> bool {
        let got = self.sink(rig, index);
        match self.messages[index].kind {
            Kind::Read(None) => got == self.bytes_of(index),
            Kind::Read(Some(write)) => self.is_what_stood(&got, write, index),
            _ => got == self.found_by(index).to_ne_bytes(),
        }
    }

    /// Every word of atomics holds what those executed left, or some that were posted behind them.
    /// With `settled`, what all that were posted left.
    ///
    /// # Panics
    /// If one holds anything else.
    pub fn check_words(&self, rig: &Rig, settled: bool) {
        let mut words: Vec<Piece> = self.atomics().map(|(_, message)| message.target[0]).collect();
        words.sort_by_key(|piece| piece.offset);
        words.dedup();
        for piece in words {
            let bytes = rig.bytes(self.target_span(piece));
            let stands = u64::from_ne_bytes(bytes.try_into().expect("a word has eight bytes"));
            let due = if settled { self.posted } else { self.arrived };
            let mut value = 0;
            let mut may_stand = false;
            for (index, message) in self.atomics().filter(|(_, message)| message.target[0] == piece) {
                if index >= self.posted {
                    break;
                }
                may_stand |= index >= due && stands == value;
                value = after(message.kind, value);
            }
            assert!(
                may_stand || stands == value,
                "the word at {} is {stands:#x} after {due} messages, and not {value:#x}",
                piece.offset
            );
        }
    }

    /// Nobody writes where READs and atomics put what they brought before they are posted, or after
    /// they are complete, or after the region was deregistered.
    ///
    /// # Panics
    /// If somebody did.
    pub fn check_sinks(&self, rig: &Rig, settled: bool) {
        for (index, message) in
            self.messages.iter().enumerate().filter(|(_, message)| message.kind.has_response())
        {
            let got = self.sink(rig, index);
            let all = |value: u8| got.iter().all(|byte| *byte == value);
            let good = if index < self.succeeded {
                all(SPENT)
            } else if index >= self.posted {
                all(0)
            } else {
                !settled || self.brought(rig, index)
            };
            assert!(
                good,
                "message {index} of {} complete: {got:02x?} stands there: {message:?}",
                self.succeeded
            );
        }
        if let Some(Withdrawn::Source(before)) = &self.withdrawn {
            let now = rig.bytes(self.source.all());
            let changed = now.iter().zip(before).position(|(now, before)| now != before && *now != SPENT);
            assert_eq!(changed, None, "the source was written after its region was deregistered");
        }
    }

    fn atomics(&self) -> impl Iterator<Item = (usize, &Message)> {
        self.messages.iter().enumerate().filter(|(_, message)| message.kind.is_atomic())
    }

    fn sink(&self, rig: &Rig, index: usize) -> Vec<u8> {
        let pieces = self.messages[index].source.iter();
        pieces.flat_map(|piece| rig.bytes(self.source.at(piece.offset, piece.len))).collect()
    }

    /// What an atomic must find: those before it were executed once each.
    fn found_by(&self, index: usize) -> u64 {
        let word = self.messages[index].target[0];
        let before = self.atomics().take_while(|(other, _)| *other < index);
        let same = before.filter(|(_, message)| message.target[0] == word);
        same.fold(0, |value, (_, message)| after(message.kind, value))
    }

    /// Returns `true` if READ `read` may have found these bytes where WRITE `write`, posted before
    /// it, wrote.
    fn is_what_stood(&self, got: &[u8], write: usize, read: usize) -> bool {
        let Some(number) = self.messages[write].group else {
            let wrote = self.bytes_of(write);
            return got.len() == wrote.len()
                && got.iter().zip(wrote).all(|(got, wrote)| *got == wrote || *got == CONSUMED);
        };
        let members = &self.groups[number].members;
        members.iter().any(|(index, value)| {
            let last_before = members.iter().rfind(|(index, _)| *index < read).map(|(index, _)| *index);
            Some(*index) >= last_before && *index < self.posted && value == got
        })
    }
}

const _: () = assert!(WORD == size_of::<u64>(), "an atomic works on a word");
