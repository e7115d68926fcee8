//! A follower: it takes records out of its ring, verifies them, and appends them to its log.

use crate::journal::Journal;
use crate::layout::{self, ACKED, FOLLOWER_BEAT, HEAD, Hello, LAST, LEADER_BEAT, SLOTS, TAIL, load, word};
use crate::{BEAT, PORT, SILENCE, Sabotage, Shape, is_end, record};
use srnic_tools::dial::dial;
use srnic_tools::error::{Error, Result};
use srnic_tools::pump::{PEER_WAIT, Patience};
use srnic_tools::{interrupt, output};
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use verbs_api::{
    Access, CompletionQueue, Connector, Device, MemoryRegion, QueueCaps, QueuePair, RemoteRegion,
};

/// Send requests outstanding at most.
const DEPTH: u32 = 128;
/// Records that are appended at once.
const BATCH: u64 = 64;
/// How long the leader may take to answer a disconnect.
const LIMIT: Duration = Duration::from_secs(10);

/// A follower that is connected.
struct Session<'a> {
    device: &'a Device,
    pair: QueuePair,
    cq: CompletionQueue,
    /// What the leader writes to: memory of this connection alone.
    memory: MemoryRegion,
    /// The leader's words for us.
    leader: RemoteRegion,
    journal: &'a mut Journal,
    shape: Shape,
    sabotage: Option<Sabotage>,
    outstanding: u32,
    /// What the leader was told: head, acknowledgement.
    told: u64,
    beat: u64,
    beaten: Instant,
    /// The leader's words as they were last, and since when.
    seen: ([u64; 2], Instant),
}

/// Follows the leader at `leader` until the log is complete; a connection that fails is made again.
pub fn follow(
    device: &Device,
    number: u8,
    leader: IpAddr,
    path: &Path,
    shape: Shape,
    sabotage: Option<Sabotage>,
) -> Result<()> {
    device.wait_link(PEER_WAIT)?;
    let mut journal = Journal::open(path, shape.size)?;
    let had = journal.held();
    while !Session::connect(device, number, leader, &mut journal, shape, sabotage)?.run()? {}
    output::line(format_args!("follower {number}: {} records, {had} of them from before", journal.held()))?;
    Ok(())
}

impl<'a> Session<'a> {
    fn connect(
        device: &'a Device,
        number: u8,
        leader: IpAddr,
        journal: &'a mut Journal,
        shape: Shape,
        sabotage: Option<Sabotage>,
    ) -> Result<Self> {
        let pd = device.alloc_pd();
        let memory =
            pd.register(layout::memory_len(shape.size), Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        memory.store_release_u64(TAIL, journal.held())?;
        let hello = Hello { follower: number, held: journal.held(), memory: memory.remote() }.encode();
        let connector = Connector::new().private_data(&hello);
        let (pair, cq) = dial(device, connector, (leader, PORT).into(), PEER_WAIT, || {
            let cq = device.create_cq(2 * DEPTH)?;
            let caps = QueueCaps { max_send_wr: DEPTH, ..QueueCaps::default() };
            Ok((pd.queue_pair(&cq, &cq).caps(caps).build()?, cq))
        })?;
        let leader = layout::region(pair.private_data())?;
        let (told, now) = (journal.held(), Instant::now());
        Ok(Self {
            device,
            pair,
            cq,
            memory,
            leader,
            journal,
            shape,
            sabotage,
            outstanding: 0,
            told,
            beat: 0,
            beaten: now,
            seen: ([0; 2], now),
        })
    }

    /// Follows; true if the log is complete, false if the connection has failed.
    fn run(mut self) -> Result<bool> {
        let mut patience = Patience::default();
        loop {
            interrupt::check()?;
            let now = Instant::now();
            self.device.progress();
            if !self.complete()? || self.is_over(now)? {
                // The leader waits for the answer to its disconnect.
                self.pair.disconnect(LIMIT)?;
                let last = load(&self.memory, LAST)?;
                return Ok(last > 0 && last == self.journal.held());
            }
            let took = self.take()?;
            self.tell(now)?;
            patience.polled(took);
        }
    }

    /// Takes completions; false if one says that the connection is over.
    fn complete(&mut self) -> Result<bool> {
        while let Some(completion) = self.cq.poll() {
            if is_end(&completion)? {
                return Ok(false);
            }
            self.outstanding -= u32::try_from(completion.wr_id).unwrap_or(0).min(self.outstanding);
        }
        Ok(true)
    }

    /// Returns `true` if the leader has disconnected, or fallen silent.
    fn is_over(&mut self, now: Instant) -> Result<bool> {
        let found = [load(&self.memory, TAIL)?, load(&self.memory, LEADER_BEAT)?];
        if found != self.seen.0 {
            self.seen = (found, now);
        }
        Ok(self.pair.is_disconnected() || now - self.seen.1 > SILENCE)
    }

    /// Takes what the tail word says is in the ring, verifies it, and appends it; true if there was
    /// anything.
    fn take(&mut self) -> Result<bool> {
        let (held, tail) = (self.journal.held(), load(&self.memory, TAIL)?);
        if tail < held || tail - held > SLOTS {
            return Err(Error::Options(format!("the tail word is {tail}; {held} records are here")));
        }
        let count = (tail - held).min(BATCH);
        if count == 0 {
            return Ok(false);
        }
        let size = self.shape.size;
        let mut records = vec![0; usize::try_from(count).unwrap_or(0) * size];
        for (sequence, bytes) in (held + 1..).zip(records.chunks_exact_mut(size)) {
            self.memory.read(layout::slot(sequence, size), bytes)?;
            record::check(bytes, sequence).map_err(Error::Options)?;
        }
        if self.sabotage == Some(Sabotage::Log) {
            records[size - 1] ^= 1;
        }
        self.journal.append(&records, count)?;
        Ok(true)
    }

    /// Gives back credit, acknowledges, and shows that we live.
    fn tell(&mut self, now: Instant) -> Result<()> {
        let held = self.journal.held();
        if held > self.told && self.outstanding + 2 <= DEPTH {
            self.told = held;
            let value = held.to_le_bytes();
            let (head, acked) = (self.leader.at(HEAD as u64), self.leader.at(ACKED as u64));
            let mut batch = self.pair.batch();
            batch.post_send(&word(&value, head))?;
            batch.post_send(&word(&value, acked).id(2).signaled())?;
            self.outstanding += 2;
        }
        if now - self.beaten > BEAT && self.outstanding < DEPTH {
            self.beaten = now;
            self.beat += 1;
            let value = self.beat.to_le_bytes();
            self.pair.post_send(&word(&value, self.leader.at(FOLLOWER_BEAT as u64)).id(1).signaled())?;
            self.outstanding += 1;
        }
        Ok(())
    }
}
