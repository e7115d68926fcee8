//! Opens a port of DPDK from a device string.

use crate::error::Error;
use crate::spec::{DeviceSpec, Hugepages, PortDriver, Role, Transport};
use datapath::neighbor;
use datapath::port::dpdk::{
    DpdkPort, Eal, EalConfig, EthQueue, InterfaceConfig, MemifConfig, MemifRole, Memory, NicConfig, OpenPort,
    SocketKind, VhostConfig,
};
use std::path::Path;

/// Opens the DPDK port that `spec` names as the port of an engine.
pub fn engine_port(spec: &DeviceSpec) -> Result<DpdkPort, Error> {
    let mut port = open_port(spec)?;
    port.eth.join(&neighbor::multicast_macs(spec.ip_or_default()?))?;
    Ok(DpdkPort::over(port))
}

/// One end of the memif at `path` for several engines: the port of the first one, which looks after
/// the link, and those of the others.
pub fn engine_queues(spec: &DeviceSpec, path: &Path) -> Result<(DpdkPort, Vec<DpdkPort<EthQueue>>), Error> {
    let config = MemifConfig { queues: spec.engines, ..memif(spec, path)? };
    Ok(DpdkPort::with_queues(config.open(Eal::start(&eal(spec))?)?))
}

/// Opens the port that `spec` names, and starts DPDK for it if need be. No engine runs on it and no
/// faults are injected: it is for frames of the caller's own, as to measure what the port alone can
/// do.
///
/// # Errors
/// [`Error::Eal`], [`Error::Port`], [`Error::Spec`]; [`Error::Unsupported`] for a `sim:` device;
/// [`Error::Engines`] if there is to be more than one.
pub fn open_port(spec: &DeviceSpec) -> Result<OpenPort, Error> {
    if spec.engines != 1 {
        return Err(Error::Engines { engines: spec.engines });
    }
    let eal = Eal::start(&eal(spec))?;
    match &spec.transport {
        Transport::Memif { driver: PortDriver::Native, .. } => {
            Err(Error::Unsupported("a memif is a port of DPDK's with driver=dpdk only; add that"))
        }
        Transport::Memif { path, .. } => Ok(memif(spec, path)?.open(eal)?),
        Transport::Vhost { path } => Ok(vhost(spec, path)?.open_back_end(eal)?),
        Transport::Virtio { path } => Ok(vhost(spec, path)?.open_front_end(eal)?),
        Transport::AfPacket { driver: PortDriver::Native, .. } => {
            Err(Error::Unsupported("a packet socket is a port of DPDK's with driver=dpdk only; add that"))
        }
        Transport::AfPacket { interface, .. } => self::interface(spec, SocketKind::Packet, interface, eal),
        Transport::AfXdp { interface } => self::interface(spec, SocketKind::Xdp, interface, eal),
        Transport::Pci { address } => {
            Ok(NicConfig { address: address.clone(), mac: spec.mac, mtu: spec.mtu }.open(eal)?)
        }
        Transport::Sim { .. } => Err(Error::Unsupported("a sim: device is no port of DPDK's")),
        Transport::Pool { .. } => Err(Error::Unsupported("a port of a pool is none of DPDK's")),
    }
}

fn eal(spec: &DeviceSpec) -> EalConfig {
    let memory = match spec.hugepages {
        Hugepages::Auto => Memory::Auto,
        Hugepages::On => Memory::Huge,
        Hugepages::Off => Memory::Normal,
    };
    let pci = matches!(spec.transport, Transport::Pci { .. });
    EalConfig { memory, memory_mb: spec.memory_mb, pci, ..EalConfig::default() }
}

fn memif(spec: &DeviceSpec, path: &Path) -> Result<MemifConfig, Error> {
    let role = match spec.role()? {
        Some(Role::Client) => MemifRole::Client,
        _ => MemifRole::Server,
    };
    let mut config = MemifConfig::new(path, role);
    config.mac = spec.mac_or_default()?;
    config.max_frame = spec.max_frame();
    Ok(config)
}

fn vhost(spec: &DeviceSpec, path: &Path) -> Result<VhostConfig, Error> {
    let mac = spec.mac_or_default()?.unwrap_or_default();
    Ok(VhostConfig { socket_path: path.into(), mac, max_frame: spec.max_frame() })
}

fn interface(spec: &DeviceSpec, kind: SocketKind, name: &str, eal: &Eal) -> Result<OpenPort, Error> {
    Ok(InterfaceConfig { kind, name: name.to_owned(), mac: spec.mac, mtu: spec.mtu }.open(eal)?)
}
