//! A listening socket that has lost its name: only who holds the descriptor can connect.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::unix;

/// A path for a socket in a fresh directory that only this user can enter; both are gone when dropped.
#[derive(Debug)]
pub(crate) struct HiddenPath {
    socket: PathBuf,
    directory: PathBuf,
}

impl HiddenPath {
    pub(crate) fn new() -> io::Result<Self> {
        let mut parent = std::env::temp_dir();
        // Leave room for what follows.
        if parent.as_os_str().len() > unix::PATH_MAX - 32 || !parent.is_absolute() {
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
        Ok(Self { socket: directory.join("memif"), directory })
    }

    /// Where the driver is to listen.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Takes hold of the socket that listens at the path, and its name away.
    pub(crate) fn hide(self) -> io::Result<Hidden> {
        let file =
            File::options().read(true).custom_flags(libc::O_PATH | libc::O_CLOEXEC).open(&self.socket)?;
        Ok(Hidden(file.into()))
    }
}

impl Drop for HiddenPath {
    fn drop(&mut self) {
        // If they stay, they are in nobody's way.
        let _ = std::fs::remove_file(&self.socket);
        let _ = std::fs::remove_dir(&self.directory);
    }
}

/// A socket without a name that somebody listens on.
#[derive(Debug)]
pub(crate) struct Hidden(OwnedFd);

impl Hidden {
    pub(crate) fn connect(&self) -> io::Result<OwnedFd> {
        unix::connect(Path::new(&format!("/proc/self/fd/{}", self.0.as_raw_fd())))
    }
}
