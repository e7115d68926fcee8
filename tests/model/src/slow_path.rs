//! The slow path: bitmaps, fed by metadata records over one bounded ring that all queue pairs of a
//! host share, and answering with commands that carry the generation (protocol.md 2.4). Both rings
//! are delayed messages.

use std::collections::VecDeque;

use wire::serial::Psn;

use crate::defects::Defect;
use crate::packet::{Ack, Side};

/// A receiving stream of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamId {
    /// Queue pair.
    pub qp: usize,
    /// Which of its streams.
    pub side: Side,
}

impl StreamId {
    /// A dense index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.qp * 2 + matches!(self.side, Side::Response) as usize
    }
}

/// Metadata of a run of out-of-order packets.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Generation of the Recovery that it belongs to.
    pub gen_no: u32,
    /// First PSN of the run.
    pub first: Psn,
    /// Last PSN of the run.
    pub last: Psn,
    /// The fast path's epsn when it wrote the record.
    pub epsn: Psn,
}

/// The slow path's answer: everything below `base` has been received.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Addressee.
    pub stream: StreamId,
    /// Generation of the records that led to it.
    pub gen_no: u32,
    /// The next PSN missing.
    pub base: Psn,
    /// Bit i is PSN base + 1 + i.
    pub above: u64,
}

/// Bitmap of one stream in one generation.
#[derive(Clone, Copy, Default, Debug)]
struct Bitmap {
    gen_no: Option<u32>,
    base: Psn,
    /// Bit i is PSN base + i.
    bits: u128,
}

/// Both rings and the bitmaps of one host.
#[derive(Clone, Debug)]
pub struct SlowPath {
    ring: VecDeque<(StreamId, Record)>,
    ring_cap: usize,
    bitmaps: Vec<Bitmap>,
    commands: VecDeque<Command>,
    commands_cap: usize,
    /// The newest command of each stream that found the ring full.
    waiting: Vec<Option<Command>>,
    /// Acknowledgements on their way to the sender's scoreboard, where the slow path has that.
    evidence: VecDeque<(usize, Psn, Ack)>,
    pushed: u32,
    defect: Option<Defect>,
}

impl SlowPath {
    /// A slow path for `streams` streams.
    #[must_use]
    pub fn new(streams: usize, ring_cap: usize, commands_cap: usize, defect: Option<Defect>) -> Self {
        Self {
            ring: VecDeque::with_capacity(ring_cap),
            ring_cap,
            bitmaps: vec![Bitmap::default(); streams],
            commands: VecDeque::with_capacity(commands_cap),
            commands_cap,
            waiting: vec![None; streams],
            evidence: VecDeque::new(),
            pushed: 0,
            defect,
        }
    }

    /// True if the ring takes `n` more records; an eighth of it is kept for the packet at epsn.
    #[must_use]
    pub fn has_room(&self, n: usize, at_epsn: bool) -> bool {
        let kept = (self.ring_cap / 8).max(1);
        let usable = if at_epsn { self.ring_cap } else { self.ring_cap - kept };
        self.ring.len() + n <= usable
    }

    /// Takes a record; what finds no room is lost, so ask first.
    pub fn push(&mut self, stream: StreamId, record: Record) {
        self.pushed += 1;
        let lost = self.defect == Some(Defect::RecordLost) && self.pushed.is_multiple_of(8);
        if self.ring.len() < self.ring_cap && !lost {
            self.ring.push_back((stream, record));
        }
    }

    /// An acknowledgement for the scoreboard of `qp`. Without room it is lost, as it might have
    /// been on the wire.
    pub fn push_evidence(&mut self, qp: usize, psn: Psn, ack: &Ack) {
        if self.evidence.len() < self.ring_cap {
            self.evidence.push_back((qp, psn, *ack));
        }
    }

    /// Takes the oldest of them.
    pub fn take_evidence(&mut self) -> Option<(usize, Psn, Ack)> {
        self.evidence.pop_front()
    }

    /// Acknowledgements wait.
    #[must_use]
    pub fn has_evidence(&self) -> bool {
        !self.evidence.is_empty()
    }

    /// Records wait for the slow path.
    #[must_use]
    pub fn has_records(&self) -> bool {
        !self.ring.is_empty()
    }

    /// Commands wait for the fast path.
    #[must_use]
    pub fn has_commands(&self) -> bool {
        !self.commands.is_empty()
    }

    /// The slow path's turn: at most `n` records.
    pub fn work(&mut self, n: usize) {
        for _ in 0..n {
            let Some((stream, record)) = self.ring.pop_front() else { break };
            if let Some(command) = self.bitmaps[stream.index()].note(stream, record) {
                self.submit(command);
            }
        }
    }

    /// The fast path takes a command.
    pub fn take_command(&mut self) -> Option<Command> {
        let command = self.commands.pop_front()?;
        if let Some(waiting) = self.waiting.iter_mut().find_map(Option::take) {
            self.commands.push_back(waiting);
        }
        Some(command)
    }

    /// A stream's newest command replaces its older one that still waits; none is ever dropped.
    fn submit(&mut self, command: Command) {
        let waiting = &mut self.waiting[command.stream.index()];
        if waiting.is_none() && self.commands.len() < self.commands_cap {
            self.commands.push_back(command);
        } else if self.defect != Some(Defect::NewestAdvanceDropped) {
            *waiting = Some(command);
        }
    }

    /// For the oracle: the slow path knows, or will know from the ring, that `psn` was received.
    #[must_use]
    pub fn knows(&self, stream: StreamId, gen_no: u32, psn: Psn) -> bool {
        let covers = |record: &Record| {
            record.gen_no == gen_no && psn.steps_from(record.first) <= record.last.steps_from(record.first)
        };
        self.bitmaps[stream.index()].has(gen_no, psn)
            || self.ring.iter().any(|(s, r)| *s == stream && covers(r))
    }

    /// For the oracle: nothing of this stream is under way.
    #[must_use]
    pub fn is_idle(&self, stream: StreamId) -> bool {
        self.ring.iter().all(|(s, _)| *s != stream)
            && self.commands.iter().all(|c| c.stream != stream)
            && self.waiting[stream.index()].is_none()
    }
}

impl Bitmap {
    /// Notes a run. A new generation starts from the record's epsn.
    fn note(&mut self, stream: StreamId, record: Record) -> Option<Command> {
        if self.gen_no != Some(record.gen_no) {
            *self = Self { gen_no: Some(record.gen_no), base: record.epsn, bits: 0 };
        }
        for i in 0..=record.last.steps_from(record.first) {
            let at = record.first.add(i).distance_from(self.base);
            if (0..128).contains(&at) {
                self.bits |= 1 << at;
            }
        }
        let ones = self.bits.trailing_ones();
        if ones == 0 {
            return None;
        }
        self.bits = self.bits.checked_shr(ones).unwrap_or(0);
        self.base = self.base.add(ones);
        let above = u64::try_from((self.bits >> 1) & u128::from(u64::MAX)).expect("masked");
        Some(Command { stream, gen_no: record.gen_no, base: self.base, above })
    }

    fn has(&self, gen_no: u32, psn: Psn) -> bool {
        let at = psn.distance_from(self.base);
        self.gen_no == Some(gen_no) && (at < 0 || (at < 128 && self.bits >> at & 1 == 1))
    }
}
