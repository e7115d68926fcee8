//! What an endpoint has under its lock: the completion queue, the pool and the connections.

use super::Stats;
use super::link::{Carried, Carrier, Link};
use super::moving::Move;
use super::tcp::Outbox;
use super::waiters::{On, Waiters};
use crate::config::Config;
use crate::error::Setup;
use crate::pool::{Chunk, Pool};
use crate::protocol::{Header, Hello, Slot, Violation};
use core::net::SocketAddr;
use core::task::Waker;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use verbs_api::{
    Access, Completion, CompletionChannel, CompletionQueue, Device, PreparedQueuePair, ProtectionDomain,
    QueueCaps, QueuePair,
};

/// Completions taken at once.
const BATCH: usize = 32;
/// Bytes of inline data: a header and a descriptor.
const INLINE: u32 = 48;
/// Connections that the completion queue has room for at first.
const FIRST_LINKS: u32 = 4;
/// What a peer may do, to windows that are bound to its queue pair; no region allows it.
const ACCESS: Access = Access::LOCAL_WRITE.union(Access::REMOTE_WRITE).union(Access::REMOTE_READ);
/// A try of 1.07 s, of which there are eight: a peer of a thousand streams on a busy processor may
/// be silent for a second, and nothing else carries them.
const TIMEOUT: u8 = 18;
/// Those of a stream that may go on over TCP: it is to do so within a second.
const MOVING_KEEPALIVE: core::time::Duration = core::time::Duration::from_millis(200);
/// A try of 16.8 ms, of which there are six.
const MOVING_TIMEOUT: u8 = 12;
const MOVING_RETRIES: u8 = 5;
/// An idle peer is asked for a sign after this time, so that a reader learns of its death.
const KEEPALIVE: core::time::Duration = core::time::Duration::from_secs(10);

pub(crate) struct State {
    pub cq: CompletionQueue,
    pub pool: Pool,
    /// By numbers that are given once. No peer chooses a number, nor that of a queue pair.
    links: FxHashMap<u64, Link>,
    /// Those that a queue pair carries, or may come to carry, by its number.
    by_qpn: FxHashMap<u32, u64>,
    /// Receives that are posted to queue pairs whose link is gone, by their numbers.
    orphans: FxHashMap<u32, Vec<Chunk>>,
    next_id: u64,
    config: Config,
    domain: ProtectionDomain,
    /// Streams that wait for memory, or whose writers do.
    starved: BTreeSet<u64>,
    /// Connections that are over, or may be.
    over: Vec<u64>,
    /// Who waits until there is no connection any more.
    leavers: Waiters,
    /// Tasks and threads to wake once the lock is free.
    pub wakers: Vec<Waker>,
    rejected: u64,
    violations: [u64; Violation::ALL.len()],
    /// What connections that are over have carried.
    past: Carried,
    /// Connections that were made.
    made: u64,
    moved_to_tcp: u64,
    returned_to_rdma: u64,
    /// Completions of queue pairs that carry no stream any more.
    stale: u64,
    /// Threads that wait and poll meanwhile.
    pub polling: usize,
    /// Polls by threads that wait, since the beginning.
    pub polls: u64,
    /// Threads that sleep until something happens.
    pub sleeping: usize,
    /// Tasks have waited, and may: somebody must wake them.
    has_tasks: bool,
    pub stopping: bool,
}

impl State {
    pub fn new(device: &Device, channel: &CompletionChannel, config: &Config) -> Result<Self, Setup> {
        let domain = device.alloc_pd();
        Ok(Self {
            cq: device.create_cq_on(channel, FIRST_LINKS * completions(config))?,
            pool: new_pool(&domain, config),
            links: FxHashMap::default(),
            by_qpn: FxHashMap::default(),
            orphans: FxHashMap::default(),
            next_id: 0,
            config: *config,
            domain,
            starved: BTreeSet::new(),
            over: Vec::new(),
            leavers: Waiters::default(),
            wakers: Vec::new(),
            rejected: 0,
            violations: [0; Violation::ALL.len()],
            past: Carried::default(),
            made: 0,
            moved_to_tcp: 0,
            returned_to_rdma: 0,
            stale: 0,
            polling: 0,
            polls: 0,
            sleeping: 0,
            has_tasks: false,
            stopping: false,
        })
    }

