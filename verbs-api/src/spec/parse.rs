//! Reading a device string.

use super::{DeviceSpec, Hugepages, PortDriver, Role, SpecError, Transport};
use crate::driver::Driver;
use core::net::IpAddr;
use core::str::FromStr;
use datapath::latency::LatencyConfig;
use datapath::port::options::{Keys, duration_ns};
use datapath::qpn::EngineId;

/// What a device string may begin with.
pub const SCHEMES: [&str; 8] = ["memif", "vhost", "virtio", "af_packet", "af_xdp", "pci", "sim", "pool"];

/// Keys that every device has, between those that some have before and behind them.
macro_rules! keys {
    ($of:literal, $example:literal, [$($before:literal),*], [$($behind:literal),*]) => {
        Keys {
            of: $of,
            names: &[
                $($before,)*
                "poll", "stat", "latency", "slow", "host_marks", "host_target", "costs", "pcap",
                $($behind),*
            ],
            example: $example,
        }
    };
}

/// Those of devices of which nothing else is said.
const KEYS: Keys =
    keys!("device", "ip=10.77.0.1", ["ip", "mac", "mtu", "vlan", "engines"], ["hugepages", "memory"]);
/// Those of an interface through a packet socket.
pub const PACKET_KEYS: Keys = keys!(
    "device",
    "ip=192.168.7.1",
    ["driver", "stack", "ip", "mac", "mtu", "vlan", "engines"],
    ["hugepages", "memory"]
);
/// Those of a memif device: all that there are.
pub const MEMIF_KEYS: Keys = keys!(
    "device",
    "role=server",
    ["role", "driver", "ip", "mac", "mtu", "vlan", "engines"],
    ["hugepages", "memory"]
);
/// Those of a device without DPDK.
const SIM_KEYS: Keys = keys!("device", "ip=10.77.0.1", ["ip", "mac", "mtu", "vlan", "engines"], []);
/// Those of a port of a switch, which says the rest.
const POOL_KEYS: Keys = keys!("pool", "ip=10.77.0.1", ["ip", "mac", "vlan"], []);

/// Longest IP packet of a device, in bytes: jumbo frames.
pub const MTU_MAX: u16 = 9216;
/// From a path MTU of 256 with every header on.
const MTU_RANGE: core::ops::RangeInclusive<u16> = 348..=MTU_MAX;
/// What one small port needs, and a terabyte.
const MEMORY_MB_RANGE: core::ops::RangeInclusive<u32> = 64..=1 << 20;
/// Longest time in a host that acknowledgements can tell of, about.
const HOST_DELAY_NS_MAX: u32 = 4_000_000;
/// Longest name of an interface: the kernel's IFNAMSIZ less the terminating NUL.
const INTERFACE_MAX: usize = 15;

impl FromStr for DeviceSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (scheme, rest) =
            text.split_once(':').ok_or_else(|| SpecError::NoScheme { text: text.to_owned() })?;
        if scheme == "fault" {
            return with_faults(rest);
        }
        let known = SCHEMES.into_iter().find(|known| *known == scheme);
        let scheme = known.ok_or_else(|| SpecError::UnknownScheme { scheme: scheme.to_owned() })?;
        let mut items = rest.split(',');
        let transport = transport(scheme, items.next().unwrap_or_default())?;
        let keys = match transport {
            Transport::Memif { .. } => MEMIF_KEYS,
            Transport::AfPacket { .. } => PACKET_KEYS,
            Transport::Sim { .. } => SIM_KEYS,
            Transport::Pool { .. } => POOL_KEYS,
            _ => KEYS,
        };
        let mut spec = Self {
            transport,
            ip: None,
            mac: None,
            mtu: None,
            vlan: None,
            hugepages: Hugepages::Auto,
            memory_mb: None,
            engines: 1,
            driver: None,
            pcap: None,
            latency: None,
            host_marks_ns: None,
            host_target_ns: None,
            costs: None,
            stat: None,
            faults: None,
        };
        keys.read(items, |key, value| spec.set(key, value)).map_err(SpecError::Option)?;
        Ok(spec)
    }
}

