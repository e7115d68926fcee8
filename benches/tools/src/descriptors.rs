//! File descriptors for all that a tool is to serve: one that runs out of them would keep others
//! out without a word.

use crate::error::{Error, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What needs descriptors.
#[derive(Clone, Copy, Debug)]
pub enum Of {
    /// A port of a switch: its socket, its host's connection, what wakes that host, what the host
    /// wakes the switch with, and one to spare while a host joins.
    Ports,
    /// A connection of a tunnel: its socket, and two of the TCP connection that may carry it.
    Connections,
}

impl Of {
    const fn each(self) -> u64 {
        match self {
            Self::Ports => 5,
            Self::Connections => 3,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Ports => "ports",
            Self::Connections => "connections",
        }
    }
}

/// Of the process: DPDK, if a port needs it, and the files of the tool.
const OF_PROCESS: u64 = 64;

/// Lets this process have as many as so many of them need.
///
/// # Errors
/// [`Error::Descriptors`] if it may not.
pub fn allow(count: usize, of: Of) -> Result<()> {
    let needed = OF_PROCESS + of.each() * count as u64;
    let limit = getrlimit(Resource::Nofile);
    let (now, most) = (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
    if now >= needed {
        return Ok(());
    }
    let raised = Rlimit { current: Some(needed), ..limit };
    if most < needed || setrlimit(Resource::Nofile, raised).is_err() {
        return Err(Error::Descriptors { what: of.name(), count, needed, limit: most });
    }
    Ok(())
}