    pub fn stats(&self) -> Stats {
        let carried = self.links.values().fold(self.past, |sum, link| sum.plus(&link.carried));
        Stats {
            streams: self.links.len(),
            memory: self.pool.memory(),
            registrations: self.pool.registrations(),
            rejected: self.rejected,
            violations: self.violations,
            sent: carried.sent,
            bytes_written: carried.written,
            bytes_read: carried.read,
            bytes_written_in_place: carried.written_in_place,
            bytes_read_in_place: carried.read_in_place,
            made: self.made,
            over_tcp: self.links.values().filter(|link| link.is_by_tcp()).count(),
            moved_to_tcp: self.moved_to_tcp,
            returned_to_rdma: self.returned_to_rdma,
            stale_completions: self.stale,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Returns `true` if a thread or a task waits for somebody else to wake it.
    pub const fn has_dependants(&self) -> bool {
        self.sleeping > 0 || self.has_tasks
    }

    pub const fn reject(&mut self) {
        self.rejected += 1;
    }

    /// A link without a carrier.
    pub fn add_link(&mut self, own: &Hello, moves: Option<Move>) -> Result<u64, Setup> {
        let mut link = Link::new(&mut self.pool, &self.config, own)?;
        link.moves = moves;
        let id = self.next_id;
        self.next_id += 1;
        self.links.insert(id, link);
        Ok(id)
    }

    /// A queue pair with `count` of this link's receives posted.
    pub fn prepare(&mut self, id: u64, count: usize) -> Result<PreparedQueuePair, Setup> {
        // What another of its number has completed is nobody's.
        self.take_completions();
        self.make_room()?;
        let caps = QueueCaps {
            max_send_wr: self.config.send_queue(),
            max_recv_wr: self.config.posted(),
            max_inline: INLINE,
            ..QueueCaps::default()
        };
        let Some(link) = self.links.get_mut(&id) else {
            return Err(Setup::Gone);
        };
        let mut pair = self.domain.queue_pair(&self.cq, &self.cq).caps(caps).access(ACCESS);
        pair = match &link.moves {
            None => pair.keepalive(KEEPALIVE).timeout(TIMEOUT),
            Some(_) => pair.keepalive(MOVING_KEEPALIVE).timeout(MOVING_TIMEOUT).retry_cnt(MOVING_RETRIES),
        };
        let mut pair = pair.build()?;
        if let Err(error) = link.lend(&self.pool, &mut pair, count) {
            // Nothing has completed on one that nobody knows.
            let _ = link.take_back(&self.pool, pair.qpn());
            return Err(error);
        }
        self.by_qpn.insert(pair.qpn(), id);
        Ok(pair)
    }

    /// A queue pair that was prepared for this link is gone.
    pub fn unprepare(&mut self, id: u64, qpn: u32) {
        if self.by_qpn.get(&qpn) == Some(&id) {
            self.by_qpn.remove(&qpn);
        }
        match self.links.get_mut(&id) {
            Some(link) => self.stale += link.take_back(&self.pool, qpn),
            None => self.give_orphans(qpn),
        }
    }

    /// A queue pair is gone whose link went before.
    fn give_orphans(&mut self, qpn: u32) {
        for chunk in self.orphans.remove(&qpn).into_iter().flatten() {
            self.pool.give(chunk);
        }
        self.feed();
    }

    /// Gives the completion queue room for one connection more.
    fn make_room(&mut self) -> Result<(), Setup> {
        let links = u32::try_from(self.links.len()).unwrap_or(u32::MAX).saturating_add(1);
        let needed = links.saturating_mul(completions(&self.config));
        if needed > self.cq.entries() {
            self.cq.resize(needed.max(self.cq.entries().saturating_mul(2)))?;
        }
        Ok(())
    }

    /// The connection of a prepared queue pair is there.
    pub fn connected(&mut self, id: u64, pair: QueuePair, peer: &Hello) {
        if let Some(link) = self.links.get_mut(&id) {
            if !peer.features.moves {
                link.moves = None;
            }
            link.connected(&mut self.pool, pair, peer);
            self.made += 1;
        }
    }

    /// The connection by TCP is there.
    pub fn connected_by_tcp(&mut self, id: u64, out: Arc<Outbox>, addr: SocketAddr, peer: &Hello) {
        if let Some(link) = self.links.get_mut(&id) {
            link.connected_by_tcp(&mut self.pool, out, addr, peer);
            self.made += 1;
        }
    }

    /// Another carrier of a stream that exists is there.
    pub fn resume(&mut self, id: u64, carrier: Carrier) {
        // What the one before has brought counts.
        self.take_completions();
        if let Some(link) = self.links.get_mut(&id) {
            let qpn = link.qpn();
            match &carrier {
                Carrier::Tcp(..) => self.moved_to_tcp += 1,
                Carrier::Pair(_) => self.returned_to_rdma += 1,
                Carrier::None => {}
            }
            link.resume(&mut self.pool, carrier);
            if let Some(qpn) = qpn {
                self.by_qpn.remove(&qpn);
            }
        } else if let Carrier::Pair(pair) = carrier {
            let qpn = pair.qpn();
            drop(pair);
            self.give_orphans(qpn);
        }
        self.settle(id);
    }

    /// The stream with this token that may go on over another carrier.
    pub fn by_token(&self, token: &[u8; 16]) -> Option<u64> {
        let has_token = |link: &Link| link.moves.as_ref().is_some_and(|moves| moves.token == *token);
        self.links.iter().find(|(_, link)| has_token(link)).map(|(id, _)| *id)
    }

    /// How many carriers it has had.
    pub fn generation(&self, id: u64) -> u64 {
        self.links.get(&id).map_or(0, |link| link.generation)
    }

    /// All links that may go on over another carrier.
    pub fn moving(&mut self) -> impl Iterator<Item = (u64, &mut Link)> {
        self.links.iter_mut().filter(|(_, link)| link.moves.is_some()).map(|(id, link)| (*id, link))
    }

    /// The connection and the pool, for a call of its stream.
    pub fn link(&mut self, id: u64) -> Option<(&mut Link, &mut Pool)> {
        Some((self.links.get_mut(&id)?, &mut self.pool))
    }

    /// A chunk that a program had is free again.
    pub fn give(&mut self, chunk: Chunk) {
        self.pool.give(chunk);
        self.feed();
    }

    /// The program is done with what it has borrowed of this receive, in this chunk.
    pub fn give_back(&mut self, id: u64, slot: Slot, chunk: Chunk) {
        match self.links.get_mut(&id) {
            Some(link) => link.give_back(&mut self.pool, slot, chunk),
            None => self.pool.give(chunk),
        }
        if self.links.get(&id).is_some_and(|link| link.has_ended() || link.is_hungry()) {
            self.settle(id);
            self.reap_one(id);
        }
        self.feed();
    }

    /// A call of a stream; `None` if its connection is gone.
    pub fn with_link<T>(&mut self, id: u64, call: impl FnOnce(&mut Link, &mut Pool) -> T) -> Option<T> {
        let link = self.links.get_mut(&id)?;
        let result = call(link, &mut self.pool);
        if link.is_hungry() {
            self.starved.insert(id);
        }
        Some(result)
    }

    /// Has the task woken when something has happened to what it waits for.
    #[cfg(feature = "tokio")]
    pub fn wake_task(&mut self, on: On, waker: &Waker) {
        self.has_tasks = true;
        self.wait(on, waker);
    }

    /// Has whoever waits woken when something has happened to what it waits for.
    pub fn wait(&mut self, on: On, waker: &Waker) {
        match on {
            On::Read(id) => {
                if let Some(link) = self.links.get_mut(&id) {
                    link.readers.add(waker, &mut self.wakers);
                }
            }
            On::Write(id) => {
                if let Some(link) = self.links.get_mut(&id) {
                    link.writers.add(waker, &mut self.wakers);
                    self.note_hunger(id);
                }
            }
            On::Empty => self.leavers.add(waker, &mut self.wakers),
        }
    }

    /// The writer of this stream may wait for memory.
    fn note_hunger(&mut self, id: u64) {
        if self.pool.is_exhausted() {
            self.starved.insert(id);
        }
    }

    /// The program has done something to this connection that whoever waits for it must see.
    pub fn rouse(&mut self, id: u64) {
        if let Some(link) = self.links.get_mut(&id) {
            self.wakers.extend(link.readers.take());
            self.wakers.extend(link.writers.take());
        }
    }

    /// There may be memory for those that wait for it, if some came back.
    pub fn feed(&mut self) {
        if self.starved.is_empty() || !self.pool.take_freed() {
            return;
        }
        for id in core::mem::take(&mut self.starved) {
            let Some(link) = self.links.get_mut(&id) else { continue };
            self.wakers.extend(link.writers.take());
            if link.is_hungry() {
                link.pump(&mut self.pool);
                self.settle(id);
            }
        }
    }

    /// The connection is over, or was never made.
    pub fn forget(&mut self, id: u64) {
        if let Some(mut link) = self.links.remove(&id) {
            self.past = self.past.plus(&link.carried);
            self.by_qpn.retain(|_, of| *of != id);
            for (qpn, chunks) in link.release(&mut self.pool) {
                self.orphans.entry(qpn).or_default().extend(chunks);
            }
            self.feed();
        }
        if self.links.is_empty() {
            self.wakers.extend(self.leavers.take());
        }
        // What it has completed until now is nobody's, and must not be taken for that of a later
        // queue pair of its number.
        self.take_completions();
    }

    /// Takes in all that has happened; true if anything has.
    pub fn process(&mut self) -> bool {
        let happened = self.take_completions();
        if happened {
            self.feed();
        }
        self.reap();
        happened
    }

    fn take_completions(&mut self) -> bool {
        let mut happened = false;
        loop {
            let mut batch = [None; BATCH];
            let count = self.cq.poll_into(&mut batch);
            for done in batch.iter().take(count).flatten() {
                self.complete(done);
            }
            happened |= count > 0;
            if count < BATCH {
                return happened;
            }
        }
    }

    fn complete(&mut self, done: &Completion) {
        // One that was forgotten has none.
        let id = self.by_qpn.get(&done.qpn).copied();
        let Some((id, link)) = id.and_then(|id| Some((id, self.links.get_mut(&id)?))) else {
            self.stale += 1;
            return;
        };
        if link.generation > 0 && link.qpn() != Some(done.qpn) {
            // Of a queue pair that does not carry it yet.
            return link.hold(done);
        }
        link.complete(&mut self.pool, done);
        if link.is_suspended() {
            self.by_qpn.remove(&done.qpn);
        }
        self.settle(id);
    }

    /// Something has happened to a link.
    pub fn settle(&mut self, id: u64) {
        let violation = self.links.get_mut(&id).and_then(Link::take_violation);
        if let Some(violation) = violation {
            let counter = Violation::ALL.iter().position(|of| *of == violation);
            if let Some(count) = counter.and_then(|at| self.violations.get_mut(at)) {
                *count += 1;
            }
        }
        if self.links.get(&id).is_some_and(Link::is_over) {
            self.over.push(id);
        }
        if self.links.get(&id).is_some_and(Link::is_hungry) {
            self.starved.insert(id);
        }
        self.rouse(id);
    }

    /// A message for a link came by TCP; false if that is not its carrier any more.
    pub fn deliver(
        &mut self,
        id: u64,
        generation: u64,
        header: &[u8; Header::BYTES],
        payload: &[u8],
    ) -> bool {
        let Some(link) = self.links.get_mut(&id).filter(|link| link.generation == generation) else {
            return false;
        };
        link.deliver(&mut self.pool, header, payload);
        self.settle(id);
        self.feed();
        self.reap_one(id);
        true
    }

    /// A TCP connection is over.
    pub fn lose(&mut self, id: u64, generation: u64) {
        if let Some(link) = self.links.get_mut(&id).filter(|link| link.generation == generation) {
            link.lose(&mut self.pool);
            self.settle(id);
            self.reap_one(id);
        }
    }

    /// Forgets the connections that are over.
    fn reap(&mut self) {
        while let Some(id) = self.over.pop() {
            self.reap_one(id);
        }
    }

    /// Forgets this connection if it is over already.
    pub fn reap_one(&mut self, id: u64) {
        if self.links.get(&id).is_some_and(Link::is_over) {
            self.forget(id);
        }
    }

    /// Forgets all connections.
    pub fn clear(&mut self) {
        let all: Vec<u64> = self.links.keys().copied().collect();
        all.into_iter().for_each(|id| self.forget(id));
    }
}

fn new_pool(domain: &ProtectionDomain, config: &Config) -> Pool {
    let (small, large) = (config.chunk_bytes as usize, config.block_bytes as usize);
    Pool::new(domain.clone(), small, large, config.memory_max)
}

/// Completions of a connection that can wait at once.
const fn completions(config: &Config) -> u32 {
    config.posted() + config.send_queue()
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbs_api::{WcFlags, WcOpcode, WcStatus};

    /// What comes for a queue pair before the program hears that it is connected does not end its
    /// link to it, whether the stream may go on over another carrier or not.
    #[test]
    fn a_link_that_is_not_connected_yet_keeps_its_queue_pair() {
        let device = Device::open("sim:early").expect("a device");
        let channel = device.create_channel().expect("a channel");
        let config = Config::default();
        let mut state = State::new(&device, &channel, &config).expect("memory");
        let own = crate::endpoint::moving::hello(&config, [7; 16], false);
        for moves in [None, Some(Move::new(own.token, None))] {
            let id = state.add_link(&own, moves).expect("memory");
            let pair = state.prepare(id, usize::MAX).expect("a queue pair");
            let early = Completion {
                // A receive that took a message which is too short to be one.
                wr_id: 0,
                status: WcStatus::Success,
                opcode: WcOpcode::Recv,
                flags: WcFlags::empty(),
                byte_len: 1,
                imm: 0,
                qpn: pair.qpn(),
                src_qp: 0,
            };
            state.complete(&early);
            assert_eq!(state.by_qpn.get(&pair.qpn()), Some(&id));
            state.forget(id);
        }
    }

    /// Receives that are posted to queue pairs which may come to carry a stream are nobody's
    /// memory before those are gone, in whatever order they and the stream go.
    #[test]
    fn what_is_posted_to_a_queue_pair_is_free_when_that_is_gone() {
        let device = Device::open("sim:orphans").expect("a device");
        let channel = device.create_channel().expect("a channel");
        let config = Config { memory_max: 1 << 20, ..Config::default() };
        let own = crate::endpoint::moving::hello(&config, [7; 16], false);
        for stays in [false, true] {
            let mut state = State::new(&device, &channel, &config).expect("memory");
            let id = state.add_link(&own, Some(Move::new(own.token, None))).expect("memory");
            let pairs = [1, 2].map(|count| state.prepare(id, count).expect("a queue pair"));
            let [one, other] = [pairs[0].qpn(), pairs[1].qpn()];
            drop(pairs);
            if stays {
                // The second one's stay posted.
                state.unprepare(id, one);
                state.forget(id);
                assert_eq!(free(&mut state), 64 - 2);
            } else {
                state.forget(id);
                assert_eq!(free(&mut state), 64 - 3);
                state.unprepare(id, one);
                assert_eq!(free(&mut state), 64 - 2);
            }
            state.unprepare(id, other);
            assert_eq!(free(&mut state), 64);
        }
    }

    /// Chunks that can be taken.
    fn free(state: &mut State) -> usize {
        let chunks: Vec<Chunk> = core::iter::from_fn(|| state.pool.take().ok()).collect();
        chunks.iter().for_each(|chunk| state.give(*chunk));
        chunks.len()
    }
}
