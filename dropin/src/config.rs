//! The devices of this process, by what the environment says.

#[cfg(test)]
mod tests;

use core::fmt;
use std::path::Path;
use verbs_api::raw::{NamedDevice, NamedDeviceError};
use verbs_api::{DeviceSpec, Role, Transport, WireMode};

/// The variable with the devices: `DEVICE[; KEY=VALUE]..`, or lines of `NAME = DEVICE[; ..]`.
const VARIABLE: &str = "SRNIC_DEVICE";
/// What is replaced by the number of an MPI job's process.
const RANK: &str = "{rank}";
/// Variables that have that number: those of OpenMPI, PMIx, MPICH and Slurm.
const RANK_VARIABLES: [&str; 4] = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"];

/// What is behind a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// A port.
    Spec(Box<DeviceSpec>),
    /// An end of a memif that does not say which: the one that it is by who was there when the
    /// environment was read.
    EitherEnd(Box<DeviceSpec>),
}

/// A device that programs see.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceConfig {
    pub name: String,
    /// Its place among those of the process.
    pub index: u8,
    pub source: Source,
    /// What queue pairs of type RC speak.
    pub wire_mode: WireMode,
    /// They place requests strictly in the order of sending, also where packets are lost.
    pub strict_placement: bool,
    /// Gigabits a second that the port is said to have.
    pub speed: u32,
}

/// Why the variable makes no sense.
#[derive(Debug)]
pub struct ConfigError(String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VARIABLE}: {}", self.0)
    }
}

impl From<NamedDeviceError> for ConfigError {
    fn from(error: NamedDeviceError) -> Self {
        Self(error.to_string())
    }
}

/// The devices that the environment names; none if it names none.
pub fn devices() -> Result<Vec<DeviceConfig>, ConfigError> {
    let Some(text) = std::env::var_os(VARIABLE).filter(|text| !text.is_empty()) else {
        return Ok(Vec::new());
    };
    let text = text.into_string().map_err(|_| ConfigError("it is no UTF-8".to_owned()))?;
    let rank = RANK_VARIABLES.iter().find_map(|variable| std::env::var(variable).ok());
    parse_all(&with_rank(&text, rank.as_deref())?)
}

/// The text for a process of this number.
fn with_rank(text: &str, rank: Option<&str>) -> Result<String, ConfigError> {
    match rank {
        _ if !text.contains(RANK) => Ok(text.to_owned()),
        Some(rank) => Ok(text.replace(RANK, rank)),
        None => Err(ConfigError(format!(
            "there is no number for {RANK}, which MPI gives its processes: none of {} is set",
            RANK_VARIABLES.join(", ")
        ))),
    }
}

/// One device, or several that have names, each on a line of its own.
fn parse_all(text: &str) -> Result<Vec<DeviceConfig>, ConfigError> {
    let devices = (0..=u8::MAX).zip(NamedDevice::parse_all(text)?);
    Ok(devices.map(|(index, device)| DeviceConfig { index, ..device.into() }).collect())
}

/// One device of that name.
#[cfg(test)]
pub fn parse(name: &str, text: &str) -> Result<DeviceConfig, ConfigError> {
    Ok(NamedDevice::parse(name, text)?.into())
}

impl From<NamedDevice> for DeviceConfig {
    fn from(device: NamedDevice) -> Self {
        Self {
            name: device.name,
            index: 0,
            source: port(device.spec),
            wire_mode: device.wire_mode,
            strict_placement: device.strict_placement,
            speed: device.speed,
        }
    }
}

/// Who comes to a memif first, and does not say which end it is, is the server.
fn port(spec: DeviceSpec) -> Source {
    let Transport::Memif { path, role: None, .. } = &spec.transport else {
        return Source::Spec(Box::new(spec));
    };
    let role = if is_served(path) { Role::Client } else { Role::Server };
    Source::EitherEnd(Box::new(spec.or_role(role)))
}

/// The client's end, if `spec` is the server's and another process has become that meanwhile.
pub fn late_end(spec: &DeviceSpec) -> Option<DeviceSpec> {
    let mut late = spec.clone();
    let Transport::Memif { path, role: role @ Some(Role::Server), .. } = &mut late.transport else {
        return None;
    };
    *role = Some(Role::Client);
    is_served(path).then_some(late)
}

fn is_served(path: &Path) -> bool {
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    listens(&sockets, &path.to_string_lossy())
}

/// Whether a socket of this path waits for connections, by the kernel's table.
fn listens(sockets: &str, path: &str) -> bool {
    /// `__SO_ACCEPTCON`, in the column of flags.
    const ACCEPTS: &str = "00010000";
    sockets.lines().any(|line| {
        let mut fields = line.split_whitespace();
        fields.nth(3) == Some(ACCEPTS) && fields.nth(3) == Some(path)
    })
}

impl DeviceConfig {
    /// A number that no other device of the process has, and none of its network; that of the first
    /// device is as `verbs_api::DeviceAttr::node_guid` is. A device that gets its port, or its end
    /// of a pair, when it opens has one of its process.
    pub fn guid(&self) -> u64 {
        let mac = match &self.source {
            Source::Spec(spec) if !matches!(spec.transport, Transport::Pool { .. }) => {
                spec.mac_or_default().ok().flatten().unwrap_or([2, 0, 0, 0, 0, 1])
            }
            Source::Spec(_) | Source::EitherEnd(_) => {
                let [a, b, c, d] = std::process::id().to_be_bytes();
                [6, 0, a, b, c, d]
            }
        };
        let [a, b, c, d, e, f] = mac;
        u64::from_be_bytes([a ^ 2, b, c, 0xFF, 0xFE ^ self.index, d, e, f])
    }

    /// The address, if it is known before the device opens.
    pub fn ip(&self) -> Option<std::net::IpAddr> {
        match &self.source {
            Source::Spec(spec) | Source::EitherEnd(spec) => spec.ip_or_default().ok(),
        }
    }
}
