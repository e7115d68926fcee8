//! A follower as the leader sees it: the connection that it has now, and what it has acknowledged.

use crate::layout::{
    self, ACKED, FOLLOWER_BEAT, HEAD, Hello, LAST, LEADER_BEAT, SLOTS, TAIL, WORDS, load, word,
};
use crate::{BEAT, SILENCE, Sabotage, is_end};
use srnic_tools::error::Result;
use std::time::{Duration, Instant};
use verbs_api::{
    Access, CompletionQueue, Connecting, ConnectionRequest, Device, MemoryRegion, ProtectionDomain,
    QueueCaps, QueuePair, RemoteRegion, SendData, SendRequest,
};

/// Send requests outstanding at most.
const DEPTH: u32 = 2048;
/// Records before a tail word at most.
const BATCH: u64 = 32;
/// Bytes of inline data at most: those of a block that ends with the tail word and is too long for
/// the promise.
const INLINE: u32 = 72;
const LONG: usize = INLINE as usize;
const _: () = assert!(LONG == TAIL + 8);

/// The leader's log, in registered memory.
pub struct Log {
    pub memory: MemoryRegion,
    /// Bytes of a record.
    pub size: usize,
    /// The last record that is in it.
    pub appended: u64,
}

impl Log {
    /// Where a record begins.
    pub fn at(&self, sequence: u64) -> usize {
        usize::try_from(sequence.saturating_sub(1)).unwrap_or(usize::MAX).saturating_mul(self.size)
    }
}

/// A connection that is there.
pub struct Peer {
    pair: QueuePair,
    cq: CompletionQueue,
    /// Its memory.
    remote: RemoteRegion,
    /// What it writes to. Memory of this connection alone: whatever an earlier one left in the
    /// network has no key for it.
    words: MemoryRegion,
    sabotage: Option<Sabotage>,
    /// The last record that was posted.
    sent: u64,
    /// Send requests that have not completed.
    outstanding: u32,
    beat: u64,
    beaten: Instant,
    /// Its words as they were last, and since when.
    seen: ([u64; 3], Instant),
}

/// A connection that is being made.
pub struct Coming {
    connecting: Connecting,
    cq: CompletionQueue,
    words: MemoryRegion,
    pub hello: Hello,
}

impl Coming {
    /// Accepts a follower that says what it has.
    pub fn accept(
        device: &Device,
        pd: &ProtectionDomain,
        request: ConnectionRequest,
        hello: Hello,
    ) -> Result<Self> {
        let cq = device.create_cq(2 * DEPTH)?;
        let words = pd.register(WORDS, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        let caps = QueueCaps { max_send_wr: DEPTH, max_inline: INLINE, ..QueueCaps::default() };
        let pair = pd.queue_pair(&cq, &cq).caps(caps).build()?;
        let welcome = words.remote().to_bytes();
        Ok(Self { connecting: request.with_private_data(&welcome).accept(pair)?, cq, words, hello })
    }

    /// The connection, once it is there; an error if it will not be.
    pub fn poll(&mut self) -> Result<Option<QueuePair>> {
        Ok(self.connecting.poll()?)
    }

    /// Begins behind the last record that the follower has.
    pub fn join(self, pair: QueuePair, now: Instant, sabotage: Option<Sabotage>) -> Result<Peer> {
        let Self { cq, words, hello, .. } = self;
        // Nothing is in its ring: all of that is credit.
        words.store_release_u64(HEAD, hello.held)?;
        words.store_release_u64(ACKED, hello.held)?;
        Ok(Peer {
            pair,
            cq,
            remote: hello.memory,
            words,
            sabotage,
            sent: hello.held,
            outstanding: 0,
            beat: 0,
            beaten: now,
            seen: ([0; 3], now),
        })
    }
}

/// What became of a peer.
pub enum Life {
    /// It lives, and this is what it has acknowledged.
    Acked(u64),
    /// It has left, failed, or fallen silent.
    Gone,
}

impl Peer {
    /// Takes in what the follower says, and posts what it lacks.
    pub fn turn(&mut self, now: Instant, log: &Log) -> Result<Life> {
        if !self.complete()? || !self.is_alive(now)? {
            return Ok(Life::Gone);
        }
        self.send(log)?;
        if now - self.beaten > BEAT {
            self.beaten = now;
            self.beat += 1;
            self.post_word(LEADER_BEAT, self.beat)?;
        }
        Ok(Life::Acked(load(&self.words, ACKED)?.min(self.sent)))
    }

