//! Device strings: `memif:/run/srnic.sock,role=client`, and `fault:loss=1%,seed=7:` before it.

mod engine;
mod parse;
#[cfg(test)]
mod tests;

pub(crate) use engine::driver_of_engine;
pub(crate) use parse::{MTU_MAX, parse_mac};

use crate::driver::Driver;
use crate::stat::StatAddress;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr};
use datapath::latency::LatencyConfig;
use datapath::port::fault::FaultConfig;
use datapath::port::options::OptionError;
use datapath::sched::HostRateConfig;
use memif::FRAME_OVERHEAD;
use std::path::PathBuf;

/// The end of a shared-memory pair that a device is. It decides only who makes the socket, and the
/// default addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Makes the socket and waits; by default 10.77.0.1 and 02:00:00:00:00:01.
    Server,
    /// Connects to it; by default 10.77.0.2 and 02:00:00:00:00:02.
    Client,
}

impl Role {
    /// Last byte of the default addresses.
    const fn host(self) -> u8 {
        match self {
            Self::Server => 1,
            Self::Client => 2,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Server => "server",
            Self::Client => "client",
        })
    }
}

/// What moves the frames of a memif, whose ends choose each for itself, or of an interface of the
/// kernel's through a packet socket.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum PortDriver {
    /// This library's own: frames are built and read in the memory itself that is shared with the
    /// peer or the kernel. It needs no DPDK.
    #[default]
    Native,
    /// DPDK's: frames are copied into that memory and out of it.
    Dpdk,
}

/// The transport of a device: what moves its frames.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Transport {
    /// Shared memory between two processes.
    Memif {
        /// The socket of the pair.
        path: PathBuf,
        /// The end that this device is.
        role: Option<Role>,
        /// What moves its frames.
        driver: PortDriver,
    },
    /// The back end of a vhost-user pair: it makes the socket.
    Vhost {
        /// The socket of the pair.
        path: PathBuf,
    },
    /// The front end of a vhost-user pair: it connects.
    Virtio {
        /// The socket of the pair.
        path: PathBuf,
    },
    /// An interface of the kernel's, through a packet socket.
    AfPacket {
        /// The name of the interface.
        interface: String,
        /// What moves its frames.
        driver: PortDriver,
        /// The kernel's IP stack sees the packets to the device, too.
        stack_sees: bool,
    },
    /// An interface of the kernel's, through an XDP socket.
    AfXdp {
        /// Its name.
        interface: String,
    },
    /// A port of an Ethernet segment inside the process; needs no DPDK.
    Sim {
        /// Name of the segment.
        segment: String,
    },
    /// A NIC that is bound to DPDK.
    Pci {
        /// The address of the NIC on the bus, such as `0000:17:00.0`.
        address: String,
    },
    /// The port that `srnic switch --pool` has for whoever opens it: a memif, and an address.
    Pool {
        /// The socket where the switch is asked.
        socket: PathBuf,
    },
}

impl Transport {
    /// The name of the transport in a device string, before the colon.
    #[must_use]
    pub const fn scheme(&self) -> &'static str {
        match self {
            Self::Memif { .. } => "memif",
            Self::Vhost { .. } => "vhost",
            Self::Virtio { .. } => "virtio",
            Self::AfPacket { .. } => "af_packet",
            Self::AfXdp { .. } => "af_xdp",
            Self::Sim { .. } => "sim",
            Self::Pci { .. } => "pci",
            Self::Pool { .. } => "pool",
        }
    }
}

/// Where a process keeps its packet buffers. DPDK is started once a process, so the first device
/// decides.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Hugepages {
    /// The buffers are in hugepages if enough are free, else in ordinary pages.
    #[default]
    Auto,
    /// The buffers are in hugepages, or the device does not open.
    On,
    /// The buffers are in ordinary pages.
    Off,
}

