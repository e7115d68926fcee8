//! The link of a device: whether frames can pass, why they cannot, and waiting until they can.

use super::Device;
use crate::driver::PollBackoff;
use crate::error::Error;
use crate::pool::Lease;
#[cfg(feature = "async")]
use crate::wakers::Place;
use core::time::Duration;
#[cfg(feature = "async")]
use core::{
    pin::Pin,
    task::{Context, Poll},
};
use datapath::port::LinkDown;
use std::time::Instant;

impl Device {
    /// Returns `true` if frames can pass: on a memif pair, if the peer is there. The link comes up
    /// only while the engine runs.
    #[must_use]
    pub fn link_up(&self) -> bool {
        self.nic().is_some_and(|mut nic| nic.link_up())
    }

    /// Why frames cannot pass; `None` if they can. The text says what to do: where this end waits
    /// for whom, in what the two ends differ, which interface has no carrier, which pool's switch
    /// has ended.
    ///
    /// It is as of the engine's last turn: nobody has been looked for before the first one.
    #[must_use]
    pub fn link_down(&self) -> Option<LinkDown> {
        let why = self.nic().map_or(Some(LinkDown::Unknown), |mut nic| nic.link_down())?;
        let lost = self.inner.lease.get().and_then(Lease::lost);
        Some(lost.map_or(why, LinkDown::Removed))
    }

    /// Waits until frames can pass, `limit` at most. It drives the engine of a device without a
    /// thread, and rests between its looks: after 0.2 ms for 50 us, then longer, up to 1 ms.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # fn main() -> Result<(), verbs_api::Error> {
    /// let device = verbs_api::Device::open("sim:wait-link")?;
    /// device.wait_link(Duration::from_secs(60))?;
    /// assert!(device.link_up() && device.link_down().is_none());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::LinkDown`] says why there is no link; [`Error::Forked`].
    pub fn wait_link(&self, limit: Duration) -> Result<(), Error> {
        let end = Instant::now().checked_add(limit);
        let mut backoff = PollBackoff::new();
        loop {
            self.check_process()?;
            let turn = self.progress();
            let Some(why) = self.link_down() else { return Ok(()) };
            if matches!(why, LinkDown::Removed(_)) {
                return Err(Error::LinkDown { limit, why });
            }
            let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Err(Error::LinkDown { limit, why });
            }
            backoff.wait_after_poll(self.shared(), turn.received + turn.sent > 0, left);
        }
    }

    /// A future that ends when frames can pass, on a device with a thread of its own. It has no
    /// limit: who drops it after a while asks [`Device::link_down`] for the reason.
    #[cfg(feature = "async")]
    pub fn when_link_up(&self) -> LinkUp<'_> {
        LinkUp { device: self, place: Place::new() }
    }
}

/// The link of a device comes up: from [`Device::when_link_up`].
#[cfg(feature = "async")]
#[must_use = "a future does nothing unless it is awaited"]
pub struct LinkUp<'a> {
    device: &'a Device,
    place: Place,
}

#[cfg(feature = "async")]
impl Future for LinkUp<'_> {
    /// [`Error::Unsupported`] if the device has no thread.
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { device, place } = &mut *self;
        if let Err(error) = device.needs_thread() {
            return Poll::Ready(Err(error));
        }
        if device.shared().wake_when_up(place, context.waker()) { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

#[cfg(feature = "async")]
impl Drop for LinkUp<'_> {
    fn drop(&mut self) {
        self.device.shared().forget_link_waiter(self.place);
    }
}
