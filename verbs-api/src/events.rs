//! Asynchronous events of a device: those that the engine logs, those of its link, and the
//! descriptor that tells of them.

use crate::bell::Bell;
use crate::device::Device;
use crate::error::Error;
use crate::trace;
#[cfg(feature = "async")]
use crate::wake_deadline::WakeDeadline;
use datapath::engine::{AsyncEvent, Core};
use datapath::time::Time;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

/// How often the link is looked at, in nanoseconds.
const LOOK_NS: u64 = 10_000_000;

/// Events that the engine does not log itself. Used under the lock of the engine.
pub(crate) struct Events {
    /// Whether frames could pass when the link was looked at last.
    up: bool,
    look_at: Time,
    /// The last event of the link that was not polled yet. Earlier ones do not matter any more.
    link: Option<AsyncEvent>,
    /// The engine's thread ended by a panic, not yet polled.
    fatal: bool,
    /// Set to now when the link comes up.
    #[cfg(feature = "async")]
    wake_deadline: Option<Arc<WakeDeadline>>,
    /// Raised when there is an event to poll.
    bell: Option<Arc<Bell>>,
    rung: bool,
}

impl Events {
    /// No events yet, of a device whose link is `up` at the beginning.
    pub const fn new(up: bool) -> Self {
        Self {
            up,
            look_at: Time::ZERO,
            link: None,
            fatal: false,
            #[cfg(feature = "async")]
            wake_deadline: None,
            bell: None,
            rung: false,
        }
    }

    /// Returns `true` if the link is to be looked at.
    #[inline]
    pub fn is_link_due(&self, now: Time) -> bool {
        now >= self.look_at
    }

    /// Notes that the link is looked at now, and must be again after a while.
    #[cold]
    pub fn look_later(&mut self, now: Time) {
        self.look_at = now.after(LOOK_NS);
    }

    /// Returns `true` if the link was up when it was looked at last.
    pub const fn up(&self) -> bool {
        self.up
    }

    /// The link was looked at. Returns whether it changed.
    pub fn note_link(&mut self, up: bool) -> bool {
        let changed = up != self.up;
        if changed {
            self.up = up;
            self.link = Some(if up { AsyncEvent::PortActive } else { AsyncEvent::PortError });
        }
        #[cfg(feature = "async")]
        if up && let Some(wake_deadline) = self.wake_deadline.take() {
            wake_deadline.wake_now();
        }
        changed
    }

    /// Asks for wake_deadline once the link is found up.
    #[cfg(feature = "async")]
    pub fn wake_when_link_up(&mut self, wake_deadline: &Arc<WakeDeadline>) {
        self.wake_deadline = Some(Arc::clone(wake_deadline));
    }

    /// The engine runs no more.
    pub const fn note_death(&mut self) {
        self.fatal = true;
    }

    /// Rings for the program from now on.
    pub fn ring_with(&mut self, bell: Arc<Bell>) {
        self.bell.get_or_insert(bell);
    }

    /// Returns `true` if somebody listens, and has not been told yet.
    #[inline]
    pub const fn may_ring(&self) -> bool {
        self.bell.is_some() && !self.rung
    }

    /// Rings if there is something to tell. To be called when [`Events::may_ring`].
    pub fn tell(&mut self, core: &Core) {
        if self.has_any(core)
            && let Some(bell) = &self.bell
        {
            bell.ring();
            self.rung = true;
        }
    }

    /// The next event.
    pub fn poll(&mut self, core: &mut Core) -> Option<AsyncEvent> {
        let event = if core::mem::take(&mut self.fatal) {
            Some(AsyncEvent::DeviceFatal)
        } else {
            self.link.take().or_else(|| core.poll_event())
        };
        if self.rung
            && !self.has_any(core)
            && let Some(bell) = &self.bell
        {
            bell.silence();
            self.rung = false;
        }
        event
    }

    fn has_any(&self, core: &Core) -> bool {
        self.fatal || self.link.is_some() || core.has_events()
    }
}

impl Device {
    /// The oldest asynchronous event not yet polled (`ibv_get_async_event`, which never waits
    /// here).
    #[must_use]
    pub fn poll_event(&self) -> Option<AsyncEvent> {
        let event = self.nic()?.poll_event();
        event.inspect(|event| trace::noted(self.ip(), *event))
    }

    /// A file descriptor that is readable while asynchronous events wait (`ibv_context::async_fd`),
    /// to be given to `epoll`. It is the same each time, and belongs to the device.
    ///
    /// Something must drive the engine meanwhile: see
    /// [`CompletionChannel`](crate::CompletionChannel).
    ///
    /// ```
    /// use std::os::fd::AsRawFd;
    ///
    /// # fn main() -> Result<(), verbs_api::Error> {
    /// let device = verbs_api::Device::open("sim:events")?;
    /// assert!(device.event_fd()?.as_raw_fd() >= 0);
    /// assert_eq!(device.poll_event(), None);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Events`] if the system has no descriptor to spare.
    pub fn event_fd(&self) -> Result<BorrowedFd<'_>, Error> {
        Ok(self.bell()?.as_fd())
    }

    /// Waits for an asynchronous event, `limit` at most (`ibv_get_async_event`). With
    /// [`Driver::Inline`](crate::Driver) it drives the engine meanwhile.
    ///
    /// # Errors
    /// [`Error::Events`] if the system cannot wait.
    pub fn wait_event(&self, limit: Duration) -> Result<Option<AsyncEvent>, Error> {
        self.bell()?.wait(self, limit, || self.poll_event()).map_err(Error::Events)
    }
}
