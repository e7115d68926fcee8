//! From a device string to a port of DPDK's.

use crate::error::Error;
use crate::spec::{DeviceSpec, Hugepages, Role, Transport};
use datapath::port::dpdk::{DpdkPort, Eal, EalConfig, MemifConfig, MemifRole, Memory};
use std::path::Path;

/// Opens the port that `spec` names, and starts DPDK for it if need be.
pub fn port(spec: &DeviceSpec) -> Result<DpdkPort, Error> {
    match &spec.transport {
        Transport::Memif { path, .. } => memif(spec, path),
        _ => Err(Error::Unsupported("devices of this scheme are not supported yet; use memif:PATH")),
    }
}

fn memif(spec: &DeviceSpec, path: &Path) -> Result<DpdkPort, Error> {
    let role = match spec.role()? {
        Some(Role::Client) => MemifRole::Client,
        _ => MemifRole::Server,
    };
    let mut config = MemifConfig::new(path, role);
    config.mac = spec.mac_or_default()?;
    config.max_frame = spec.max_frame();
    Ok(DpdkPort::memif(Eal::start(&eal(spec))?, &config)?)
}

fn eal(spec: &DeviceSpec) -> EalConfig {
    let memory = match spec.hugepages {
        Hugepages::Auto => Memory::Auto,
        Hugepages::On => Memory::Huge,
        Hugepages::Off => Memory::Normal,
    };
    EalConfig { memory, ..EalConfig::default() }
}
