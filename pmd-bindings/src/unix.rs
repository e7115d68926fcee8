//! Sockets that memif's control messages travel over (local, connected, message by message), and eventfds.

mod message;

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

#[cfg(test)]
pub(crate) use message::Message;
pub(crate) use message::{receive, send};

/// Longest path of a socket: `sun_path` without its terminating NUL.
pub(crate) const PATH_MAX: usize = 107;

/// A connection to whoever listens at `path`. Never waits: a full backlog is [`io::ErrorKind::WouldBlock`].
pub(crate) fn connect(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket()?;
    let (address, len) = address(path)?;
    // SAFETY: an address of `len` bytes.
    check(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), len) })?;
    Ok(socket)
}

/// A socket that listens at `path`, where nothing may be yet.
pub(crate) fn listen(path: &Path, backlog: i32) -> io::Result<OwnedFd> {
    let socket = socket()?;
    let (address, len) = address(path)?;
    // SAFETY: an address of `len` bytes.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) })?;
    // SAFETY: no pointers.
    check(unsafe { libc::listen(socket.as_raw_fd(), backlog) })?;
    Ok(socket)
}

fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers.
    let fd = check(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
    // SAFETY: just made, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn address(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() > PATH_MAX || bytes.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: all-zero is a valid address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    #[expect(clippy::cast_possible_truncation, reason = "a constant, 1")]
    let family = libc::AF_UNIX as libc::sa_family_t;
    address.sun_family = family;
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = from.cast_signed();
    }
    #[expect(clippy::cast_possible_truncation, reason = "a constant, 110")]
    let len = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    Ok((address, len))
}

/// The next client of `listener`. Never waits.
pub(crate) fn accept(listener: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no address is asked for.
    let fd = check(unsafe {
        libc::accept4(listener.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), flags)
    })?;
    // SAFETY: just made, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

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
