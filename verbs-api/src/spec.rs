//! Device strings: `memif:/run/srnic.sock,role=client`, and `fault:loss=1%,seed=7:` before it.

#[cfg(test)]
mod tests;

use core::fmt;
use core::net::{IpAddr, Ipv4Addr};
use core::str::FromStr;
use datapath::port::fault::{FaultConfig, FaultConfigError};
use std::path::PathBuf;

/// Which end of a memif pair a device is. Nothing but who makes the socket, and the default addresses, depend on it.
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

/// What a device string says. Parsed from `[fault:FAULTS:]memif:PATH[,key=value..]`:
///
/// | key | value | default |
/// |---|---|---|
/// | `role` | `server`, `client` | [`DeviceSpec::or_role`], else an error when opened |
/// | `ip` | IPv4 or IPv6 address of the device | 10.77.0.1 for a server, 10.77.0.2 for a client |
/// | `mac` | Ethernet address | 02:00:00:00:00:01, 02:00:00:00:00:02 |
/// | `mtu` | 348..=9216: longest IP packet in bytes, **the same at both ends** | 4590 |
/// | `vlan` | 1..=4094 | no VLAN tag |
///
/// `FAULTS` are those of [`FaultConfig`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceSpec {
    /// The socket of a memif pair.
    pub path: PathBuf,
    /// Which end.
    pub role: Option<Role>,
    /// Address of the device.
    pub ip: Option<IpAddr>,
    /// Ethernet address of the device.
    pub mac: Option<[u8; 6]>,
    /// Longest IP packet, in bytes.
    pub mtu: u16,
    /// VLAN tag of its frames.
    pub vlan: Option<u16>,
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
    #[error("unknown device scheme `{scheme}`; supported: memif, and fault:..: before it")]
    UnknownScheme {
        /// The scheme.
        scheme: String,
    },
    /// A scheme that is planned.
    #[error("devices of scheme `{scheme}` are not supported yet; use memif:PATH")]
    Unsupported {
        /// The scheme.
        scheme: &'static str,
    },
    /// No path.
    #[error("memif: names no socket; give its path, as in memif:/run/srnic.sock")]
    NoPath,
    /// Neither the string nor the program says which end this is.
    #[error("memif:{path} does not say which end it is; add role=server or role=client")]
    NoRole {
        /// The socket.
        path: String,
    },
    /// Faults without a device behind them, or twice.
    #[error("`fault:` must be followed by its faults, a colon and a device: fault:loss=1%,seed=7:memif:..")]
    FaultForm,
    /// The faults themselves.
    #[error("in `fault:`: {0}")]
    Fault(#[from] FaultConfigError),
    /// An item without `=`.
    #[error("`{item}` is not of the form key=value, as in `role=server`")]
    NotKeyValue {
        /// The item.
        item: String,
    },
    /// No such key.
    #[error("unknown device key `{key}`; keys are {}", KEYS.join(", "))]
    UnknownKey {
        /// The key.
        key: String,
    },
    /// A key given twice.
    #[error("device key `{key}` is given twice")]
    Repeated {
        /// The key.
        key: &'static str,
    },
    /// A value outside what the key takes.
    #[error("`{key}={value}`: {key} must be {allowed}")]
    Value {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        allowed: &'static str,
    },
}

const KEYS: [&str; 5] = ["role", "ip", "mac", "mtu", "vlan"];
/// Schemes that have a meaning but no port yet.
const PLANNED: [&str; 6] = ["vhost", "virtio", "af_packet", "af_xdp", "pci", "sim"];
/// The memif buffer of 4608 bytes less the Ethernet header and a VLAN tag: a path MTU of 4096 with every header.
const MTU_DEFAULT: u16 = 4590;
/// A path MTU of 256 with every header, and jumbo frames.
const MTU_RANGE: core::ops::RangeInclusive<u16> = 348..=9216;

impl DeviceSpec {
    /// The same device; `role` counts where the string names none.
    #[must_use]
    pub fn or_role(self, role: Role) -> Self {
        Self { role: self.role.or(Some(role)), ..self }
    }

    /// The role.
    ///
    /// # Errors
    /// [`SpecError::NoRole`] if nobody said.
    pub fn role(&self) -> Result<Role, SpecError> {
        self.role.ok_or_else(|| SpecError::NoRole { path: self.path.display().to_string() })
    }

