//! File descriptors for all ports: a switch that runs out of them would keep hosts out without a
//! word.

use crate::error::{Error, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Of a port: its socket, its host's connection, what wakes that host, what the host wakes the
/// switch with, and one to spare while a host joins.
const OF_PORT: u64 = 5;
/// Of the process: DPDK, if a port needs it, and the files of the tool.
const OF_PROCESS: u64 = 64;

/// Lets this process have as many as so many ports need.
///
/// # Errors
/// [`Error::Descriptors`] if it may not.
pub fn allow(ports: usize) -> Result<()> {
    let needed = OF_PROCESS + OF_PORT * ports as u64;
    let limit = getrlimit(Resource::Nofile);
    let (now, most) = (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
    if now >= needed {
        return Ok(());
    }
    let raised = Rlimit { current: Some(needed), ..limit };
    if most < needed || setrlimit(Resource::Nofile, raised).is_err() {
        return Err(Error::Descriptors { ports, needed, limit: most });
    }
    Ok(())
}
