//! The fast path in miniature: what protocol.md 2.4 has it keep and say, for one stream.

use std::collections::{BTreeSet, VecDeque};

use sr_recovery::{Command, Record};
use wire::Psn;

use super::{STREAM, position, psn};

/// An acknowledgement on the wire: `epsn` is one past its cumulative part.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    pub epsn: Psn,
    pub sack: Option<Psn>,
    /// Bit i: `epsn + 1 + i`.
    pub bitmap: u64,
    pub resend_all: bool,
}

/// RxStream: ePSN, and in Recovery the ends of the newest run.
#[derive(Default)]
pub struct Receiver {
    epsn: u32,
    generation: u32,
    run: Option<(u32, u32)>,
    dropped: bool,
    pub arrived: BTreeSet<u32>,
    pub acks: VecDeque<Ack>,
    pub records: VecDeque<Record>,
}

impl Receiver {
    pub fn epsn(&self) -> u32 {
        self.epsn
    }

    pub fn in_recovery(&self) -> bool {
        self.run.is_some()
    }

    pub fn on_packet(&mut self, p: u32) {
        self.arrived.insert(p);
        if p < self.epsn {
            return self.acknowledge(None, 0);
        }
        let Some((left, right)) = self.run else {
            if p == self.epsn {
                self.epsn += 1;
                return self.acknowledge(None, 0);
            }
            self.generation += 1;
            self.run = Some((p, p));
            self.record(p, p);
            return self.acknowledge(Some(p), 0);
        };
        if p == right + 1 {
            self.run = Some((left, p));
        } else if p > right {
            if left != right {
                self.record(left, right);
            }
            self.run = Some((p, p));
            self.record(p, p);
        } else if p < left {
            self.record(p, p);
        }
        self.acknowledge(Some(p), 0);
    }

    /// A packet that cannot be placed: nobody learns of it until Recovery ends.
    pub fn refuse(&mut self, p: u32) {
        self.dropped |= p > self.epsn;
    }

    pub fn on_command(&mut self, command: &Command) {
        let Command::Advance { generation, epsn, bitmap, .. } = *command else { panic!("{command:?}") };
        let Some((left, right)) = self.run.filter(|_| generation == self.generation) else { return };
        let base = position(epsn);
        let leaves = (left..=right + 1).contains(&base);
        self.epsn = if leaves { right + 1 } else { self.epsn.max(base) };
        if leaves {
            self.run = None;
            self.records.push_back(Record::RxClose { stream: STREAM, generation });
        }
        assert!((0..self.epsn).all(|p| self.arrived.contains(&p)), "ePSN {} passes a gap", self.epsn);
        self.acknowledge((!leaves).then_some(right), if base == self.epsn { bitmap } else { 0 });
        if leaves && std::mem::take(&mut self.dropped) {
            self.acks.push_back(Ack { epsn: psn(self.epsn), sack: None, bitmap: 0, resend_all: true });
        }
    }

    fn acknowledge(&mut self, sack: Option<u32>, bitmap: u64) {
        self.acks.push_back(Ack { epsn: psn(self.epsn), sack: sack.map(psn), bitmap, resend_all: false });
    }

    fn record(&mut self, first: u32, last: u32) {
        self.records.push_back(Record::RxRun {
            stream: STREAM,
            generation: self.generation,
            first: psn(first),
            last: psn(last),
            epsn: psn(self.epsn),
        });
    }
}

/// TxStream: una, snd_nxt, the RetryQ, and whether acknowledgements go to the slow path.
#[derive(Default)]
pub struct Sender {
    una: u32,
    snd_nxt: u32,
    seq: u16,
    recovering: bool,
    resend_all_at: Option<u32>,
    retry_queue: VecDeque<u32>,
    /// All that the receiver has told of, to catch a retransmission that is provably of no use.
    sacked: BTreeSet<u32>,
    pub threshold: u8,
    /// Its slow path has no scoreboard for it, and may declare lost what has arrived.
    pub guesses: bool,
    pub wire: VecDeque<u32>,
    pub records: VecDeque<Record>,
    pub resent: usize,
}

