//! Keeps every queue pair's receive queue full, for SENDs.

use super::layout::Layout;
use super::sender::LANE_SHIFT;
use crate::error::Result;
use verbs_api::{MemoryRegion, QueuePair, RecvRequest};

/// The receiving side of a run of SENDs.
pub struct Receiver {
    layout: Layout,
    depth: u64,
    /// Messages that come to each queue pair; none is posted beyond, because the next size has other places.
    messages: u64,
    /// Receives posted to each queue pair.
    posted: Vec<u64>,
    /// Messages received, of all queue pairs.
    received: u64,
}

impl Receiver {
    /// For at most `messages` of each queue pair, with `depth` receives outstanding.
    pub fn new(layout: Layout, depth: u32, messages: u64) -> Self {
        Self { layout, depth: depth.into(), messages, posted: vec![0; layout.lanes()], received: 0 }
    }

    /// Posts the first receives.
    pub fn begin(&mut self, queue_pairs: &mut [QueuePair], target: &MemoryRegion) -> Result<()> {
        for (lane, queue_pair) in queue_pairs.iter_mut().enumerate() {
            for _ in 0..self.depth {
                self.post(lane, queue_pair, target)?;
            }
        }
        Ok(())
    }

    /// A message came: makes room for another one.
    pub fn take(&mut self, lane: usize, queue_pair: &mut QueuePair, target: &MemoryRegion) -> Result<()> {
        self.received += 1;
        self.post(lane, queue_pair, target)
    }

    /// Messages received so far.
    pub const fn received(&self) -> u64 {
        self.received
    }

    fn post(&mut self, lane: usize, queue_pair: &mut QueuePair, target: &MemoryRegion) -> Result<()> {
        let message = self.posted[lane];
        if message < self.messages {
            let scatter = [target.slice(self.layout.slot(lane, message))?];
            let wr_id = (lane as u64) << LANE_SHIFT;
            queue_pair.post_recv(&RecvRequest { wr_id, scatter: &scatter })?;
            self.posted[lane] += 1;
        }
        Ok(())
    }
}
