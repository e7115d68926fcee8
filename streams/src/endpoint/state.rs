//! What an endpoint has under its lock: the completion queue, the pool and the connections.

use super::link::Link;
use super::{Stats, Way};
use crate::config::Config;
use crate::error::Setup;
use crate::pool::Pool;
use crate::protocol::{Hello, Violation};
use core::task::Waker;
use std::collections::HashMap;
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
/// An idle peer is asked for a sign after this time, so that a reader learns of its death.
const KEEPALIVE: core::time::Duration = core::time::Duration::from_secs(10);

pub(crate) struct State {
    pub cq: CompletionQueue,
    pub pool: Pool,
    links: HashMap<u32, Link>,
    config: Config,
    domain: ProtectionDomain,
    /// Writers that wait for memory, by their queue pairs.
    starved: Vec<u32>,
    /// Tasks to wake once the lock is free.
    pub wakers: Vec<Waker>,
    rejected: u64,
    violations: [u64; Violation::ALL.len()],
    /// Messages by their ways, of connections that are over.
    sent: [u64; Way::ALL.len()],
    /// Threads that wait and poll meanwhile.
    pub polling: usize,
    /// Threads that wait asleep.
    pub sleeping: usize,
    pub stopping: bool,
}

impl State {
    pub fn new(device: &Device, channel: &CompletionChannel, config: &Config) -> Result<Self, Setup> {
        let domain = device.alloc_pd();
        Ok(Self {
            cq: device.create_cq_on(channel, FIRST_LINKS * completions(config))?,
            pool: new_pool(&domain, config),
            links: HashMap::new(),
            config: *config,
            domain,
            starved: Vec::new(),
            wakers: Vec::new(),
            rejected: 0,
            violations: [0; Violation::ALL.len()],
            sent: [0; Way::ALL.len()],
            polling: 0,
            sleeping: 0,
            stopping: false,
        })
    }

    pub fn stats(&self) -> Stats {
        Stats {
            streams: self.links.len(),
            memory: self.pool.memory(),
            registrations: self.pool.registrations(),
            rejected: self.rejected,
            violations: self.violations,
            sent: self.sent(),
        }
    }

    /// Messages by their ways, of all connections that there are and were.
    fn sent(&self) -> [u64; Way::ALL.len()] {
        let mut sent = self.sent;
        self.links.values().for_each(|link| add(&mut sent, link.sent));
        sent
    }

    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    pub const fn reject(&mut self) {
        self.rejected += 1;
    }

    /// A queue pair with its receives posted, known by its number from now on.
    pub fn prepare(&mut self, own: &Hello) -> Result<PreparedQueuePair, Setup> {
        self.make_room()?;
        let caps = QueueCaps {
            max_send_wr: self.config.send_queue(),
            max_recv_wr: self.config.posted(),
            max_inline: INLINE,
            ..QueueCaps::default()
        };
        let pair = self.domain.queue_pair(&self.cq, &self.cq).caps(caps).keepalive(KEEPALIVE);
        let mut pair = pair.access(ACCESS).build()?;
        let link = Link::new(&mut self.pool, &self.config, own, &mut pair)?;
        self.links.insert(pair.qpn(), link);
        Ok(pair)
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
    pub fn connected(&mut self, qpn: u32, pair: QueuePair, peer: &Hello) {
        if let Some(link) = self.links.get_mut(&qpn) {
            link.connected(&mut self.pool, pair, peer);
        }
    }

    /// The connection and the pool, for a call of its stream.
    pub fn link(&mut self, qpn: u32) -> Option<(&mut Link, &mut Pool)> {
        Some((self.links.get_mut(&qpn)?, &mut self.pool))
    }

    /// Has the task woken when there may be bytes to read.
    #[cfg(feature = "tokio")]
    pub fn wake_reader(&mut self, qpn: u32, waker: &Waker) {
        if let Some(link) = self.links.get_mut(&qpn) {
            link.reader = Some(waker.clone());
        }
    }

    /// Has the task woken when there may be room to write.
    #[cfg(feature = "tokio")]
    pub fn wake_writer(&mut self, qpn: u32, waker: &Waker) {
        if let Some(link) = self.links.get_mut(&qpn) {
            link.writer = Some(waker.clone());
            if self.pool.is_exhausted() && !self.starved.contains(&qpn) {
                self.starved.push(qpn);
            }
        }
    }

    /// The program has done something to this connection that whoever waits for it must see.
    pub fn rouse(&mut self, qpn: u32) {
        if let Some(link) = self.links.get_mut(&qpn) {
            self.wakers.extend(link.reader.take());
            self.wakers.extend(link.writer.take());
        }
    }

    /// There may be memory for those that wait for it.
    fn feed(&mut self) {
        for qpn in core::mem::take(&mut self.starved) {
            self.wakers.extend(self.links.get_mut(&qpn).and_then(|link| link.writer.take()));
        }
    }

    /// The connection is over, or was never made.
    pub fn forget(&mut self, qpn: u32) {
        if let Some(mut link) = self.links.remove(&qpn) {
            add(&mut self.sent, link.sent);
            link.release(&mut self.pool);
            self.feed();
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
            self.reap();
        }
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
        let Some(link) = self.links.get_mut(&done.qpn) else { return };
        link.complete(&mut self.pool, done);
        if let Some(violation) = link.take_violation() {
            let counter = Violation::ALL.iter().position(|of| *of == violation);
            if let Some(count) = counter.and_then(|at| self.violations.get_mut(at)) {
                *count += 1;
            }
        }
        self.rouse(done.qpn);
    }

    /// Forgets the connections that are over.
    fn reap(&mut self) {
        let over: Vec<u32> =
            self.links.iter().filter(|(_, link)| link.is_over()).map(|(qpn, _)| *qpn).collect();
        over.into_iter().for_each(|qpn| self.forget(qpn));
    }

    /// Forgets this connection if it is over already.
    pub fn reap_one(&mut self, qpn: u32) {
        if self.links.get(&qpn).is_some_and(Link::is_over) {
            self.forget(qpn);
        }
    }

    /// Forgets all connections.
    pub fn clear(&mut self) {
        let all: Vec<u32> = self.links.keys().copied().collect();
        all.into_iter().for_each(|qpn| self.forget(qpn));
    }
}

fn add(sum: &mut [u64; Way::ALL.len()], more: [u64; Way::ALL.len()]) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

fn new_pool(domain: &ProtectionDomain, config: &Config) -> Pool {
    let (small, large) = (config.chunk_bytes as usize, config.block_bytes as usize);
    Pool::new(domain.clone(), small, large, config.memory_max)
}

/// Completions of a connection that can wait at once.
const fn completions(config: &Config) -> u32 {
    config.posted() + config.send_queue()
}
