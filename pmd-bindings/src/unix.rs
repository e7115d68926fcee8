//! Readiness of descriptors, and eventfds.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};

/// Returns `true` if the other end of `socket` is closed.
pub(crate) fn has_hung_up(socket: &OwnedFd) -> bool {
    let mut entry = [PollFd::new(socket, PollFlags::RDHUP)];
    rustix::event::poll(&mut entry, Some(&Timespec::default())) == Ok(1)
}

/// Which of `fds` are readable or closed by the other end, within `timeout`. `None` never is.
pub(crate) fn poll<const N: usize>(fds: [Option<BorrowedFd>; N], timeout: Option<Duration>) -> [bool; N] {
    let mut polled: Vec<PollFd> =
        fds.iter().flatten().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    // When interrupted it leaves the entries alone: nobody is ready.
    let _ = rustix::event::poll(&mut polled, timeout.as_ref());
    let mut ready = polled.iter().map(|entry| !entry.revents().is_empty());
    fds.map(|fd| fd.is_some() && ready.next().unwrap_or_default())
}

/// A descriptor that names a file and does nothing else.
pub(crate) fn path_only(path: &Path) -> io::Result<OwnedFd> {
    Ok(File::options().read(true).custom_flags(libc::O_PATH | libc::O_CLOEXEC).open(path)?.into())
}

/// A counter that makes itself readable.
pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    Ok(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Makes an eventfd readable.
pub(crate) fn raise(eventfd: &OwnedFd) {
    // It fails only when it has been raised 2^64 times.
    let _ = rustix::io::write(eventfd, &1_u64.to_ne_bytes());
}

/// Makes an eventfd unreadable.
pub(crate) fn lower(eventfd: &OwnedFd) {
    // It gives nothing when it was not raised.
    let _ = rustix::io::read(eventfd, &mut [0; size_of::<u64>()]);
}

/// -1 is an error whose number is in `errno`.
pub(crate) fn check(ret: i32) -> io::Result<i32> {
    if ret < 0 { Err(io::Error::last_os_error()) } else { Ok(ret) }
}
