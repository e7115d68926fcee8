//! Opens the native packet socket, which needs no DPDK, from a device string.

use crate::error::Error;
use crate::spec::{DeviceSpec, MTU_MAX, Transport};
use datapath::neighbor;
use datapath::port::Port as _;
use datapath::port::packet::{Config, Frames, Host, Interface, PacketPort, mtu_within};
use memif::FRAME_OVERHEAD;

/// Opens the interface of the kernel's that `spec` names by the driver that needs no DPDK, whatever
/// `driver=` says. No engine runs on it and no faults are injected: it is for frames of the
/// caller's own, and takes in those for every address.
///
/// # Errors
/// [`Error::Packet`]; [`Error::Unsupported`] for a device of another kind; [`Error::Engines`] if
/// there is to be more than one.
pub fn open_packet(spec: &DeviceSpec) -> Result<PacketPort, Error> {
    if spec.engines != 1 {
        return Err(Error::Engines { engines: spec.engines });
    }
    match &spec.transport {
        Transport::AfPacket { interface, .. } => open(spec, interface, Frames::All, None),
        _ => Err(Error::Unsupported("this device is no packet socket; open it by Device::open or open_port")),
    }
}

/// Opens the interface as the port of an engine, which leaves other programs' frames alone. Unless
/// the kernel's IP stack is to see those of the engine, too, it is spared them where that can be.
pub fn engine_port(spec: &DeviceSpec, interface: &str, stack_sees: bool) -> Result<PacketPort, Error> {
    let ip = spec.ip_or_default()?;
    let host = (!stack_sees).then_some(Host { ip, vlan: spec.vlan });
    let mut port = open(spec, interface, Frames::Rdma, host)?;
    port.set_groups(&neighbor::multicast_macs(ip))?;
    Ok(port)
}

fn open(spec: &DeviceSpec, name: &str, frames: Frames, host: Option<Host>) -> Result<PacketPort, Error> {
    let interface = Interface::find(name)?;
    let own = interface.mac();
    let is_own = spec.mac.is_none_or(|mac| own.as_ref().is_ok_and(|own| *own == mac));
    let mac = spec.mac.map_or(own, Ok)?;
    let mtu = mtu_within(name, spec.mtu, interface.mtu()?, MTU_MAX)?;
    let promiscuous = frames == Frames::All || !is_own;
    let config = Config { max_frame: mtu + FRAME_OVERHEAD, frames, promiscuous, host };
    Ok(PacketPort::open(interface, &config, mac)?)
}
