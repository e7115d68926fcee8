//! The socket of a shared-memory pair: whether a driver of DPDK's can use its path, and who is
//! there.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::PortError;
use crate::unix;

/// The path as DPDK's arguments can carry it.
///
/// # Errors
/// [`PortError::Socket`], before DPDK fails without a reason.
pub(crate) fn checked(socket: &Path) -> Result<&str, PortError> {
    let fails = |problem: &str| Err(error(socket, problem));
    let Some(path) = socket.to_str() else { return fails("the path is not UTF-8") };
    memif::socket::check_length(socket).map_err(|problem| error(socket, &problem))?;
    if path.contains(is_special) {
        return fails("the path holds one of , = [ ] \" or a control character; use another");
    }
    if !socket.is_absolute() {
        return fails("the path must be absolute");
    }
    let directory = socket.parent().unwrap_or(Path::new("/"));
    if !directory.is_dir() {
        return fails("its directory does not exist; make it first");
    }
    if !may_write(directory) {
        return fails("this user may not write to its directory, which DPDK demands of both ends");
    }
    Ok(path)
}

/// A path of at most `room` bytes to the socket: its own, or one through a descriptor of its
/// directory, which must be open for as long as the path is used.
///
/// # Errors
/// [`PortError::Socket`] if the name of the file alone is too long, or the directory cannot be
/// opened.
pub(crate) fn within(socket: &str, room: usize) -> Result<(String, Option<OwnedFd>), PortError> {
    if socket.len() <= room {
        return Ok((socket.to_owned(), None));
    }
    let fails = |problem: String| error(Path::new(socket), &problem);
    let (directory, name) = socket.rsplit_once('/').unwrap_or((".", socket));
    let directory = unix::path_only(Path::new(&format!("{directory}/"))).map_err(|e| fails(e.to_string()))?;
    let path = format!("/proc/self/fd/{}/{name}", directory.as_raw_fd());
    if path.len() > room {
        let most = (room + name.len()).saturating_sub(path.len());
        let length = name.len();
        return Err(fails(format!(
            "its name has {length} bytes, and DPDK's arguments have room for {most}; use a shorter one"
        )));
    }
    Ok((path, Some(directory)))
}

/// Makes room for a server.
///
/// # Errors
/// [`PortError::Socket`] if somebody listens, or something else is there.
pub(crate) fn remove_stale(socket: &Path) -> Result<(), PortError> {
    memif::socket::remove_stale(socket).map_err(|problem| error(socket, &problem))
}

/// The error about `socket`.
pub(crate) fn error(socket: &Path, problem: &str) -> PortError {
    PortError::Socket { path: socket.display().to_string(), problem: problem.into() }
}

/// Returns `true` if DPDK's arguments give `c` a meaning of their own.
pub(crate) fn is_special(c: char) -> bool {
    matches!(c, ',' | '=' | '[' | ']' | '"') || c.is_control()
}

/// Returns `true` if this user (as the kernel will judge it) may make files in `directory`.
fn may_write(directory: &Path) -> bool {
    let mut path = directory.as_os_str().as_bytes().to_vec();
    path.push(0);
    // SAFETY: a terminated string; a NUL inside would only make it another path.
    unsafe {
        libc::faccessat(libc::AT_FDCWD, path.as_ptr().cast(), libc::R_OK | libc::W_OK, libc::AT_EACCESS) == 0
    }
}
