//! Keeps every queue pair's receive queue full, or the one that they share, for SENDs.

use super::layout::{LANE_SHIFT, Layout};
use crate::error::Result;
use crate::perf::session::Session;
use verbs_api::{MemoryRegion, QueuePair, RecvRequest, SharedReceiveQueue};

/// The receiving side of a run of SENDs.
pub struct Receiver {
    layout: Layout,
    depth: u64,
    /// Messages that come to each queue; none is posted beyond, because the next size has other
    /// places.
    messages: u64,
    /// Receives posted to each queue: one of each queue pair, or one for all.
    posted: Vec<u64>,
    /// Messages received, of all queue pairs.
    received: u64,
}

/// A queue that takes receives.
pub enum Queue<'a> {
    /// That of a queue pair, which has this index.
    Own(usize, &'a mut QueuePair),
    /// That of all.
    Shared(&'a mut SharedReceiveQueue),
}

impl Receiver {
    /// For at most `messages` of each queue pair, with `depth` receives outstanding.
    pub fn new(layout: Layout, depth: u32, messages: u64, use_srq: bool) -> Self {
        let lanes = layout.lanes();
        let (queues, messages) =
            if use_srq { (1, messages.saturating_mul(lanes as u64)) } else { (lanes, messages) };
        Self { layout, depth: depth.into(), messages, posted: vec![0; queues], received: 0 }
    }

    /// Posts the first receives.
    pub fn begin(&mut self, session: &mut Session<'_>) -> Result<()> {
        let own = session.queue_pairs.iter_mut().enumerate().map(|(lane, pair)| Queue::Own(lane, pair));
        let queues = match &mut session.srq {
            Some(srq) => vec![Queue::Shared(srq)],
            None => own.collect(),
        };
        for mut queue in queues {
            for _ in 0..self.depth {
                self.post(&mut queue, &session.target)?;
            }
        }
        Ok(())
    }

    /// A message came: makes room for another one.
    pub fn take(&mut self, mut queue: Queue<'_>, target: &MemoryRegion) -> Result<()> {
        self.received += 1;
        self.post(&mut queue, target)
    }

    /// Messages received so far.
    pub const fn received(&self) -> u64 {
        self.received
    }

    fn post(&mut self, queue: &mut Queue<'_>, target: &MemoryRegion) -> Result<()> {
        let lanes = self.layout.lanes();
        let index = if let Queue::Own(lane, _) = queue { *lane } else { 0 };
        let count = self.posted[index];
        if count >= self.messages {
            return Ok(());
        }
        let slot = match queue {
            Queue::Own(lane, _) => self.layout.slot(*lane, count),
            // Each lane's slots in turn: as much memory is written as without sharing.
            Queue::Shared(_) => {
                let lane = usize::try_from(count % lanes as u64).unwrap_or_default();
                self.layout.slot(lane, count / lanes as u64)
            }
        };
        let scatter = [target.slice(slot)?];
        let request = RecvRequest { wr_id: (index as u64) << LANE_SHIFT, scatter: &scatter };
        match queue {
            Queue::Own(_, queue_pair) => queue_pair.post_recv(&request)?,
            Queue::Shared(srq) => srq.post_recv(&request)?,
        }
        self.posted[index] += 1;
        Ok(())
    }
}