impl Sender {
    pub fn una(&self) -> u32 {
        self.una
    }

    pub fn in_flight(&self) -> u32 {
        self.snd_nxt - self.una
    }

    pub fn snd_nxt(&self) -> u32 {
        self.snd_nxt
    }

    pub fn is_recovering(&self) -> bool {
        self.recovering
    }

    pub fn send_new(&mut self) {
        self.wire.push_back(self.snd_nxt);
        self.snd_nxt += 1;
    }

    pub fn send_retries(&mut self) {
        while let Some(p) = self.retry_queue.pop_front() {
            if p >= self.una {
                self.resend(p);
            }
        }
    }

    /// A tail probe, or part of a timeout.
    pub fn resend(&mut self, p: u32) {
        assert!((self.una..self.snd_nxt).contains(&p));
        self.resent += 1;
        self.wire.push_back(p);
        let seq = self.next_seq();
        let (psn, snd_nxt) = (psn(p), psn(self.snd_nxt));
        self.records.push_back(Record::Resent { stream: STREAM, generation: 1, seq, psn, snd_nxt });
    }

    pub fn on_timeout(&mut self) {
        let seq = self.next_seq();
        self.records.push_back(Record::Rto { stream: STREAM, generation: 1, seq });
        self.resend(self.una);
        if self.snd_nxt - 1 != self.una {
            self.resend(self.snd_nxt - 1);
        }
    }

    pub fn on_ack(&mut self, ack: Ack) {
        let epsn = position(ack.epsn);
        if epsn > self.snd_nxt || epsn < self.una {
            return;
        }
        self.una = epsn;
        let window = self.una..self.snd_nxt;
        let sack = ack.sack.map(position).filter(|p| window.contains(p));
        if ack.resend_all && self.resend_all_at != Some(self.una) && !window.is_empty() {
            self.resend_all_at = Some(self.una);
            let seq = self.next_seq();
            let (una, snd_nxt) = (psn(self.una), psn(self.snd_nxt));
            let (first, last) = (una, snd_nxt.prev());
            let record = Record::ResendAll { stream: STREAM, generation: 1, seq, una, snd_nxt, first, last };
            self.records.push_back(record);
        } else if self.recovering || sack.is_some() || ack.bitmap != 0 {
            let bits = (0..64).filter(|i| ack.bitmap >> i & 1 != 0).map(|i| epsn + 1 + i);
            self.sacked.extend(bits.chain(sack));
            let seq = self.next_seq();
            self.records.push_back(Record::Ack {
                stream: STREAM,
                generation: 1,
                seq,
                una: psn(self.una),
                snd_nxt: psn(self.snd_nxt),
                sack: sack.map(psn),
                bitmap_base: ack.epsn.next(),
                bitmap: ack.bitmap,
                threshold: self.threshold,
            });
        }
    }

    /// `unseen`: SACKs that the slow path had not seen when it wrote the command may make it stale.
    pub fn on_command(&mut self, command: &Command, unseen: bool) {
        match *command {
            Command::Lost { first, last, .. } => {
                for p in position(first)..=position(last) {
                    let stale = unseen || self.guesses;
                    assert!(stale || !self.sacked.contains(&p), "{p} was SACKed and is declared lost");
                    if !self.retry_queue.contains(&p) {
                        self.retry_queue.push_back(p);
                    }
                }
            }
            Command::Found { first, last, .. } => {
                self.retry_queue.retain(|p| !(position(first)..=position(last)).contains(p));
            }
            Command::Scoreboard { seq, clean, .. } => {
                if clean && seq == self.seq {
                    self.recovering = false;
                }
            }
            Command::Advance { .. } => panic!("{command:?}"),
        }
    }

    fn next_seq(&mut self) -> u16 {
        self.recovering = true;
        self.seq = self.seq.wrapping_add(1);
        self.seq
    }
}