/// A parsed device string, `[fault:FAULTS:]SCHEME:NAME[,key=value..]`:
///
/// | string | is |
/// |---|---|
/// | `memif:PATH` | shared memory between two processes; the server makes the socket |
/// | `vhost:PATH`, `virtio:PATH` | the two ends of a vhost-user pair: `vhost` makes the socket, `virtio` connects |
/// | `af_packet:INTERFACE`, `af_xdp:INTERFACE` | an interface of the kernel's |
/// | `pci:ADDRESS` | a NIC that is bound to DPDK |
/// | `sim:SEGMENT` | a port of an Ethernet segment inside the process, without DPDK: all devices of that name reach each other |
/// | `pool:SOCKET` | a port of a `srnic switch --pool SOCKET`, as a memif by the native driver, and an address, until the device closes or the process ends |
///
/// | key | value | default |
/// |---|---|---|
/// | `role` | `server`, `client`; `memif` only | [`DeviceSpec::or_role`], else an error when opened |
/// | `driver` | `native`: packets are built and read in the memory itself that is shared with the peer or the kernel, without DPDK; `dpdk`: DPDK's driver copies them; `memif` and `af_packet` only | `native` |
/// | `stack` | `spared`: where the system allows it, the kernel's IP stack does not get `RoCEv2` packets to the device (`CAP_BPF` and `CAP_NET_ADMIN`, Linux 6.6; `driver=native`); `sees`: it does; `af_packet` only | `spared` |
/// | `ip` | IPv4 or IPv6 address of the device | 10.77.0.1 for a server, 10.77.0.2 for a client, 10.77.0.N for the Nth of a segment; what a pool has free, which can be asked for one; must be given for an interface and a NIC |
/// | `mac` | Ethernet address | 02:00 and the last four bytes of a given `ip`, so that hosts on a switch differ; else 02:00:00:00:00:01, 02:00:00:00:00:02; ending in N on a segment; that of the interface or NIC |
/// | `mtu` | 348..=9216: longest IP packet in bytes, **the same at both ends** of a `memif` and on a segment | 4590; that of the interface or NIC |
/// | `vlan` | 1..=4094 | no VLAN tag |
/// | `hugepages` | `auto`, `on`, `off`; not `sim` | `auto` |
/// | `memory` | 64..=1048576: megabytes for the packet buffers of all DPDK devices of the process, by the first of them; not `sim` | 512 |
/// | `engines` | 1..=8: so many engines share the device's port, each with a queue each way, **as many at both ends** ([`Device::open_engines`](crate::Device::open_engines)); `memif` and `sim` only | 1 |
/// | `poll` | `inline`, `hybrid`, `thread`, `thread@CPU`: who runs the engine ([`Driver`]) | the program's choice, else `inline` |
/// | `pcap` | a file: every frame that the engine sends and receives, behind the faults, in pcap format; replaced if it is there | none |
/// | `latency` | a power of two up to 65536: of each queue pair one send request in so many is sampled for where its time goes, for `srnic latency` | none is |
/// | `slow` | a time such as `1ms`: a sampled operation that takes longer is kept with the state of its queue pair; with `latency=64` unless that is given | none is |
/// | `host_marks` | a time such as `20us`: what waits longer in the port counts as marked by a switch, so that senders slow down ([`DeviceBuilder::host_marks_ns`](crate::DeviceBuilder::host_marks_ns)) | never |
/// | `host_target` | a time such as `20us` up to 4.19 ms: a peer host that takes longer is sent to at a rate ([`DeviceBuilder::host_rates`](crate::DeviceBuilder::host_rates)) | windows alone decide |
/// | `costs` | a file of `srnic calibrate`: what operations cost of the caps of tenants | [`DeviceBuilder::costs`](crate::DeviceBuilder::costs) |
/// | `stat` | a path such as `/run/srnic.stat`, or a TCP address ([`StatAddress`]): where `srnic stat` and Prometheus look in | nowhere |
///
/// `FAULTS` are those of [`FaultConfig`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceSpec {
    /// The transport that moves the frames.
    pub transport: Transport,
    /// Address of the device.
    pub ip: Option<IpAddr>,
    /// Ethernet address of the device.
    pub mac: Option<[u8; 6]>,
    /// Longest IP packet, in bytes.
    pub mtu: Option<u16>,
    /// VLAN tag of its frames.
    pub vlan: Option<u16>,
    /// Where the packet buffers are.
    pub hugepages: Hugepages,
    /// Megabytes that DPDK takes for all devices of the process; the first device that starts it
    /// decides.
    pub memory_mb: Option<u32>,
    /// Engines that share its port.
    pub engines: u8,
    /// Who runs the engine; `None`: the program says.
    pub driver: Option<Driver>,
    /// The file that takes a copy of every frame.
    pub pcap: Option<PathBuf>,
    /// Which send requests are sampled for where their time goes.
    pub latency: Option<LatencyConfig>,
    /// Nanoseconds in the port behind which what comes counts as marked.
    pub host_marks_ns: Option<u32>,
    /// Nanoseconds that a peer host may take without being sent to at a rate.
    pub host_target_ns: Option<u32>,
    /// The file that says what operations cost of the caps of tenants.
    pub costs: Option<PathBuf>,
    /// Where `srnic stat` and Prometheus can ask for counters.
    pub stat: Option<StatAddress>,
    /// Faults around the port.
    pub faults: Option<FaultConfig>,
}

