//! The slow path of one engine: records in, commands out.

use wire::Psn;

use crate::{
    contexts::{Contexts, Standing},
    message::{Command, Generation, Record, StreamId},
    outbox::Outbox,
    requester::{Losses, Sacks, Scoreboard},
    responder::{Arrivals, Filled},
    untracked,
};

/// The protocol's limit of a window, in packets (protocol.md 2.2).
const WINDOW_LIMIT: u32 = 1 << 15;

/// Sizes, fixed when the slow path is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlowPathConfig {
    /// Number of streams, two for each QPC slot: [`StreamId::index`] is below it.
    pub max_streams: u32,
    /// Largest window of any stream, in packets, at most 2^15.
    pub window_max: u32,
    /// Bitmaps of receivers, and scoreboards of senders: streams that can recover with one at the
    /// same time.
    pub contexts: u32,
}

/// Running counts, for diagnosis.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SlowPathStats {
    /// Records handled.
    pub records: u64,
    /// Records ignored because their generation is over.
    pub records_stale: u64,
    /// Records ignored because they name no stream of ours or a window above the largest.
    pub records_invalid: u64,
    /// `Advance` commands.
    pub advances: u64,
    /// Packets declared lost, each time that they were.
    pub packets_lost: u64,
    /// Recoveries of senders without a scoreboard, because all were taken.
    pub untracked: u64,
    /// Records of receivers ignored because all bitmaps were taken: what they report is resent
    /// after a timeout.
    pub records_refused: u64,
    /// Receivers in recovery now.
    pub receivers_open: usize,
    /// Senders with a scoreboard now.
    pub senders_open: usize,
    /// Most commands that ever waited at once.
    pub commands_waiting_max: usize,
    /// Steps of work: bitmap words read and packets looked at.
    pub work: u64,
}

/// Bitmaps and scoreboards of all streams in recovery.
#[derive(Debug)]
pub struct SlowPath {
    window_max: u32,
    receivers: Contexts<Arrivals>,
    senders: Contexts<Scoreboard>,
    outbox: Outbox,
    stats: SlowPathStats,
}

impl SlowPath {
    /// Makes all contexts and queues in advance. Windows above 2^15 packets count as 2^15, more
    /// contexts than streams as one for each stream.
    #[must_use]
    pub fn new(config: SlowPathConfig) -> Self {
        let window_max = config.window_max.clamp(1, WINDOW_LIMIT);
        let (streams, contexts) = (config.max_streams as usize, config.contexts.min(config.max_streams));
        Self {
            window_max,
            receivers: Contexts::new(streams, contexts, window_max),
            senders: Contexts::new(streams, contexts, window_max),
            outbox: Outbox::new(window_max),
            stats: SlowPathStats::default(),
        }
    }

