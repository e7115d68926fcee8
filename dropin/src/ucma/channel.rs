//! An open descriptor: the events that its program has not got.
//!
//! The descriptor is the reading end of a pipe, which can be polled: a byte is in it while there is
//! an event. Its inode tells it from whatever has its number later, in this process or a child.

use super::groups::Membership;
use super::id::Id;
use crate::abi::ucm::EventResp;
use crate::errno::{Errno, Result};
use crate::export::Step;
use core::ffi::c_int;
use core::mem::MaybeUninit;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An event.
pub struct Told {
    /// Whose it is.
    pub about: Arc<Id>,
    pub of: Subject,
    /// What the program gets, but for who it is about.
    pub event: EventResp,
}

/// What an event of an identifier's is of.
pub enum Subject {
    Itself,
    /// A connection that a peer asks for.
    Connection(Arc<Id>),
    /// A multicast group.
    Group(Arc<Membership>),
}

/// An open descriptor.
pub struct Channel {
    inode: u64,
    /// The writing end.
    bell: OwnedFd,
    events: Mutex<VecDeque<Told>>,
}

impl Told {
    /// Whether it is an event of that identifier's.
    pub fn is_of(&self, id: &Arc<Id>) -> bool {
        Arc::ptr_eq(&self.about, id)
    }
}

impl Channel {
    /// A new one, and the program's descriptor. `flags` are those of `open`.
    pub fn open(flags: c_int) -> Result<(Self, RawFd)> {
        let kept = flags & (libc::O_NONBLOCK | libc::O_CLOEXEC);
        let mut ends = [0; 2];
        // SAFETY: two numbers are written.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), kept | libc::O_CLOEXEC) } < 0 {
            return Err(Errno::last());
        }
        // SAFETY: both are new, and nobody else's.
        let [theirs, bell] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        if flags & libc::O_CLOEXEC == 0 {
            // SAFETY: it takes no pointer.
            unsafe { libc::fcntl(theirs.as_raw_fd(), libc::F_SETFD, 0) };
        }
        let inode = inode_of(bell.as_raw_fd())?;
        Ok((Self { inode, bell, events: Mutex::default() }, theirs.into_raw_fd()))
    }

    pub const fn inode(&self) -> u64 {
        self.inode
    }

    fn events(&self) -> MutexGuard<'_, VecDeque<Told>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn push(&self, told: Told) {
        let mut events = self.events();
        if events.is_empty() {
            // SAFETY: one byte is read. The pipe was empty, so it takes it.
            unsafe { libc::write(self.bell.as_raw_fd(), b"!".as_ptr().cast(), 1) };
        }
        events.push_back(told);
    }

    /// Gives the oldest event to `take`, which it stays for if that fails. `fd` is the program's.
    pub fn pop(&self, fd: RawFd, take: impl FnOnce(&Told) -> Result<()>) -> Result<()> {
        let mut events = self.events();
        take(events.front().ok_or(Errno::AGAIN)?)?;
        let told = events.pop_front();
        silence(fd, &events);
        drop((events, told));
        Ok(())
    }

    /// Takes out all events that `goes` names.
    pub fn remove(&self, fd: Option<RawFd>, goes: impl Fn(&Told) -> bool) -> Vec<Told> {
        let mut events = self.events();
        let had = !events.is_empty();
        let (removed, kept): (Vec<_>, Vec<_>) = core::mem::take(&mut *events).into_iter().partition(goes);
        events.extend(kept);
        if let Some(fd) = fd.filter(|_| had) {
            silence(fd, &events);
        }
        removed
    }

    /// How to wait for an event, unless the program has made the descriptor non-blocking. If
    /// another thread closes it meanwhile, only a signal ends the call: so a kernel would have it,
    /// whose call has begun.
    pub fn until_event<T>(&self, fd: RawFd) -> Result<Step<T>> {
        if inode_of(fd) != Ok(self.inode) {
            return Ok(Step::Signal);
        }
        // SAFETY: it takes no pointer.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
        if flags & libc::O_NONBLOCK != 0 { Err(Errno::AGAIN) } else { Ok(Step::OnceOrSignal(fd)) }
    }

    /// Returns `true` if no descriptor of it is open any more, in this process or another.
    pub fn is_closed(&self) -> bool {
        poll(self.bell.as_raw_fd(), 0, 0) & libc::POLLERR != 0
    }
}

/// Takes the byte out if there is no event any more.
fn silence(fd: RawFd, events: &VecDeque<Told>) {
    if events.is_empty() && poll(fd, libc::POLLIN, 0) & libc::POLLIN != 0 {
        let mut byte = 0_u8;
        // As a system call: the preload's `read` of this descriptor fails, as the kernel's does.
        // SAFETY: one byte is written.
        unsafe { libc::syscall(libc::SYS_read, fd, &raw mut byte, 1_usize) };
    }
}

/// Waits for what `events` names, `limit` milliseconds at most. Returns what there is.
fn poll(fd: RawFd, events: i16, limit: c_int) -> i16 {
    let mut watched = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: it is one.
    if unsafe { libc::poll(&raw mut watched, 1, limit) } < 0 { 0 } else { watched.revents }
}

pub fn inode_of(fd: RawFd) -> Result<u64> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: there is room; it is read only if it was written.
    unsafe {
        if libc::fstat(fd, status.as_mut_ptr()) < 0 {
            return Err(Errno::last());
        }
        Ok(status.assume_init().st_ino)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::waiting;
    use std::time::{Duration, Instant};

    #[test]
    fn who_asks_while_another_thread_closes_waits_for_a_signal() {
        let (channel, fd) = Channel::open(0).expect("a descriptor");
        assert_eq!(channel.until_event::<()>(fd), Ok(Step::OnceOrSignal(fd)));
        // SAFETY: nobody else has it.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
        assert_eq!(channel.until_event::<()>(fd), Ok(Step::Signal));
    }

    #[test]
    fn a_thread_that_asks_while_another_closes_goes_on_waiting() {
        let (channel, fd) = Channel::open(0).expect("a descriptor");
        // SAFETY: nobody else has it.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
        let waits = std::thread::spawn(move || waiting(&|| channel.until_event::<()>(fd)));
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(100) {
            assert!(!waits.is_finished(), "{:?}", waits.join());
            std::thread::yield_now();
        }
    }
}