/// Why a device string makes no sense.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// No `scheme:` at its start.
    #[error("device `{text}` has no scheme; give one such as memif:/run/srnic.sock,role=server")]
    NoScheme {
        /// The string.
        text: String,
    },
    /// A scheme that nobody knows.
    #[error("unknown device scheme `{scheme}`; supported: {}, and fault:..: before each", parse::SCHEMES.join(", "))]
    UnknownScheme {
        /// The scheme.
        scheme: String,
    },
    /// Nothing behind the colon.
    #[error("{scheme}: names no {what}; give it, as in {example}")]
    NoName {
        /// The scheme.
        scheme: &'static str,
        /// The part that is missing.
        what: &'static str,
        /// An example of how it is written.
        example: &'static str,
    },
    /// The name behind the colon is not valid.
    #[error("{scheme}:{name}: {remedy}")]
    Name {
        /// The scheme.
        scheme: &'static str,
        /// The name that was given.
        name: String,
        /// What is wrong and what to do.
        remedy: &'static str,
    },
    /// Neither the string nor the program says which end this is.
    #[error("memif:{path} does not say which end it is; add role=server or role=client")]
    NoRole {
        /// The socket.
        path: String,
    },
    /// A device whose address nobody can guess.
    #[error("{scheme}:{name} has no IP address; add one that the network has for it, as in ip=192.168.7.1")]
    NoIp {
        /// The scheme.
        scheme: &'static str,
        /// The interface, the NIC, or the socket of the pool.
        name: String,
    },
    /// Faults without a device behind them, or twice.
    #[error("`fault:` must be followed by its faults, a colon and a device: fault:loss=1%,seed=7:memif:..")]
    FaultForm,
    /// No faults at all.
    #[error(
        "`fault::{device}` names no faults; give some, as in fault:loss=1%:{device}, or leave `fault::` out"
    )]
    NoFaults {
        /// The device that was given.
        device: String,
    },
    /// The faults themselves.
    #[error("in `fault:`: {0}")]
    Fault(#[source] OptionError),
    /// A key or a value.
    #[error(transparent)]
    Option(OptionError),
}

/// The memif buffer of 4608 bytes less the Ethernet header and a VLAN tag: a path MTU of 4096 with
/// every header.
const MTU_DEFAULT: u16 = 4590;

