//! One message there, one back.

use super::Verb;
use crate::completions::Completions;
use crate::error::Result;
use crate::perf::cli::{Common, Goal};
use crate::perf::session::Session;
use crate::perf::statistics::Latencies;
use crate::perf::{memory, pattern::Pattern};
use std::ops::Range;
use std::time::Instant;
use verbs_api::{
    MemoryRegion, Pmtu, QueueCaps, QueuePair, RecvRequest, RemoteRegion, SendData, SendRequest, WcOpcode,
};

const WORD: usize = size_of::<u64>();
/// Bytes before the message, which nobody may write.
const GUARD: usize = 64;

/// How the receiving side learns of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Notice {
    /// A WRITE of one packet tells of itself: its last byte is the round's.
    LastByte,
    /// Packets of a longer WRITE may arrive in any order, so another WRITE follows it, of a word
    /// whose last byte is the round's; it is seen only when all before it is there (protocol.md
    /// 2.4).
    Word,
    /// A SEND completes a receive.
    Completion,
}

/// Where the message is, in the source and in the target alike, and what tells of it.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    size: usize,
    /// The aligned word whose last byte is the round's.
    word: usize,
    notice: Notice,
}

impl Place {
    pub const fn new(verb: Verb, size: usize, mtu: Pmtu) -> Self {
        let end = GUARD + size.next_multiple_of(WORD);
        let notice = match verb {
            Verb::Send => Notice::Completion,
            Verb::Write if size <= mtu.bytes() as usize => Notice::LastByte,
            Verb::Write => Notice::Word,
        };
        // The message ends where the word does, or where it begins.
        let word = if matches!(notice, Notice::LastByte) { end - WORD } else { end };
        Self { size, word, notice }
    }

    /// Bytes of a message.
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Bytes of memory.
    pub const fn len(&self) -> usize {
        self.word + WORD
    }

    fn message(&self) -> Range<usize> {
        match self.notice {
            Notice::LastByte => self.word + WORD - self.size..self.word + WORD,
            Notice::Word => self.word - self.size..self.word,
            // Where every receive begins.
            Notice::Completion => GUARD..GUARD + self.size,
        }
    }

    /// The bytes of the message that `--verify` looks at: all but the round.
    fn body(&self) -> Range<usize> {
        let message = self.message();
        message.start..message.end - usize::from(self.notice == Notice::LastByte)
    }

    fn round_at(&self) -> usize {
        self.word + WORD - 1
    }
}

/// Makes both sides' memory ready for the first round, whose byte is 1.
pub fn prepare(session: &Session<'_>, place: Place) -> Result<()> {
    memory::clear(&session.source, 0..place.len())?;
    memory::clear(&session.target, 0..place.len())
}

/// Posts the one receive that is outstanding at any time. It takes messages of every size.
pub fn post_receive(queue_pair: &mut QueuePair, target: &MemoryRegion) -> Result<()> {
    let scatter = [target.slice(GUARD..)?];
    Ok(queue_pair.post_recv(&RecvRequest { wr_id: 0, scatter: &scatter })?)
}

/// One side of the game.
pub struct Player<'a> {
    place: Place,
    verify: bool,
    is_client: bool,
    inline: usize,
    depth: u32,
    queue_pair: &'a mut QueuePair,
    source: &'a MemoryRegion,
    target: &'a MemoryRegion,
    remote: RemoteRegion,
    completions: Completions<'a>,
    /// Receives completed.
    received: u64,
}

impl<'a> Player<'a> {
    pub fn new(common: &Common, session: &'a mut Session<'_>, place: Place, depth: u32) -> Self {
        Self {
            place,
            verify: common.verify,
            is_client: common.basics.is_client(),
            inline: common.inline_size as usize,
            depth,
            queue_pair: &mut session.queue_pairs[0],
            source: &session.source,
            target: &session.target,
            remote: session.remote,
            completions: Completions::new(&mut session.cq, session.channel),
            received: 0,
        }
    }

    /// Begins each round, and measures it.
    pub fn lead(&mut self, goal: Goal, latencies: &mut Latencies) -> Result<()> {
        for round in 1.. {
            self.fill(round)?;
            let start = Instant::now();
            self.post(round)?;
            if !self.wait(round)? {
                break;
            }
            let end = Instant::now();
            latencies.record_at(u64::try_from((end - start).as_nanos() / 2).unwrap_or(u64::MAX), end);
            self.check(round)?;
            if goal.is_reached(round, end) {
                break;
            }
        }
        Ok(())
    }

