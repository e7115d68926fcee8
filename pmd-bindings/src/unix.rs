//! Readiness of descriptors, and eventfds.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Whether the other end of `socket` is closed.
pub(crate) fn has_hung_up(socket: &OwnedFd) -> bool {
    let mut entry = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: one entry, writable.
    unsafe { libc::poll(&raw mut entry, 1, 0) == 1 }
}

/// Which of `fds` are readable or closed by the other end, within `timeout`. A negative one never is.
pub(crate) fn poll<const N: usize>(fds: [RawFd; N], timeout: Option<Duration>) -> [bool; N] {
    let mut entries = fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    // Rounded up, so that a moment is not polled away.
    let timeout_ms = timeout.map_or(-1, |timeout| i32::try_from(timeout.as_millis() + 1).unwrap_or(i32::MAX));
    // SAFETY: N entries, writable. When interrupted it leaves them alone.
    unsafe { libc::poll(entries.as_mut_ptr(), N as libc::nfds_t, timeout_ms) };
    entries.map(|entry| entry.revents != 0)
}

/// A counter that makes itself readable.
pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = check(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
    // SAFETY: just made, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes an eventfd readable.
pub(crate) fn raise(eventfd: &OwnedFd) {
    let one = 1_u64;
    // SAFETY: an eventfd takes eight bytes. It fails only when it has been raised 2^64 times.
    unsafe { libc::write(eventfd.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
}

/// Makes an eventfd unreadable.
pub(crate) fn lower(eventfd: &OwnedFd) {
    let mut count = 0_u64;
    // SAFETY: an eventfd gives eight bytes, or nothing when it was not raised.
    unsafe { libc::read(eventfd.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
}

/// -1 is an error whose number is in `errno`.
pub(crate) fn check(ret: i32) -> io::Result<i32> {
    if ret < 0 { Err(io::Error::last_os_error()) } else { Ok(ret) }
}
