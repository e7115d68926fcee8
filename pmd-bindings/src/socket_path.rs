//! The socket of a shared-memory pair: whether a driver of DPDK's can use its path, and who is there.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::error::PortError;
use crate::unix::{self, PATH_MAX};

/// The path as DPDK's arguments can carry it.
///
/// # Errors
/// [`PortError::Socket`], before DPDK fails without a reason.
pub(crate) fn checked(socket: &Path) -> Result<&str, PortError> {
    let fails = |problem: &str| Err(error(socket, problem));
    let Some(path) = socket.to_str() else { return fails("the path is not UTF-8") };
    if path.len() > PATH_MAX {
        return fails(&format!("the path is longer than {PATH_MAX} bytes; use a shorter one"));
    }
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

/// Makes room for a server: one that was killed leaves its socket, and a new one cannot bind to it.
///
/// # Errors
/// [`PortError::Socket`] if somebody listens, or something else is there.
pub(crate) fn remove_stale(socket: &Path) -> Result<(), PortError> {
    let file_type = match fs::symlink_metadata(socket) {
        Ok(metadata) => metadata.file_type(),
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(error(socket, &cause.to_string())),
    };
    if !file_type.is_socket() {
        return Err(error(socket, "something that is no socket is there; remove it or use another path"));
    }
    match listener(socket) {
        Listener::Dead => fs::remove_file(socket).map_err(|cause| {
            error(socket, &format!("a dead server left it and it cannot be removed: {cause}"))
        }),
        Listener::Alive => Err(error(socket, "another server is listening on it; use another path")),
        Listener::Unknown(cause) => {
            Err(error(socket, &format!("cannot tell whether a server is listening: {cause}")))
        }
    }
}

/// Who listens at a socket.
#[derive(Debug)]
pub(crate) enum Listener {
    /// Nobody: the file is what is left of a server.
    Dead,
    /// A server, of memif or of vhost-user.
    Alive,
    /// The kernel does not say.
    Unknown(std::io::Error),
}

/// Who listens at `socket`. A vhost-user server does not notice the question: the kernel says at once that its socket
/// is of another kind than memif's.
pub(crate) fn listener(socket: &Path) -> Listener {
    match unix::connect(socket) {
        // Connected, or a full backlog: somebody listens.
        Ok(_) => Listener::Alive,
        Err(cause) => match cause.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::NotFound => Listener::Dead,
            ErrorKind::WouldBlock => Listener::Alive,
            _ if cause.raw_os_error() == Some(libc::EPROTOTYPE) => Listener::Alive,
            _ => Listener::Unknown(cause),
        },
    }
}

/// The error about `socket`.
pub(crate) fn error(socket: &Path, problem: &str) -> PortError {
    PortError::Socket { path: socket.display().to_string(), problem: problem.into() }
}

/// Whether DPDK's arguments give `c` a meaning of their own.
pub(crate) fn is_special(c: char) -> bool {
    matches!(c, ',' | '=' | '[' | ']' | '"') || c.is_control()
}

/// Whether this user (as the kernel will judge it) may make files in `directory`.
fn may_write(directory: &Path) -> bool {
    let mut path = directory.as_os_str().as_bytes().to_vec();
    path.push(0);
    // SAFETY: a terminated string; a NUL inside would only make it another path.
    unsafe {
        libc::faccessat(libc::AT_FDCWD, path.as_ptr().cast(), libc::R_OK | libc::W_OK, libc::AT_EACCESS) == 0
    }
}
