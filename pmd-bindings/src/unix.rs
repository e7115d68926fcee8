//! Sockets that memif's control messages travel over: local, connected, message by message.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

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
#[cfg(test)]
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

/// -1 is an error whose number is in `errno`.
pub(crate) fn check(ret: i32) -> io::Result<i32> {
    if ret < 0 { Err(io::Error::last_os_error()) } else { Ok(ret) }
}
