//! Completion queues: polling one drives the engine.

use crate::device::Device;
use datapath::queue::{self, Completion};
use std::sync::Arc;

/// Where work requests report how they ended. The queue lives as long as this or a queue pair that reports to it.
pub struct CompletionQueue {
    ring: queue::CompletionQueue,
    shared: Arc<CqShared>,
}

/// The engine's side of a completion queue.
pub(crate) struct CqShared {
    pub device: Device,
    pub number: u32,
}

impl Drop for CqShared {
    fn drop(&mut self) {
        self.device.nic().destroy_cq(self.number);
    }
}

impl CompletionQueue {
    pub(crate) fn new(device: Device, number: u32, ring: queue::CompletionQueue) -> Self {
        Self { ring, shared: Arc::new(CqShared { device, number }) }
    }

    pub(crate) fn shared(&self) -> &Arc<CqShared> {
        &self.shared
    }

    /// The oldest completion not yet polled. If there is none, runs one turn of the engine and looks again; never
    /// waits.
    pub fn poll(&mut self) -> Option<Completion> {
        let mut one = [None];
        self.poll_into(&mut one);
        one[0]
    }

    /// Fills `out` from its start with the oldest completions and returns how many; the rest of `out` is unchanged.
    /// If there are none, runs one turn of the engine and looks again; never waits.
    pub fn poll_into(&mut self, out: &mut [Option<Completion>]) -> usize {
        match self.ring.poll_into(out) {
            0 => {
                self.shared.device.progress();
                self.ring.poll_into(out)
            }
            count => count,
        }
    }
}