    /// Is there room for the commands of one more record? If not, poll first.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.outbox.ready()
    }

    /// Takes one record. While not [`ready`](Self::ready) the queue of commands may have to be
    /// allocated anew, but nothing is lost.
    pub fn handle(&mut self, record: &Record) {
        self.stats.records += 1;
        match *record {
            Record::RxRun { stream, generation, first, last, epsn } => {
                self.on_rx_run(stream, generation, first, last, epsn);
            }
            Record::RxClose { stream, generation } => {
                match self.receivers.standing(stream.index(), generation) {
                    standing @ (Standing::Stale | Standing::Unknown) => self.ignore(standing),
                    _ => self.receivers.close(stream.index(), generation),
                }
            }
            Record::TxClose { stream, generation } => {
                match self.senders.standing(stream.index(), generation) {
                    standing @ (Standing::Stale | Standing::Unknown) => self.ignore(standing),
                    _ => self.senders.close(stream.index(), generation),
                }
            }
            Record::Ack { stream, generation, seq, .. }
            | Record::ResendAll { stream, generation, seq, .. }
            | Record::Resent { stream, generation, seq, .. }
            | Record::Rto { stream, generation, seq } => self.on_sender(record, stream, generation, seq),
        }
    }

    /// The next command, oldest first.
    pub fn poll(&mut self) -> Option<Command> {
        self.outbox.pop()
    }

    /// True if no command waits to be polled.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.outbox.is_empty()
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.receivers.bytes() + self.senders.bytes() + self.outbox.bytes()
    }

    /// Counts since the start.
    #[must_use]
    pub fn stats(&self) -> SlowPathStats {
        SlowPathStats {
            receivers_open: self.receivers.open_count(),
            senders_open: self.senders.open_count(),
            commands_waiting_max: self.outbox.high_water(),
            ..self.stats
        }
    }

    fn ignore(&mut self, standing: Standing) {
        match standing {
            Standing::Stale => self.stats.records_stale += 1,
            _ => self.stats.records_invalid += 1,
        }
    }

    fn on_rx_run(&mut self, stream: StreamId, generation: Generation, first: Psn, last: Psn, epsn: Psn) {
        let standing = self.receivers.standing(stream.index(), generation);
        let reach = match standing {
            Standing::Open(slot) => self.receivers.get(slot).reach(last),
            Standing::New | Standing::Untracked(_) => {
                u32::try_from(last.distance_from(epsn) + 1).unwrap_or(0)
            }
            Standing::Stale | Standing::Unknown => return self.ignore(standing),
        };
        if reach > self.window_max || last.is_before(first) {
            return self.ignore(Standing::Unknown);
        }
        let slot = match standing {
            Standing::Open(slot) => slot,
            _ => {
                let Some(slot) = self.receivers.open(stream.index(), generation) else {
                    self.stats.records_refused += 1;
                    return;
                };
                self.receivers.get_mut(slot).reset(epsn);
                slot
            }
        };
        let arrivals = self.receivers.get_mut(slot);
        if let Filled::Advanced { epsn, bitmap } = arrivals.fill(first, last, epsn, &mut self.stats.work) {
            self.stats.advances += 1;
            self.outbox.push(Command::Advance { stream, generation, epsn, bitmap });
        }
    }

    /// A sender's record: finds its scoreboard or begins one, applies the record, answers.
    fn on_sender(&mut self, record: &Record, stream: StreamId, generation: Generation, seq: u16) {
        let standing = self.senders.standing(stream.index(), generation);
        let open = match standing {
            Standing::Open(slot) => Some(slot),
            Standing::New | Standing::Untracked(_) => None,
            Standing::Stale | Standing::Unknown => return self.ignore(standing),
        };
        if !self.is_valid(record, open) {
            return self.ignore(Standing::Unknown);
        }
        let mut losses = Losses { stream, generation, outbox: &mut self.outbox, packets: 0, work: 0 };
        let tracked = match standing {
            Standing::Untracked(declared) => Err(Some(declared)),
            _ => Self::scoreboard(&mut self.senders, record, open, stream.index(), generation),
        };
        let (sacked, clean) = match tracked {
            Ok(slot) => {
                let scoreboard = self.senders.get_mut(slot);
                Self::apply(record, scoreboard, &mut losses);
                (scoreboard.sacked(), scoreboard.is_clean())
            }
            Err(Some(declared)) => {
                self.stats.untracked += u64::from(standing == Standing::New);
                let declared = untracked::apply(record, declared, &mut losses);
                if let Some(declared) = declared {
                    self.senders.go_untracked(stream.index(), generation, declared);
                }
                (0, declared.is_none())
            }
            Err(None) => (0, true),
        };
        self.stats.packets_lost += losses.packets;
        self.stats.work += losses.work;
        if clean {
            self.senders.forget(stream.index(), generation);
        }
        self.outbox.push_scoreboard(Command::Scoreboard { stream, generation, seq, sacked, clean });
    }

    /// The scoreboard for a record: the stream's own, or a free one if there is something to
    /// remember.
    ///
    /// # Errors
    /// There is none: `una` of a stream that needs one, while all are taken; `None` if there is
    /// nothing to remember.
    fn scoreboard(
        senders: &mut Contexts<Scoreboard>,
        record: &Record,
        open: Option<u32>,
        stream: usize,
        generation: Generation,
    ) -> Result<u32, Option<Psn>> {
        if let Some(slot) = open {
            return Ok(slot);
        }
        let (una, snd_nxt, anchored) = Self::opens(record).ok_or(None)?;
        let slot = senders.open(stream, generation).ok_or(anchored.then_some(una))?;
        senders.get_mut(slot).reset(una, snd_nxt, anchored);
        Ok(slot)
    }

    /// Where a scoreboard begins that this record needs: una, snd_nxt, and whether una is known.
    /// `None` if there is nothing in the record to remember.
    fn opens(record: &Record) -> Option<(Psn, Psn, bool)> {
        match *record {
            Record::Ack { una, snd_nxt, sack, bitmap, .. } => {
                (sack.is_some() || bitmap != 0).then_some((una, snd_nxt, true))
            }
            Record::ResendAll { una, snd_nxt, .. } => Some((una, snd_nxt, true)),
            Record::Resent { psn, snd_nxt, .. } => Some((psn, snd_nxt, false)),
            _ => None,
        }
    }

    /// Are the record's PSNs in order, and its window at most the largest?
    fn is_valid(&self, record: &Record, open: Option<u32>) -> bool {
        let ordered = match *record {
            Record::Ack { una, snd_nxt, .. } | Record::ResendAll { una, snd_nxt, .. } => {
                !snd_nxt.is_before(una)
            }
            Record::Resent { psn, snd_nxt, .. } => psn.is_before(snd_nxt),
            _ => true,
        };
        let scoreboard = open.map(|slot| self.senders.get(slot));
        ordered && Self::window_of(record, scoreboard).is_none_or(|window| window <= self.window_max)
    }

    /// The window in packets after this record, if it says something about the window.
    fn window_of(record: &Record, scoreboard: Option<&Scoreboard>) -> Option<u32> {
        let (una, snd_nxt) = match *record {
            Record::Ack { una, snd_nxt, .. } | Record::ResendAll { una, snd_nxt, .. } => (una, snd_nxt),
            Record::Resent { psn, snd_nxt, .. } => (scoreboard.map_or(psn, |s| s.una_for(psn)), snd_nxt),
            _ => return None,
        };
        Some(match scoreboard {
            Some(scoreboard) => scoreboard.window_with(una, snd_nxt),
            None => snd_nxt.steps_from(una),
        })
    }

    fn apply(record: &Record, scoreboard: &mut Scoreboard, losses: &mut Losses<'_>) {
        match *record {
            Record::Ack { una, snd_nxt, sack, bitmap_base, bitmap, threshold, .. } => {
                let sacks = Sacks { sack, bitmap_base, bitmap };
                scoreboard.on_ack(una, snd_nxt, sacks, threshold, losses);
            }
            Record::ResendAll { una, snd_nxt, first, last, .. } => {
                scoreboard.on_resend_all((una, snd_nxt), first, last, losses);
            }
            Record::Resent { psn, snd_nxt, .. } => scoreboard.on_resent(psn, snd_nxt, losses),
            Record::Rto { .. } => scoreboard.on_rto(losses),
            Record::RxRun { .. } | Record::RxClose { .. } | Record::TxClose { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests;
