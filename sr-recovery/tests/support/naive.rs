//! The rules of protocol.md 2.4 word by word, over sets of positions: nothing incremental, nothing
//! clever.

use std::collections::{BTreeMap, BTreeSet};

use sr_recovery::{Command, Record};
use wire::Psn;

use super::{STREAM, position, psn};

#[derive(Default)]
pub struct NaiveReceiver {
    generation: Option<u32>,
    base: u32,
    arrived: BTreeSet<u32>,
}

impl NaiveReceiver {
    pub fn handle(&mut self, record: &Record) -> Option<Command> {
        let Record::RxRun { stream, generation, first, last, epsn } = *record else {
            self.generation = None;
            return None;
        };
        if self.generation != Some(generation) {
            (self.generation, self.base) = (Some(generation), position(epsn));
            self.arrived.clear();
        }
        self.arrived.extend(position(first)..=position(last));
        if !self.arrived.contains(&self.base) {
            return None;
        }
        while self.arrived.contains(&self.base) {
            self.base += 1;
        }
        let bitmap =
            (0..64).fold(0, |bits, i| bits | u64::from(self.arrived.contains(&(self.base + 1 + i))) << i);
        Some(Command::Advance { stream, generation, epsn: psn(self.base), bitmap })
    }
}

#[derive(Clone, Copy)]
struct Mark {
    /// `snd_nxt` at the resend.
    at: u32,
    /// Number of the resend.
    order: u32,
    /// It was resent because it had been declared lost.
    was_lost: bool,
}

#[derive(Default)]
pub struct NaiveSender {
    una: u32,
    snd_nxt: u32,
    sacked: BTreeSet<u32>,
    waiting: BTreeSet<u32>,
    marks: BTreeMap<u32, Mark>,
    resends: u32,
    resend_arrived: u32,
}

impl NaiveSender {
    /// Applies the record and compares the commands that answered it.
    pub fn check(&mut self, record: &Record, commands: &[Command]) {
        let waited = self.waiting.clone();
        let lost = self.apply(record);
        let (Record::Ack { generation, seq, .. }
        | Record::ResendAll { generation, seq, .. }
        | Record::Resent { generation, seq, .. }
        | Record::Rto { generation, seq, .. }) = *record
        else {
            assert_eq!(commands, [], "after {record:?}");
            return;
        };
        let found: BTreeSet<u32> = waited.intersection(&self.sacked).copied().collect();
        let (last, losses) = commands.split_last().expect("each of these records is answered");
        let sacked = u32::try_from(self.sacked.len()).unwrap();
        let clean = self.sacked.is_empty() && self.waiting.is_empty() && self.marks.is_empty();
        let scoreboard = Command::Scoreboard { stream: STREAM, generation, seq, sacked, clean };
        assert_eq!(*last, scoreboard, "after {record:?}");
        let (mut declared, mut taken_back) = (BTreeSet::new(), BTreeSet::new());
        for command in losses {
            let (set, g, first, last) = match *command {
                Command::Lost { stream: STREAM, generation, first, last } => {
                    (&mut declared, generation, first, last)
                }
                Command::Found { stream: STREAM, generation, first, last } => {
                    (&mut taken_back, generation, first, last)
                }
                _ => panic!("{command:?} after {record:?}"),
            };
            assert_eq!(g, generation);
            for position in position(first)..=position(last) {
                assert!(set.insert(position), "{position} twice after {record:?}");
            }
        }
        assert_eq!((declared, taken_back), (lost, found), "after {record:?}");
    }

    fn apply(&mut self, record: &Record) -> BTreeSet<u32> {
        let mut lost = BTreeSet::new();
        match *record {
            Record::Ack { una, snd_nxt, sack, bitmap_base, bitmap, threshold, .. } => {
                self.slide(una, snd_nxt);
                let bits = (0..64).filter(|i| bitmap >> i & 1 != 0).map(|i| position(bitmap_base.add(i)));
                let sacks = bits.chain(sack.map(position));
                self.sacked.extend(sacks.filter(|p| (self.una..self.snd_nxt).contains(p)));
                self.forget_arrived();
                lost = (self.una..self.snd_nxt).filter(|&q| self.is_lost(q, threshold)).collect();
            }
            Record::ResendAll { una, snd_nxt, first, last, .. } => {
                self.slide(una, snd_nxt);
                let range = position(first).max(self.una)..(position(last) + 1).min(self.snd_nxt);
                lost = range.filter(|q| !self.sacked.contains(q) && !self.waiting.contains(q)).collect();
            }
            Record::Resent { psn, snd_nxt, .. } => {
                self.snd_nxt = self.snd_nxt.max(position(snd_nxt));
                let was_lost = self.waiting.remove(&position(psn));
                if !self.sacked.contains(&position(psn)) {
                    self.resends += 1;
                    let mark = Mark { at: position(snd_nxt), order: self.resends, was_lost };
                    self.marks.insert(position(psn), mark);
                }
            }
            Record::Rto { .. } => self.marks.clear(),
            Record::TxClose { .. } => *self = Self::default(),
            Record::RxRun { .. } | Record::RxClose { .. } => panic!("{record:?} is a receiver's"),
        }
        self.marks.retain(|q, _| !lost.contains(q));
        self.waiting.extend(&lost);
        lost
    }

    fn slide(&mut self, una: Psn, snd_nxt: Psn) {
        (self.una, self.snd_nxt) = (position(una), position(snd_nxt));
        self.sacked.retain(|&p| p >= self.una);
        self.waiting.retain(|&p| p >= self.una);
        self.forget_arrived();
    }

    fn forget_arrived(&mut self) {
        let arrived = |p: &u32| *p < self.una || self.sacked.contains(p);
        let proof = |(p, mark): &(&u32, &Mark)| arrived(p) && mark.was_lost;
        let latest = self.marks.iter().filter(proof).map(|(_, mark)| mark.order).max();
        self.resend_arrived = self.resend_arrived.max(latest.unwrap_or(0));
        self.marks.retain(|p, _| !arrived(p));
        self.waiting.retain(|p| !self.sacked.contains(p));
    }

    /// `lost(q)`, as the protocol has it.
    fn is_lost(&self, q: u32, threshold: u8) -> bool {
        let outrun = self.marks.get(&q).is_some_and(|mark| mark.order < self.resend_arrived);
        threshold == 0 && outrun || self.is_overtaken(q, threshold)
    }

    fn is_overtaken(&self, q: u32, threshold: u8) -> bool {
        let Some(&highest_sack) = self.sacked.last() else { return false };
        let threshold = i64::from(threshold);
        let beyond = |from: u32| i64::from(highest_sack) - i64::from(from);
        !self.sacked.contains(&q)
            && !self.waiting.contains(&q)
            && beyond(q) > threshold
            && self.marks.get(&q).is_none_or(|mark| beyond(mark.at) >= threshold)
    }
}
