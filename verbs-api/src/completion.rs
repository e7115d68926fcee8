//! Completion queues: polling one drives the engine.

mod channel;

pub(crate) use channel::ChannelShared;
pub use channel::CompletionChannel;

use crate::device::Device;
use crate::error::Error;
use datapath::queue::{self, Completion};
use std::sync::Arc;

/// A completion queue: work requests report here how they ended. The engine's queue lives as long
/// as this value or a queue pair that reports to it.
pub struct CompletionQueue {
    ring: queue::CompletionQueue,
    shared: Arc<CqShared>,
    /// The queue was created with a channel.
    listening: bool,
}

/// The engine's side of a completion queue.
pub(crate) struct CqShared {
    pub device: Device,
    pub number: u32,
}

impl Drop for CqShared {
    fn drop(&mut self) {
        if let Some(mut nic) = self.device.nic() {
            nic.destroy_cq(self.number);
        }
    }
}

impl CompletionQueue {
    pub(crate) fn new(device: Device, number: u32, ring: queue::CompletionQueue, listening: bool) -> Self {
        Self { ring, shared: Arc::new(CqShared { device, number }), listening }
    }

    /// The number of this queue, as [`CompletionChannel`] and [`AsyncEvent`](crate::AsyncEvent)
    /// name it.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.shared.number
    }

    /// Entries that it has; at least as many as were asked for.
    #[must_use]
    pub fn entries(&self) -> u32 {
        self.ring.capacity()
    }

    /// Gives it at least `entries` entries, 1 to 2^22 (`ibv_resize_cq`). What waits in it is kept.
    ///
    /// # Errors
    /// [`Error::Create`], also if more completions wait than that.
    pub fn resize(&mut self, entries: u32) -> Result<(), Error> {
        let mut nic = self.shared.device.own_nic()?;
        Ok(nic.core_mut().resize_cq(self.shared.number, &mut self.ring, entries)?)
    }

    /// Asks for one event on the channel at the next completion; with `solicited_only`, at the next
    /// that is solicited or a failure (`ibv_req_notify_cq`). A wish for any completion is not taken
    /// back by one for solicited ones.
    ///
    /// What is there already makes no event: poll until the queue is empty after arming and before
    /// waiting.
    ///
    /// # Errors
    /// [`Error::NoChannel`] if the queue was created without one.
    pub fn arm(&self, solicited_only: bool) -> Result<(), Error> {
        if !self.listening {
            return Err(Error::NoChannel);
        }
        self.ring.arm(solicited_only);
        Ok(())
    }

    pub(crate) fn shared(&self) -> &Arc<CqShared> {
        &self.shared
    }

    /// The oldest completion not yet polled. If there is none, runs one turn of the engine and
    /// looks again; never waits.
    pub fn poll(&mut self) -> Option<Completion> {
        let mut one = [None];
        self.poll_into(&mut one);
        one[0]
    }

    /// Fills `out` from its start with the oldest completions and returns how many; the rest of
    /// `out` is unchanged. If there are none, runs one turn of the engine and looks again; never
    /// waits.
    pub fn poll_into(&mut self, out: &mut [Option<Completion>]) -> usize {
        match self.take(out) {
            0 => {
                self.shared.device.progress();
                let count = self.take(out);
                if count > 0 {
                    self.shared.device.settle_at_once();
                }
                count
            }
            count => {
                self.shared.device.settle();
                count
            }
        }
    }

    /// What is there, without a turn.
    fn take(&mut self, out: &mut [Option<Completion>]) -> usize {
        let count = self.ring.poll_into(out);
        if count > 0 {
            self.shared.device.note_poll(self.shared.number, self.ring.head());
        }
        count
    }
}