fn with_faults(text: &str) -> Result<DeviceSpec, SpecError> {
    let (faults, device) = text.split_once(':').ok_or(SpecError::FaultForm)?;
    if faults.is_empty() {
        return Err(SpecError::NoFaults { device: device.to_owned() });
    }
    let faults = faults.parse().map_err(SpecError::Fault)?;
    let spec: DeviceSpec = device.parse()?;
    if spec.faults.is_some() {
        return Err(SpecError::FaultForm);
    }
    Ok(DeviceSpec { faults: Some(faults), ..spec })
}

/// What `scheme` makes of the text up to the first comma.
fn transport(scheme: &'static str, name: &str) -> Result<Transport, SpecError> {
    let (what, example) = match scheme {
        "memif" => ("socket", "memif:/run/srnic.sock"),
        "vhost" => ("socket", "vhost:/run/srnic.sock"),
        "virtio" => ("socket", "virtio:/run/srnic.sock"),
        "af_packet" => ("interface", "af_packet:eth1,ip=192.168.7.1"),
        "sim" => ("segment", "sim:test"),
        "af_xdp" => ("interface", "af_xdp:eth1,ip=192.168.7.1"),
        "pool" => ("socket of a `srnic switch --pool SOCKET`", "pool:/run/srnic.pool"),
        _ => ("NIC", "pci:0000:17:00.0,ip=192.168.7.1"),
    };
    if name.is_empty() {
        return Err(SpecError::NoName { scheme, what, example });
    }
    let fails = |remedy| SpecError::Name { scheme, name: name.to_owned(), remedy };
    Ok(match scheme {
        "memif" => Transport::Memif { path: name.into(), role: None, driver: PortDriver::Native },
        "vhost" => Transport::Vhost { path: name.into() },
        "virtio" => Transport::Virtio { path: name.into() },
        "af_packet" => Transport::AfPacket {
            interface: interface(name).map_err(fails)?,
            driver: PortDriver::Native,
            stack_sees: false,
        },
        "af_xdp" => Transport::AfXdp { interface: interface(name).map_err(fails)? },
        "sim" => Transport::Sim { segment: name.to_owned() },
        "pool" => Transport::Pool { socket: name.into() },
        _ => Transport::Pci { address: pci_address(name).map_err(fails)? },
    })
}

fn interface(name: &str) -> Result<String, &'static str> {
    let allowed = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | ':' | '=' | '"' | '[' | ']');
    if name.len() > INTERFACE_MAX || !name.chars().all(allowed) {
        return Err("this cannot be an interface; `ip link` lists those that there are");
    }
    Ok(name.to_owned())
}

/// `17:00.0` is short for `0000:17:00.0`.
fn pci_address(name: &str) -> Result<String, &'static str> {
    let full = if name.matches(':').count() == 1 { format!("0000:{name}") } else { name.to_owned() };
    let digits =
        |part: &str, count: usize| part.len() == count && part.chars().all(|c| c.is_ascii_hexdigit());
    let fits = |text: &str| {
        let [domain, bus, rest] = text.split(':').collect::<Vec<_>>()[..] else { return false };
        let Some((device, function)) = rest.split_once('.') else { return false };
        digits(domain, 4) && digits(bus, 2) && digits(device, 2) && digits(function, 1)
    };
    if fits(&full) {
        Ok(full)
    } else {
        Err("this is no address on the PCI bus; `lspci -D` lists those that there are")
    }
}

