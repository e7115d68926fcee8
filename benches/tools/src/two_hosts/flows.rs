//! The queue pairs of an entry, which post as it says.

use super::playable::Verb;
use crate::error::Result;
use srnic_workload::scenario::Entry;
use verbs_api::{
    CompletionQueue, MemoryRegion, QueuePair, RemoteRegion, SendData, SendRequest, Sge, WcStatus,
};

/// Completions that are taken before another entry has its turn.
const BURST: usize = 64;

/// A queue pair, with requests counted that it has posted, that have completed, and that it may
/// post.
struct Poster {
    pair: QueuePair,
    posted: u64,
    done: u64,
    room: u32,
}

/// The queue pairs of an entry.
pub struct Flows {
    verb: Verb,
    len: u64,
    /// The elements of a message in each region.
    sources: Vec<Vec<Sge>>,
    /// They hold the regions.
    _memory: Vec<MemoryRegion>,
    remote: RemoteRegion,
    posters: Vec<Poster>,
    cq: CompletionQueue,
    /// One request in so many has a completion.
    signaled: u32,
    /// Requests are posted by so many.
    batch: u32,
    is_posting: bool,
    errors: u64,
    failed: Option<WcStatus>,
}

impl Flows {
    /// Posts all that the queue pairs may have outstanding, from memory of so many bytes at least.
    ///
    /// # Errors
    /// [`Error::Verbs`](crate::error::Error::Verbs).
    pub fn start(
        entry: &Entry,
        (verb, bytes): (Verb, usize),
        memory: Vec<MemoryRegion>,
        remote: RemoteRegion,
        (pairs, cq): (Vec<QueuePair>, CompletionQueue),
    ) -> Result<Self> {
        // The operand and the result of an atomic are one element.
        let count = if verb == Verb::Atomic { 1 } else { entry.elements as usize };
        let sources = memory.iter().map(|region| elements(region, bytes, count));
        let poster = |pair| Poster { pair, posted: 0, done: 0, room: entry.depth };
        let mut flows = Self {
            verb,
            len: bytes as u64,
            sources: sources.collect::<Result<_>>()?,
            _memory: memory,
            remote,
            posters: pairs.into_iter().map(poster).collect(),
            cq,
            signaled: entry.signaled.clamp(1, entry.depth),
            batch: entry.batch.clamp(1, entry.depth),
            is_posting: true,
            errors: 0,
            failed: None,
        };
        (0..flows.posters.len()).try_for_each(|number| flows.post(number))?;
        Ok(flows)
    }

    /// Takes some completions, and posts as many requests as have ended.
    ///
    /// # Errors
    /// [`Error::Verbs`](crate::error::Error::Verbs).
    pub fn step(&mut self) -> Result<()> {
        for _ in 0..BURST {
            let Some(done) = self.cq.poll() else { break };
            if done.status != WcStatus::Success {
                self.errors += 1;
                self.failed.get_or_insert(done.status);
                continue;
            }
            let number = usize::try_from(done.wr_id).unwrap_or(0);
            let poster = &mut self.posters[number];
            poster.done += u64::from(self.signaled);
            poster.room += self.signaled;
            if self.is_posting && self.failed.is_none() {
                self.post(number)?;
            }
        }
        Ok(())
    }

    /// Posts no more.
    pub const fn stop(&mut self) {
        self.is_posting = false;
    }

    /// Requests whose completion must still come, if nothing has failed.
    pub fn under_way(&self) -> u64 {
        let signaled = u64::from(self.signaled);
        self.posters.iter().map(|poster| poster.posted / signaled * signaled - poster.done).sum()
    }

    /// Payload of requests that completed.
    pub fn bytes(&self) -> u64 {
        self.len * self.shares().sum::<u64>()
    }

    /// Requests of each queue pair that completed.
    pub fn shares(&self) -> impl Iterator<Item = u64> {
        self.posters.iter().map(|poster| poster.done)
    }

    /// Requests that ended with an error.
    pub const fn errors(&self) -> u64 {
        self.errors
    }

    /// The first error.
    pub const fn failed(&self) -> Option<WcStatus> {
        self.failed
    }

    /// Posts as many whole batches as a queue pair has room for; a part of one, if no completion
    /// would come otherwise.
    fn post(&mut self, number: usize) -> Result<()> {
        let to = self.remote.at(0);
        let signaled = u64::from(self.signaled);
        let Poster { pair, posted, done, room } = &mut self.posters[number];
        let whole = *room / self.batch * self.batch;
        let is_told = (*posted + u64::from(whole)) / signaled * signaled > *done;
        let mut left = if is_told { whole } else { *room };
        *room -= left;
        while left > 0 {
            let count = left.min(self.batch);
            left -= count;
            let mut batch = pair.batch();
            for _ in 0..count {
                let regions = self.sources.len() as u64;
                let source = &self.sources[usize::try_from(*posted % regions).unwrap_or(0)];
                let data = SendData::Gather(source);
                let request = match self.verb {
                    Verb::Send => SendRequest::send(data),
                    Verb::Read => SendRequest::read(source, to),
                    Verb::Atomic => SendRequest::fetch_and_add(source[0], to, 1),
                    Verb::Write => SendRequest::write(data, to),
                    Verb::WriteImm => SendRequest::write(data, to).with_imm(1),
                };
                *posted += 1;
                let request = if posted.is_multiple_of(signaled) { request.signaled() } else { request };
                batch.post_send(&request.id(number as u64))?;
            }
        }
        Ok(())
    }
}

/// A message in so many elements, of which none is empty.
fn elements(memory: &MemoryRegion, bytes: usize, count: usize) -> Result<Vec<Sge>> {
    let step = bytes.div_ceil(count.clamp(1, bytes.max(1)));
    let starts = (0..bytes).step_by(step.max(1));
    Ok(starts.map(|at| memory.slice(at..bytes.min(at + step))).collect::<std::result::Result<_, _>>()?)
}
