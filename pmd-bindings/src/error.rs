//! Errors: what DPDK said, and what to do about it.

use std::ffi::CStr;
use std::fmt;

use crate::ffi;

/// A DPDK error number with its text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(i32);

impl Errno {
    /// From a return value: DPDK returns negative error numbers, and -1 where it means "see
    /// `rte_errno`".
    pub(crate) fn from_return(ret: i32) -> Self {
        if ret == -1 { Self::last() } else { Self(ret.saturating_abs()) }
    }

    /// `rte_errno` of this thread.
    pub(crate) fn last() -> Self {
        // SAFETY: reads a thread-local integer.
        Self(unsafe { ffi::pmd_errno() })
    }

    /// The number, positive as in `errno.h`.
    #[must_use]
    pub fn code(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("no error number given");
        }
        // SAFETY: rte_strerror takes any number and returns a terminated string that lives until
        // this thread's next call.
        let text = unsafe { CStr::from_ptr(ffi::rte_strerror(self.0)) };
        write!(f, "{} (errno {})", text.to_string_lossy(), self.0)
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Errno({}: {self})", self.0)
    }
}

/// Turns DPDK's "negative is an error" into a `Result`.
pub(crate) fn check(ret: i32) -> Result<i32, Errno> {
    if ret < 0 { Err(Errno::from_return(ret)) } else { Ok(ret) }
}

/// Why DPDK's environment (EAL) could not be started.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EalError {
    /// An argument holds a NUL byte.
    #[error("EAL argument {0:?} holds a NUL byte")]
    Argument(String),
    /// `rte_eal_init` failed. It can be tried once a process, so the error stays.
    #[error("DPDK did not start: {errno}. {hint}\nDPDK's log:\n{log}")]
    Init {
        /// What `rte_eal_init` left in `rte_errno`.
        errno: Errno,
        /// What to do about it.
        hint: &'static str,
        /// The end of EAL's own log.
        log: String,
    },
    /// DPDK runs, but not as this device needs it. It can be started once a process.
    #[error(
        "DPDK runs in this process without {wanted}: open the device that needs it first, or in another process"
    )]
    Running {
        /// What is missing.
        wanted: &'static str,
    },
    /// The gate on EAL's interrupt thread could not be set up.
    #[error("cannot hold EAL's interrupt thread: {0}")]
    Quiescent(String),
}

/// Why a port could not be made or driven.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// The device string holds a NUL byte.
    #[error("device {0:?} holds a NUL byte")]
    Name(String),
    /// A value is outside what the device can do.
    #[error("{what} is {value}, but must be in {min}..={max}")]
    OutOfRange {
        /// Which value.
        what: &'static str,
        /// What was asked for.
        value: u64,
        /// Least that works.
        min: u64,
        /// Most that works.
        max: u64,
    },
    /// The path cannot be the socket of a shared-memory pair, or the other end is not there.
    #[error("socket {path:?}: {problem}")]
    Socket {
        /// The path.
        path: String,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// An interface of the kernel's cannot be used.
    #[error("interface {name}: {problem}")]
    Interface {
        /// Its name.
        name: String,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// A NIC cannot be used.
    #[error("NIC {address}: {problem}")]
    Nic {
        /// Its address on the PCI bus.
        address: String,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// This user may not do what the device needs.
    #[error("this user may not use {what}: run as root, or {remedy}")]
    Permission {
        /// What it may not use.
        what: &'static str,
        /// What gives the permission.
        remedy: &'static str,
    },
    /// DPDK has no such driver.
    #[error("DPDK has no driver {driver}: install its plugin (Debian: apt-get install {package})")]
    NoDriver {
        /// The driver.
        driver: String,
        /// Debian's package of it.
        package: String,
    },
    /// DPDK refused to make the device.
    #[error("DPDK cannot attach {device:?}: {errno}. {hint}\nDPDK's log:\n{log}")]
    Attach {
        /// Name and arguments.
        device: String,
        /// DPDK's error; many drivers give none.
        errno: Errno,
        /// What to do about it.
        hint: &'static str,
        /// The end of DPDK's log.
        log: String,
    },
    /// An operation on an attached port failed.
    #[error("port {port}: cannot {operation}: {errno}")]
    Operation {
        /// DPDK's name of the port.
        port: String,
        /// What was tried.
        operation: &'static str,
        /// DPDK's error.
        errno: Errno,
    },
    /// No memory for packet buffers.
    #[error(
        "cannot make a pool of {count} buffers of {size} bytes: {errno}. DPDK has {memory_mb} MB in this process: give it more by \
         memory= (megabytes, EalConfig::memory_mb) of the first device that is opened, or open fewer"
    )]
    Pool {
        /// How many buffers.
        count: u32,
        /// Bytes in each.
        size: u16,
        /// Megabytes that DPDK was started with.
        memory_mb: u32,
        /// DPDK's error.
        errno: Errno,
    },
    /// EAL did not start.
    #[error(transparent)]
    Eal(#[from] EalError),
}

impl From<memif::Error> for PortError {
    fn from(error: memif::Error) -> Self {
        match error {
            memif::Error::Socket { path, problem } => {
                Self::Socket { path: path.display().to_string(), problem }
            }
            other => Self::Socket { path: String::new(), problem: other.to_string() },
        }
    }
}

impl From<packet::Error> for PortError {
    fn from(error: packet::Error) -> Self {
        match error {
            packet::Error::Interface { name, problem } => Self::Interface { name, problem },
            other => Self::Interface { name: String::new(), problem: other.to_string() },
        }
    }
}
