//! A listening socket that has lost its name: only who holds the descriptor can connect.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::unix::path_only;

/// Name of the socket in its directory.
const SOCKET: &str = "memif";

/// A path for a socket in a fresh directory that only this user can enter; both are gone when
/// dropped, but the path goes on naming the directory as long as this process holds it open.
#[derive(Debug)]
pub(crate) struct PrivateSocketPath {
    path: PathBuf,
    directory: PathBuf,
    handle: Arc<OwnedFd>,
}

impl PrivateSocketPath {
    pub(crate) fn new() -> io::Result<Self> {
        let mut parent = std::env::temp_dir();
        if !parent.is_absolute() {
            parent = "/tmp".into();
        }
        let template = CString::new(parent.join("srnic-XXXXXX").into_os_string().into_encoded_bytes())?;
        let raw = template.into_raw();
        // SAFETY: a terminated, writable string, taken back right away; mkdtemp keeps its length.
        let (made, template) = unsafe { (!libc::mkdtemp(raw).is_null(), CString::from_raw(raw)) };
        if !made {
            return Err(io::Error::last_os_error());
        }
        let directory = PathBuf::from(OsStr::from_bytes(template.as_bytes()));
        let handle = Arc::new(path_only(&directory)?);
        let path = Path::new("/proc/self/fd").join(handle.as_raw_fd().to_string()).join(SOCKET);
        Ok(Self { path, directory, handle })
    }

    /// Where the driver is to listen: in this process alone the path means this directory.
    pub(crate) fn socket(&self) -> &Path {
        &self.path
    }

    /// Takes hold of the socket that listens at the path, and its name away.
    pub(crate) fn hide(self) -> io::Result<UnnamedListener> {
        Ok(UnnamedListener {
            socket: path_only(&self.path)?,
            path: self.path.clone(),
            _directory: Arc::clone(&self.handle),
        })
    }

    #[cfg(test)]
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for PrivateSocketPath {
    fn drop(&mut self) {
        // If they stay, they are in nobody's way.
        let _ = std::fs::remove_file(self.directory.join(SOCKET));
        let _ = std::fs::remove_dir(&self.directory);
    }
}

/// A socket without a name that somebody listens on.
#[derive(Debug)]
pub(crate) struct UnnamedListener {
    socket: OwnedFd,
    path: PathBuf,
    /// Gives the path its meaning.
    _directory: Arc<OwnedFd>,
}

impl UnnamedListener {
    /// Where the driver listens: still a way into the directory, which is empty and has no name.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn connect(&self) -> io::Result<OwnedFd> {
        memif::socket::connect(Path::new(&format!("/proc/self/fd/{}", self.socket.as_raw_fd())))
    }
}
