//! Opens the native memif driver, which needs no DPDK, from a device string.

use crate::error::Error;
use crate::spec::{DeviceSpec, Role, Transport};
use datapath::port::memif::{Config, MemifPort, RING_SIZE_LOG2, Role as End};
use std::path::Path;

/// Opens the memif port that `spec` names by the driver that needs no DPDK, whatever `driver=`
/// says: each end of a pair chooses for itself. No engine runs on it and no faults are injected: it
/// is for frames of the caller's own.
///
/// # Errors
/// [`Error::Memif`], [`Error::Spec`]; [`Error::Unsupported`] for a device of another kind;
/// [`Error::Engines`] if there is to be more than one.
pub fn open_memif(spec: &DeviceSpec) -> Result<MemifPort, Error> {
    if spec.engines != 1 {
        return Err(Error::Engines { engines: spec.engines });
    }
    match &spec.transport {
        Transport::Memif { path, .. } => open(spec, path),
        _ => Err(Error::Unsupported("this device is no memif; open it by Device::open or open_port")),
    }
}

/// Opens one end of the pair at `path`.
pub fn open(spec: &DeviceSpec, path: &Path) -> Result<MemifPort, Error> {
    Ok(MemifPort::open(&config(spec, path)?, spec.mac_or_default()?.unwrap_or_default())?)
}

/// Opens one end of the pair at `path`, with a port for each engine.
pub fn open_engines(spec: &DeviceSpec, path: &Path) -> Result<Vec<MemifPort>, Error> {
    let mac = spec.mac_or_default()?.unwrap_or_default();
    Ok(MemifPort::open_queues(&config(spec, path)?, mac, spec.engines)?)
}

fn config(spec: &DeviceSpec, path: &Path) -> Result<Config, Error> {
    Ok(Config {
        path: path.into(),
        role: match spec.role()? {
            Some(Role::Client) => End::Client,
            _ => End::Server,
        },
        max_frame: spec.max_frame(),
        ring_size_log2: RING_SIZE_LOG2,
        secret: None,
    })
}
