//! Descriptors that are readable while there is something to tell.

use crate::device::Device;
use crate::driver::Driver;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// An eventfd. Those that raise it and those that clear it must agree on what there is to report,
/// under a lock of their own.
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// There is something to tell, and was not before.
    pub fn ring(&self) {
        // Fails only if the counter is at its end, far above the one that it holds at most.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Nothing is left to tell.
    pub fn silence(&self) {
        // Fails only if nobody rang, and then it is silent.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }

    /// Waits until `take` finds something, `limit` at most. With [`Driver::Inline`] it drives the
    /// engine meanwhile.
    pub fn wait<T>(
        &self,
        device: &Device,
        limit: Duration,
        mut take: impl FnMut() -> Option<T>,
    ) -> io::Result<Option<T>> {
        let end = Instant::now().checked_add(limit);
        loop {
            if let Some(found) = take() {
                return Ok(Some(found));
            }
            let left = end.map_or(limit, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(None);
            }
            device.check_process().map_err(io::Error::other)?;
            if device.driver() == Driver::Inline {
                device.progress();
                std::thread::yield_now();
            } else {
                device.stop_polling();
                self.sleep(left)?;
            }
        }
    }

    fn sleep(&self, left: Duration) -> io::Result<()> {
        let limit = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