impl DeviceSpec {
    /// Takes one value; the error says what is allowed.
    fn set(&mut self, key: &str, value: &str) -> Result<(), &'static str> {
        match key {
            "role" => {
                let given = parse_role(value).ok_or("server or client")?;
                if let Transport::Memif { role, .. } = &mut self.transport {
                    *role = Some(given);
                }
            }
            "driver" => {
                let given =
                    parse_port_driver(value).ok_or("native or dpdk; poll= says who runs the engine")?;
                if let Transport::Memif { driver, .. } | Transport::AfPacket { driver, .. } =
                    &mut self.transport
                {
                    *driver = given;
                }
            }
            "stack" => {
                let given = match value {
                    "spared" => false,
                    "sees" => true,
                    _ => return Err("spared or sees"),
                };
                if let Transport::AfPacket { stack_sees, .. } = &mut self.transport {
                    *stack_sees = given;
                }
            }
            "ip" => self.ip = Some(parse_ip(value).ok_or("a host's IPv4 or IPv6 address, as in 10.77.0.1")?),
            "mac" => {
                self.mac =
                    Some(parse_mac(value).ok_or("a host's Ethernet address, as in 02:00:00:00:00:01")?);
            }
            "mtu" => {
                let mtu = value.parse().ok().filter(|mtu| MTU_RANGE.contains(mtu));
                self.mtu = Some(mtu.ok_or("a number of bytes from 348 to 9216, the same at both ends")?);
            }
            "engines" => {
                let engines =
                    value.parse().ok().filter(|engines| (1..=EngineId::COUNT_MAX).contains(engines));
                self.engines = engines.ok_or("a number from 1 to 8, the same at both ends")?;
            }
            "poll" => {
                self.driver =
                    Some(parse_driver(value).ok_or("inline, hybrid, thread, or thread@ and a processor")?);
            }
            "pcap" => self.pcap = Some(value.into()),
            "costs" => self.costs = Some(value.into()),
            "latency" => self.latency_mut().one_in = parse_one_in(value)?,
            "slow" => self.latency_mut().slow_ns = duration_ns(value)?,
            "host_marks" => self.host_marks_ns = Some(host_delay_ns(value)?),
            "host_target" => self.host_target_ns = Some(host_delay_ns(value)?),
            "stat" => self.stat = Some(value.parse()?),
            "memory" => {
                let memory_mb = value.parse().ok().filter(|mb| MEMORY_MB_RANGE.contains(mb));
                self.memory_mb = Some(memory_mb.ok_or("a number of megabytes from 64 to 1048576")?);
            }
            "hugepages" => self.hugepages = parse_hugepages(value).ok_or("auto, on or off")?,
            _ => {
                let vlan = value.parse().ok().filter(|vlan| (1..=4094).contains(vlan));
                self.vlan = Some(vlan.ok_or("a number from 1 to 4094")?);
            }
        }
        Ok(())
    }

    fn latency_mut(&mut self) -> &mut LatencyConfig {
        self.latency.get_or_insert_default()
    }
}

/// A time that packets may spend in a host.
fn host_delay_ns(value: &str) -> Result<u32, &'static str> {
    let ns = u32::try_from(duration_ns(value)?).ok().filter(|ns| (1..=HOST_DELAY_NS_MAX).contains(ns));
    ns.ok_or("a time from 1ns to 4ms, as in 20us")
}

fn parse_one_in(value: &str) -> Result<u32, &'static str> {
    let fits = |one_in: &u32| one_in.is_power_of_two() && *one_in <= LatencyConfig::ONE_IN_MAX;
    value.parse().ok().filter(fits).ok_or("a power of two from 1 to 65536, as in 64")
}

fn parse_role(value: &str) -> Option<Role> {
    [Role::Server, Role::Client].into_iter().find(|role| role.to_string() == value)
}

fn parse_driver(value: &str) -> Option<Driver> {
    match value.split_once('@') {
        Some(("thread", cpu)) => Some(Driver::Thread { cpu: Some(cpu.parse().ok()?) }),
        Some(_) => None,
        None => match value {
            "inline" => Some(Driver::Inline),
            "thread" => Some(Driver::THREAD),
            "hybrid" => Some(Driver::Hybrid),
            _ => None,
        },
    }
}

fn parse_port_driver(value: &str) -> Option<PortDriver> {
    match value {
        "native" => Some(PortDriver::Native),
        "dpdk" => Some(PortDriver::Dpdk),
        _ => None,
    }
}

fn parse_hugepages(value: &str) -> Option<Hugepages> {
    match value {
        "auto" => Some(Hugepages::Auto),
        "on" => Some(Hugepages::On),
        "off" => Some(Hugepages::Off),
        _ => None,
    }
}

fn parse_ip(value: &str) -> Option<IpAddr> {
    // IPv4 that is mapped to IPv6 is IPv4: packets to it are.
    let ip = value.parse::<IpAddr>().ok()?.to_canonical();
    let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    (!ip.is_unspecified() && !ip.is_multicast() && !broadcast).then_some(ip)
}

/// Six bytes in hexadecimal with colons between, of one host.
pub fn parse_mac(value: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = value.split(':');
    for byte in &mut mac {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *byte = part.bytes().all(|c| c.is_ascii_hexdigit()).then(|| u8::from_str_radix(part, 16).ok())??;
    }
    let unicast = mac[0] & 1 == 0 && mac != [0; 6];
    (parts.next().is_none() && unicast).then_some(mac)
}
