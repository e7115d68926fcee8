//! The devices of this process, by what the environment says.

#[cfg(test)]
mod tests;

use core::fmt;
use verbs_api::{DeviceSpec, Role, Transport, WireMode};

/// The variable with the device: `DEVICE[; KEY=VALUE]..`.
const VARIABLE: &str = "SRNIC_DEVICE";
const SPEED_DEFAULT: u32 = 100;

/// A device that programs see.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceConfig {
    pub name: String,
    pub spec: DeviceSpec,
    /// What queue pairs of type RC speak.
    pub wire_mode: WireMode,
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

/// The devices that the environment names: none, or `srnic0`.
pub fn devices() -> Result<Vec<DeviceConfig>, ConfigError> {
    let Some(text) = std::env::var_os(VARIABLE).filter(|text| !text.is_empty()) else {
        return Ok(Vec::new());
    };
    let text = text.into_string().map_err(|_| ConfigError("it is no UTF-8".to_owned()))?;
    Ok(vec![parse("srnic0", &text)?])
}

/// One device: its string, and what else is to be known of it.
pub fn parse(name: &str, text: &str) -> Result<DeviceConfig, ConfigError> {
    let mut parts = text.split(';').map(str::trim);
    let spec: DeviceSpec =
        parts.next().unwrap_or_default().parse().map_err(|error| ConfigError(format!("{error}")))?;
    let spec = with_role(spec);
    let mut config =
        DeviceConfig { name: name.to_owned(), spec, wire_mode: WireMode::Srnic, speed: SPEED_DEFAULT };
    for part in parts.filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        match (key.trim(), value.trim()) {
            ("dialect", "srnic") => config.wire_mode = WireMode::Srnic,
            ("dialect", "plain") => config.wire_mode = WireMode::Plain,
            ("speed", value) => config.speed = speed(value)?,
            (key, value) => {
                return Err(ConfigError(format!(
                    "`{key}={value}`: behind the device there may be dialect=srnic, dialect=plain, and speed=GIGABITS"
                )));
            }
        }
    }
    Ok(config)
}

fn speed(value: &str) -> Result<u32, ConfigError> {
    let speed = value.parse().ok().filter(|speed| (1..=1600).contains(speed));
    speed.ok_or_else(|| ConfigError(format!("`speed={value}`: it is in gigabits a second, 1 to 1600")))
}

/// Who comes to a memif first, and does not say which end it is, is the server.
fn with_role(spec: DeviceSpec) -> DeviceSpec {
    let Transport::Memif { path, role: None, .. } = &spec.transport else { return spec };
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let role = if listens(&sockets, &path.to_string_lossy()) { Role::Client } else { Role::Server };
    spec.or_role(role)
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
