//! Completion channels: waiting for completions without polling.

use crate::bell::Bell;
use crate::device::Device;
#[cfg(doc)]
use crate::driver::Driver;
use crate::error::Error;
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A file descriptor that is readable while armed completion queues have something to tell
/// (`ibv_comp_channel`). Give it to `epoll`, or [`wait`](Self::wait).
///
/// Arm the queue ([`CompletionQueue::arm`](crate::CompletionQueue::arm)), poll it until it is
/// empty, and only then wait: what came before the arming is told of by no event. Each event takes
/// the arming back. One may come for a completion that was polled just before the arming: then
/// there is nothing to poll, and the queue is to be armed again.
///
/// Something must drive the engine meanwhile. With [`Driver::Thread`] or [`Driver::Hybrid`] its
/// thread does; with
/// [`Driver::Inline`] `wait` does it itself, and keeps its core busy, but a program that blocks in
/// its own `epoll` is woken only by what another thread's polling or
/// [`Device::progress`](crate::Device::progress) brings in.
///
/// How late that is: over a memif or a packet socket by the native driver, whose frames wake the
/// engine's thread, some 0.1 ms. Where ports
/// have no interrupts, 0.07 ms in the median while messages follow each other within 50 us, and 0.8
/// to 1 ms after a millisecond of quiet or more; 1 to 2.5 ms at the 99th percentile. Nearly all of
/// it is the sleep of the thread, 1 ms at most; who polls such a device waits about as long. (From
/// a post to its receiver being awake, on two cores: `cargo run --release -p verbs-api --example
/// wake_up`, which takes a device.)
pub struct CompletionChannel {
    device: Device,
    shared: Arc<ChannelShared>,
}

/// The state that the engine's side of a channel shares with the program's.
pub(crate) struct ChannelShared {
    bell: Bell,
    /// Queues that have something to tell, each once. The descriptor is readable while there are
    /// any: both change under the lock.
    events: Mutex<VecDeque<u32>>,
}

impl ChannelShared {
    fn events(&self) -> MutexGuard<'_, VecDeque<u32>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A completion queue has something to tell.
    pub fn tell(&self, number: u32) {
        let mut events = self.events();
        if events.contains(&number) {
            return;
        }
        if events.is_empty() {
            self.bell.ring();
        }
        events.push_back(number);
    }

    /// A completion queue is gone.
    pub fn forget(&self, number: u32) {
        let mut events = self.events();
        let before = events.len();
        events.retain(|event| *event != number);
        if before > 0 && events.is_empty() {
            self.bell.silence();
        }
    }

    fn take(&self) -> Option<u32> {
        let mut events = self.events();
        let number = events.pop_front()?;
        if events.is_empty() {
            self.bell.silence();
        }
        Some(number)
    }
}

impl CompletionChannel {
    pub(crate) fn new(device: Device) -> Result<Self, Error> {
        let bell = Bell::new().map_err(Error::Channel)?;
        Ok(Self { device, shared: Arc::new(ChannelShared { bell, events: Mutex::default() }) })
    }

    pub(crate) const fn shared(&self) -> &Arc<ChannelShared> {
        &self.shared
    }

    /// Makes the descriptor readable, for the last time.
    #[cfg(feature = "tokio")]
    pub(crate) fn ring(&self) {
        self.shared.bell.ring();
    }

    pub(crate) const fn device(&self) -> &Device {
        &self.device
    }

    /// The number ([`CompletionQueue::number`](crate::CompletionQueue::number)) of a queue that has
    /// something to tell, if there is one. The descriptor is readable while there are more.
    #[must_use]
    pub fn take_event(&self) -> Option<u32> {
        self.shared.take()
    }

    /// Waits for an event, `limit` at most.
    ///
    /// # Errors
    /// [`Error::Channel`] if the system cannot wait.
    pub fn wait(&self, limit: Duration) -> Result<Option<u32>, Error> {
        self.shared.bell.wait(&self.device, limit, || self.take_event()).map_err(Error::Channel)
    }
}

impl AsFd for CompletionChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }
}

impl AsRawFd for CompletionChannel {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