    /// Address of the device: as given, or the role's default.
    #[must_use]
    pub fn ip_for(&self, role: Role) -> IpAddr {
        self.ip.unwrap_or(IpAddr::V4(Ipv4Addr::new(10, 77, 0, role.host())))
    }

    /// Longest frame, in bytes: the MTU, an Ethernet header and a VLAN tag.
    #[must_use]
    pub const fn max_frame(&self) -> u16 {
        self.mtu + 18
    }

    /// Ethernet address of the device: as given, or the role's default.
    #[must_use]
    pub fn mac_for(&self, role: Role) -> [u8; 6] {
        self.mac.unwrap_or([2, 0, 0, 0, 0, role.host()])
    }
}

impl FromStr for DeviceSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (scheme, rest) =
            text.split_once(':').ok_or_else(|| SpecError::NoScheme { text: text.to_owned() })?;
        match scheme {
            "memif" => parse_memif(rest),
            "fault" => parse_fault(rest),
            _ => Err(PLANNED.into_iter().find(|planned| *planned == scheme).map_or_else(
                || SpecError::UnknownScheme { scheme: scheme.to_owned() },
                |scheme| SpecError::Unsupported { scheme },
            )),
        }
    }
}

fn parse_fault(text: &str) -> Result<DeviceSpec, SpecError> {
    let (faults, device) = text.split_once(':').ok_or(SpecError::FaultForm)?;
    let faults = faults.parse()?;
    let spec: DeviceSpec = device.parse()?;
    if spec.faults.is_some() {
        return Err(SpecError::FaultForm);
    }
    Ok(DeviceSpec { faults: Some(faults), ..spec })
}

fn parse_memif(text: &str) -> Result<DeviceSpec, SpecError> {
    let mut items = text.split(',');
    let path = items.next().filter(|path| !path.is_empty()).ok_or(SpecError::NoPath)?;
    let mut spec = DeviceSpec {
        path: path.into(),
        role: None,
        ip: None,
        mac: None,
        mtu: MTU_DEFAULT,
        vlan: None,
        faults: None,
    };
    let mut given = [false; KEYS.len()];
    for item in items {
        let (key, value) =
            item.split_once('=').ok_or_else(|| SpecError::NotKeyValue { item: item.to_owned() })?;
        let index = KEYS.iter().position(|known| *known == key);
        let index = index.ok_or_else(|| SpecError::UnknownKey { key: key.to_owned() })?;
        let key = KEYS[index];
        if core::mem::replace(&mut given[index], true) {
            return Err(SpecError::Repeated { key });
        }
        set(&mut spec, key, value).map_err(|allowed| SpecError::Value {
            key,
            value: value.to_owned(),
            allowed,
        })?;
    }
    Ok(spec)
}

/// Takes one value; the error says what is allowed.
fn set(spec: &mut DeviceSpec, key: &str, value: &str) -> Result<(), &'static str> {
    match key {
        "role" => spec.role = Some(parse_role(value).ok_or("server or client")?),
        "ip" => spec.ip = Some(parse_ip(value).ok_or("a host's IPv4 or IPv6 address, as in 10.77.0.1")?),
        "mac" => {
            spec.mac = Some(parse_mac(value).ok_or("a host's Ethernet address, as in 02:00:00:00:00:01")?);
        }
        "mtu" => {
            let mtu = value.parse().ok().filter(|mtu| MTU_RANGE.contains(mtu));
            spec.mtu = mtu.ok_or("a number of bytes from 348 to 9216, the same at both ends")?;
        }
        _ => {
            let vlan = value.parse().ok().filter(|vlan| (1..=4094).contains(vlan));
            spec.vlan = Some(vlan.ok_or("a number from 1 to 4094")?);
        }
    }
    Ok(())
}

fn parse_role(value: &str) -> Option<Role> {
    [Role::Server, Role::Client].into_iter().find(|role| role.to_string() == value)
}

fn parse_ip(value: &str) -> Option<IpAddr> {
    let ip: IpAddr = value.parse().ok()?;
    let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    (!ip.is_unspecified() && !ip.is_multicast() && !broadcast).then_some(ip)
}

/// Six bytes in hexadecimal with colons between, of one host.
pub(crate) fn parse_mac(value: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = value.split(':');
    for byte in &mut mac {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *byte = part.bytes().all(|c| c.is_ascii_hexdigit()).then(|| u8::from_str_radix(part, 16).ok())??;
    }
    let unicast = mac[0] & 1 == 0 && mac != [0; 6];
    (parts.next().is_none() && unicast).then_some(mac)
}