    /// Answers each round, until the peer says that it is over.
    pub fn follow(&mut self) -> Result<()> {
        for round in 1.. {
            if !self.wait(round)? {
                break;
            }
            self.check(round)?;
            self.fill(round)?;
            self.post(round)?;
        }
        Ok(())
    }

    /// Runs the engine until the round's message is there; false if the peer says something first.
    fn wait(&mut self, round: u64) -> Result<bool> {
        loop {
            if self.is_there(round)? {
                return Ok(true);
            }
            self.poll()?;
            if self.completions.peer_spoke() {
                return Ok(false);
            }
        }
    }

    fn is_there(&self, round: u64) -> Result<bool> {
        if self.place.notice == Notice::Completion {
            return Ok(self.received >= round);
        }
        let word = self.target.load_acquire_u64(self.place.word)?;
        Ok(word.to_ne_bytes()[WORD - 1] == byte(round))
    }

    fn poll(&mut self) -> Result<()> {
        let mut done = [None; 4];
        let count = self.completions.poll_into("a message", &mut done)?;
        for _ in done[..count].iter().flatten().filter(|done| done.opcode == WcOpcode::Recv) {
            self.received += 1;
            post_receive(self.queue_pair, self.target)?;
        }
        Ok(())
    }

    fn post(&mut self, round: u64) -> Result<()> {
        // A message of several packets takes two.
        while self.queue_pair.outstanding() + 2 > self.depth {
            self.poll()?;
        }
        let message = self.place.message();
        if self.place.notice == Notice::LastByte {
            self.source.write(self.place.round_at(), &[byte(round)])?;
        }
        let gather = [self.source.slice(message.clone())?];
        let mut inline = [0; QueueCaps::INLINE_LIMIT as usize];
        let data = if message.len() <= self.inline {
            let inline = &mut inline[..message.len()];
            self.source.read(message.start, inline)?;
            SendData::Inline(inline)
        } else {
            SendData::Gather(&gather)
        };
        let request = match self.place.notice {
            Notice::Completion => SendRequest::send(data),
            Notice::LastByte | Notice::Word => SendRequest::write(data, self.remote.at(message.start as u64)),
        };
        self.queue_pair.post_send(&request.signaled())?;
        if self.place.notice == Notice::Word {
            let mut word = [0; WORD];
            word[WORD - 1] = byte(round);
            let to = self.remote.at(self.place.word as u64);
            self.queue_pair.post_send(&SendRequest::write(SendData::Inline(&word), to).signaled())?;
        }
        Ok(())
    }

    /// New bytes for each round and direction, so that an old one does not pass for a new one.
    fn fill(&self, round: u64) -> Result<()> {
        if !self.verify {
            return Ok(());
        }
        memory::fill(self.source, self.place.body(), pattern(round, self.is_client))
    }

    fn check(&self, round: u64) -> Result<()> {
        if !self.verify {
            return Ok(());
        }
        let start = self.place.message().start;
        memory::check(self.target, 0..start, None, "bytes before the message")?;
        let pattern = pattern(round, !self.is_client);
        memory::check(self.target, self.place.body(), Some(pattern), "message received")
    }
}

/// The byte of a round: not that of the one before.
const fn byte(round: u64) -> u8 {
    round.to_le_bytes()[0]
}

const fn pattern(round: u64, from_client: bool) -> Pattern {
    Pattern::new(round << 1 | from_client as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_one_packet_ends_with_its_round() {
        for size in [1, 2, 7, 8, 9, 64, 1023, 1024] {
            let place = Place::new(Verb::Write, size, Pmtu::B1024);
            assert_eq!(place.message().len(), size);
            assert_eq!(place.message().end, place.round_at() + 1, "{size}");
            assert_eq!(place.body().end, place.round_at(), "{size}");
            assert!(place.message().start >= GUARD && place.message().end <= place.len());
            assert!(place.word.is_multiple_of(WORD));
        }
    }

    #[test]
    fn a_longer_message_is_followed_by_its_round() {
        for size in [1025, 1032, 1 << 20] {
            let place = Place::new(Verb::Write, size, Pmtu::B1024);
            assert_eq!((place.message().len(), place.message().end), (size, place.word));
            assert_eq!(place.body(), place.message());
            assert!(place.message().start >= GUARD && place.round_at() < place.len());
            assert!(place.word.is_multiple_of(WORD));
        }
    }
}