    /// Takes completions; false if one says that the connection is over.
    fn complete(&mut self) -> Result<bool> {
        let mut done = [None; 16];
        let count = self.cq.poll_into(&mut done);
        for completion in done[..count].iter().flatten() {
            if is_end(completion)? {
                return Ok(false);
            }
            // It stands for as many, of which only the last is signaled.
            self.outstanding -= u32::try_from(completion.wr_id).unwrap_or(0).min(self.outstanding);
        }
        Ok(true)
    }

    /// Returns `true` if any of its words has changed lately.
    fn is_alive(&mut self, now: Instant) -> Result<bool> {
        let words = &self.words;
        let found = [load(words, HEAD)?, load(words, ACKED)?, load(words, FOLLOWER_BEAT)?];
        if found != self.seen.0 {
            self.seen = (found, now);
        }
        Ok(now - self.seen.1 < SILENCE && !self.pair.is_disconnected())
    }

    /// Posts records for which there is credit, and then the tail word, all as one batch.
    fn send(&mut self, log: &Log) -> Result<()> {
        let head = load(&self.words, HEAD)?.min(self.sent);
        let room = u64::from(DEPTH - self.outstanding).saturating_sub(2);
        let count = (head + SLOTS - self.sent).min(log.appended - self.sent).min(room).min(BATCH);
        if count == 0 {
            return Ok(());
        }
        let mut batch = self.pair.batch();
        for sequence in self.sent + 1..=self.sent + count {
            let at = log.at(sequence);
            let record = [log.memory.slice(at..at + log.size)?];
            let to = self.remote.at(layout::slot(sequence, log.size) as u64);
            batch.post_send(&SendRequest::write(SendData::Gather(&record), to))?;
        }
        self.sent += count;
        let mut block = [0; LONG];
        block[TAIL..].copy_from_slice(&self.sent.to_le_bytes());
        // The promise is of WRITEs of at most 64 bytes, and of this one it would be broken.
        let start = if self.sabotage == Some(Sabotage::Order) { 0 } else { TAIL };
        let tail = SendRequest::write(SendData::Inline(&block[start..]), self.remote.at(start as u64));
        batch.post_send(&tail.id(count + 1).signaled())?;
        self.outstanding += u32::try_from(count + 1).unwrap_or(u32::MAX);
        Ok(())
    }

    /// Writes one of the follower's words, if there is room.
    fn post_word(&mut self, at: usize, value: u64) -> Result<()> {
        if self.outstanding < DEPTH {
            let value = value.to_le_bytes();
            self.pair.post_send(&word(&value, self.remote.at(at as u64)).id(1).signaled())?;
            self.outstanding += 1;
        }
        Ok(())
    }

    /// Tells the follower that the log is complete, and waits until its end knows, `limit` at most.
    pub fn finish(&mut self, last: u64, limit: Duration) -> Result<()> {
        let start = Instant::now();
        let mut told = false;
        while (!told || self.outstanding > 0) && start.elapsed() < limit {
            if !told && self.outstanding < DEPTH {
                self.post_word(LAST, last)?;
                told = true;
            }
            if !self.complete()? {
                break;
            }
        }
        Ok(())
    }

    /// Ends the connection, and waits for the follower's answer.
    pub fn close(mut self, limit: Duration) -> Result<()> {
        self.pair.disconnect(limit)?;
        Ok(())
    }
}
