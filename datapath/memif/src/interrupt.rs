//! Interrupts: descriptors by which one process wakes another one that sleeps.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{self, Errno};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// An eventfd: readable from [`Interrupt::raise`] to [`Interrupt::clear`], or what else becomes
/// readable to wake somebody ([`Interrupt::of_descriptor`]). Clones are the same one,
/// and keep its descriptor open.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<OwnedFd>);

impl Interrupt {
    /// A new one, which is not raised.
    ///
    /// # Errors
    /// The system has no descriptor to spare.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// A descriptor of others': the eventfd of a peer, which may have made it so that to write to
    /// it waits, or what is readable while there is something to do, such as a packet socket. The
    /// latter is not to be raised.
    ///
    /// # Errors
    /// What the system says of a descriptor that cannot be made to never wait.
    pub fn of_descriptor(descriptor: OwnedFd) -> std::io::Result<Self> {
        fcntl_setfl(&descriptor, fcntl_getfl(&descriptor)? | OFlags::NONBLOCK)?;
        Ok(Self(Arc::new(descriptor)))
    }

    /// Wakes who waits for it, now or later.
    pub fn raise(&self) {
        // It fails only if it was raised 2^64 times, and then it is raised.
        let _ = io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Takes back that it was raised.
    pub fn clear(&self) {
        // It fails only if it was not raised.
        let _ = io::read(&self.0, &mut [0; 8]);
    }

    /// Sleeps until one of them is raised, `limit` at most, and clears them. May wake for no
    /// reason.
    pub fn wait_any(interrupts: &[&Self], limit: Duration) {
        let mut polled: Vec<_> = interrupts.iter().map(|one| PollFd::new(*one, PollFlags::IN)).collect();
        match poll(&mut polled, Timespec::try_from(limit).ok().as_ref()) {
            Ok(_) => {
                let raised =
                    interrupts.iter().zip(&polled).filter(|(_, polled)| !polled.revents().is_empty());
                raised.for_each(|(interrupt, _)| interrupt.clear());
            }
            Err(Errno::INTR) => {}
            // The kernel is short of memory. Nobody waits for longer than without interrupts.
            Err(_) => thread::sleep(limit.min(Duration::from_millis(1))),
        }
    }
}

impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
