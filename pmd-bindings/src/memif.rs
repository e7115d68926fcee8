//! memif: shared memory between two processes, without a NIC, hugepages or privileges.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::device::Device;
use crate::door::{Door, HiddenPath, Listener};
use crate::eal::Eal;
use crate::error::PortError;
use crate::ethdev::EthPort;
use crate::mempool::Mempool;
use crate::unix::{self, PATH_MAX};

/// Which end of the pair: the server makes the socket, the client connects to it. Nothing else differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemifRole {
    /// Makes the socket and waits.
    Server,
    /// Connects.
    Client,
}

/// One end of a memif pair.
///
/// The peer maps the rings: a memif trusts its peer with shared memory. Keep the socket in a directory that only
/// trusted users can enter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemifConfig {
    /// The socket, a file. At most 107 bytes, without `,`, `=`, `[`, `]` and `"`, which DPDK's arguments give a meaning.
    pub socket_path: PathBuf,
    /// Which end this is.
    pub role: MemifRole,
    /// The port's address; DPDK draws one if `None`.
    pub mac: Option<[u8; 6]>,
    /// Longest frame in bytes. **Both ends must agree**: DPDK's memif spreads a longer frame over several buffers and
    /// then corrupts later frames.
    pub max_frame: u16,
    /// Binary logarithm of the slots of each ring, 1 to 14.
    pub ring_size_log2: u8,
    /// What the client must say to be let in; at most 23 bytes.
    pub secret: Option<String>,
}

/// Longest frame by default: a 4 KB path MTU with every header there is.
pub const MEMIF_MAX_FRAME: u16 = 4608;
/// Binary logarithm of the ring by default. Smaller flatters ratios, larger loses 15 % (cache).
pub const MEMIF_RING_SIZE_LOG2: u8 = 10;

/// DPDK's secret holds 24 bytes with the terminating NUL.
const SECRET_MAX: usize = 23;

impl MemifConfig {
    /// One end of a pair at `socket_path`, with the defaults.
    #[must_use]
    pub fn new(socket_path: impl Into<PathBuf>, role: MemifRole) -> Self {
        Self {
            socket_path: socket_path.into(),
            role,
            mac: None,
            max_frame: MEMIF_MAX_FRAME,
            ring_size_log2: MEMIF_RING_SIZE_LOG2,
            secret: None,
        }
    }

    /// The device to attach, with `socket` as the driver's own.
    ///
    /// # Errors
    /// [`PortError::OutOfRange`] and [`PortError::Socket`], before DPDK fails without a reason.
    fn device(&self, socket: &Path) -> Result<Device, PortError> {
        check_range("max_frame", self.max_frame.into(), 64, u64::from(u16::MAX - crate::HEADROOM))?;
        check_range("ring_size_log2", self.ring_size_log2.into(), 1, 14)?;
        let path = self.checked(socket)?;
        let mut arguments = format!(
            "role={},socket={path},socket-abstract=no,bsize={},rsize={}",
            match self.role {
                MemifRole::Server => "server",
                MemifRole::Client => "client",
            },
            self.max_frame,
            self.ring_size_log2,
        );
        if let Some([a, b, c, d, e, f]) = self.mac {
            arguments += &format!(",mac={a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
        }
        if let Some(secret) = &self.secret {
            check_range("the length of the secret", secret.len() as u64, 1, SECRET_MAX as u64)?;
            if secret.contains(is_special) {
                return Err(
                    self.socket_error("its secret holds a character that DPDK's arguments cannot carry")
                );
            }
            arguments += &format!(",secret={secret}");
        }
        Ok(Device::virtual_device("net_memif", &arguments))
    }

    fn checked<'a>(&self, socket: &'a Path) -> Result<&'a str, PortError> {
        let path = socket.to_str().ok_or_else(|| self.socket_error("the path is not UTF-8"))?;
        if path.len() > PATH_MAX {
            return Err(
                self.socket_error(&format!("the path is longer than {PATH_MAX} bytes; use a shorter one"))
            );
        }
        if path.contains(is_special) {
            return Err(
                self.socket_error("the path holds one of , = [ ] \" or a control character; use another")
            );
        }
        if !socket.is_absolute() {
            return Err(self.socket_error("the path must be absolute"));
        }
        let directory = socket.parent().unwrap_or(Path::new("/"));
        if !directory.is_dir() {
            return Err(self.socket_error("its directory does not exist; make it first"));
        }
        if !may_write(directory) {
            return Err(self
                .socket_error("this user may not write to its directory, which DPDK demands of both ends"));
        }
        Ok(path)
    }

    /// Attaches a client, whose driver connects to the socket itself.
    pub(crate) fn attach_client(&self, eal: &Eal, pool: &Mempool) -> Result<EthPort, PortError> {
        EthPort::attach(eal, self.device(&self.socket_path)?, pool)
    }

    /// Attaches a server behind a [`Door`] at the socket.
    pub(crate) fn attach_server(&self, eal: &Eal, pool: &Mempool) -> Result<(EthPort, Door), PortError> {
        self.checked(&self.socket_path)?;
        self.remove_stale_socket()?;
        let hidden =
            HiddenPath::new().map_err(|error| self.socket_error(&format!("no private socket: {error}")))?;
        let device = self.device(hidden.socket())?;
        let listener =
            Listener::bind(&self.socket_path).map_err(|error| self.socket_error(&error.to_string()))?;
        let port = EthPort::attach(eal, device, pool)?;
        let door = hidden.hide().and_then(|driver| Door::install(listener, driver));
        Ok((port, door.map_err(|error| self.socket_error(&error.to_string()))?))
    }

    /// A server that was killed leaves its socket, and a new one cannot bind to it.
    fn remove_stale_socket(&self) -> Result<(), PortError> {
        let file_type = match fs::symlink_metadata(&self.socket_path) {
            Ok(metadata) => metadata.file_type(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(self.socket_error(&error.to_string())),
        };
        if !file_type.is_socket() {
            return Err(
                self.socket_error("something that is no socket is there; remove it or use another path")
            );
        }
        match unix::connect(&self.socket_path) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(&self.socket_path)
                .map_err(|error| {
                    self.socket_error(&format!("a dead server left it and it cannot be removed: {error}"))
                }),
            // Connected, or a full backlog: somebody listens.
            Ok(_) => Err(self.socket_error("another server is listening on it; use another path")),
            Err(error) => {
                Err(self.socket_error(&format!("cannot tell whether a server is listening: {error}")))
            }
        }
    }

    fn socket_error(&self, problem: &str) -> PortError {
        PortError::Socket { path: self.socket_path.display().to_string(), problem: problem.into() }
    }
}

fn is_special(c: char) -> bool {
    matches!(c, ',' | '=' | '[' | ']' | '"') || c.is_control()
}

fn check_range(what: &'static str, value: u64, min: u64, max: u64) -> Result<(), PortError> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(PortError::OutOfRange { what, value, min, max }) }
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

#[cfg(test)]
#[path = "memif_tests.rs"]
mod tests;