impl DeviceSpec {
    /// This device in the given role, where a role matters and the string names none.
    #[must_use]
    pub fn or_role(mut self, role: Role) -> Self {
        if let Transport::Memif { role: own, .. } = &mut self.transport {
            *own = own.or(Some(role));
        }
        self
    }

    /// The rates of hosts, if it names a target.
    #[must_use]
    pub fn host_rates(&self) -> Option<HostRateConfig> {
        self.host_target_ns.map(|target_ns| HostRateConfig { target_ns, ..HostRateConfig::DEFAULT })
    }

    /// Which end of a shared-memory pair this is; `None` for every other device.
    ///
    /// # Errors
    /// [`SpecError::NoRole`] if nobody said.
    pub fn role(&self) -> Result<Option<Role>, SpecError> {
        match &self.transport {
            Transport::Memif { path, role: None, .. } => {
                Err(SpecError::NoRole { path: path.display().to_string() })
            }
            Transport::Memif { role, .. } => Ok(*role),
            Transport::Vhost { .. } => Ok(Some(Role::Server)),
            Transport::Virtio { .. } => Ok(Some(Role::Client)),
            Transport::AfPacket { .. }
            | Transport::AfXdp { .. }
            | Transport::Pci { .. }
            | Transport::Sim { .. }
            | Transport::Pool { .. } => Ok(None),
        }
    }

    /// Address of the device: as given, or the role's default. A `sim:` device gets its default
    /// when it opens, and so does one of a pool.
    ///
    /// # Errors
    /// [`SpecError::NoIp`] if there is neither; [`SpecError::NoRole`].
    pub fn ip_or_default(&self) -> Result<IpAddr, SpecError> {
        if let Some(ip) = self.ip {
            return Ok(ip);
        }
        match (self.role()?, &self.transport) {
            (Some(role), _) => Ok(IpAddr::V4(Ipv4Addr::new(10, 77, 0, role.host()))),
            (None, Transport::AfPacket { interface: name, .. } | Transport::AfXdp { interface: name })
            | (None, Transport::Pci { address: name } | Transport::Sim { segment: name }) => {
                Err(SpecError::NoIp { scheme: self.transport.scheme(), name: name.clone() })
            }
            (None, Transport::Pool { socket }) => {
                Err(SpecError::NoIp { scheme: self.transport.scheme(), name: socket.display().to_string() })
            }
            (
                None,
                Transport::Memif { path, .. } | Transport::Vhost { path } | Transport::Virtio { path },
            ) => Err(SpecError::NoRole { path: path.display().to_string() }),
        }
    }

    /// Ethernet address of the device: as given; on a shared-memory pair else that of its `ip`, or
    /// the role's default; `None`: that of the hardware.
    ///
    /// # Errors
    /// [`SpecError::NoRole`].
    pub fn mac_or_default(&self) -> Result<Option<[u8; 6]>, SpecError> {
        let role = self.role()?;
        let by_ip = |ip: IpAddr| {
            let [.., a, b, c, d] = match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                IpAddr::V6(ip) => ip.octets(),
            };
            [2, 0, a, b, c, d]
        };
        let default = |role: Role| self.ip.map_or([2, 0, 0, 0, 0, role.host()], by_ip);
        Ok(self.mac.or(role.map(default)))
    }

    /// The MTU that the other end must have, too, in bytes: on a memif pair, whose driver spreads a
    /// longer frame over several buffers and then corrupts later ones.
    #[must_use]
    pub fn link_mtu(&self) -> Option<u16> {
        matches!(self.transport, Transport::Memif { .. }).then(|| self.mtu.unwrap_or(MTU_DEFAULT))
    }

    /// Longest frame of a shared-memory or `sim:` device, in bytes: the MTU, an Ethernet header and
    /// a VLAN tag.
    #[must_use]
    pub fn max_frame(&self) -> u16 {
        self.mtu.unwrap_or(MTU_DEFAULT) + FRAME_OVERHEAD
    }
}
