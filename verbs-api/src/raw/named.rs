//! Devices as programs of libibverbs see them, by the text that `srnic run` and the drop-in library
//! are given.

#[cfg(test)]
mod tests;

use crate::spec::{DeviceSpec, SpecError};
use wire::WireMode;

/// What a device is called that has no name.
const NAME_DEFAULT: &str = "srnic0";
const SPEED_DEFAULT: u32 = 100;
/// Bytes of a name: programs have room for 64, and a zero.
const NAME_MAX: usize = 63;

/// A device that programs see: `DEVICE[; KEY=VALUE]..`, with or without `NAME =` before it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct NamedDevice {
    /// What programs know it by.
    pub name: String,
    /// Its port.
    pub spec: DeviceSpec,
    /// What queue pairs of type RC speak.
    pub wire_mode: WireMode,
    /// They place requests strictly in the order of sending, also where packets are lost.
    pub strict_placement: bool,
    /// Gigabits a second that the port is said to have.
    pub speed: u32,
}

/// Why such a text makes no sense.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NamedDeviceError {
    /// The device itself.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// What is behind it.
    #[error(
        "`{key}={value}`: behind the device there may be dialect=srnic, dialect=plain, order=free, order=strict, and speed=GIGABITS"
    )]
    Key {
        /// What stands before `=`.
        key: String,
        /// What stands behind it.
        value: String,
    },
    /// It is said twice, and once would do.
    #[error("`{key}=` is said twice behind the device")]
    Again {
        /// What stands before `=`.
        key: String,
    },
    /// No speed.
    #[error("`speed={value}`: it is in gigabits a second, 1 to 1600")]
    Speed {
        /// What stands in its place.
        value: String,
    },
    /// Two devices with one name.
    #[error("two devices are called {name}: say NAME = DEVICE, each on a line of its own")]
    Twice {
        /// That name.
        name: String,
    },
}

impl NamedDevice {
    /// One device, or several that have names, each on a line of its own; empty lines are none.
    ///
    /// # Errors
    /// What makes no sense.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, NamedDeviceError> {
        let mut devices: Vec<Self> = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (name, device) = named(line).unwrap_or((NAME_DEFAULT, line));
            if devices.iter().any(|known| known.name == name) {
                return Err(NamedDeviceError::Twice { name: name.to_owned() });
            }
            devices.push(Self::parse(name, device)?);
        }
        Ok(devices)
    }

    /// One device: its string, and what else is to be known of it.
    ///
    /// # Errors
    /// What makes no sense.
    pub fn parse(name: &str, text: &str) -> Result<Self, NamedDeviceError> {
        let mut parts = text.split(';').map(str::trim);
        let spec = parts.next().unwrap_or_default().parse()?;
        let mut device = Self {
            name: name.to_owned(),
            spec,
            wire_mode: WireMode::Srnic,
            strict_placement: false,
            speed: SPEED_DEFAULT,
        };
        let mut said: Vec<&str> = Vec::new();
        for part in parts.filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let key = key.trim_end();
            device.set(key, value.trim_start())?;
            if said.contains(&key) {
                return Err(NamedDeviceError::Again { key: key.to_owned() });
            }
            said.push(key);
        }
        Ok(device)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), NamedDeviceError> {
        match (key, value) {
            ("dialect", "srnic") => self.wire_mode = WireMode::Srnic,
            ("dialect", "plain") => self.wire_mode = WireMode::Plain,
            ("order", "free") => self.strict_placement = false,
            ("order", "strict") => self.strict_placement = true,
            ("speed", value) => self.speed = speed(value)?,
            (key, value) => {
                return Err(NamedDeviceError::Key { key: key.to_owned(), value: value.to_owned() });
            }
        }
        Ok(())
    }
}

/// A name and what follows it; no device begins like that.
fn named(line: &str) -> Option<(&str, &str)> {
    let (name, device) = line.split_once('=')?;
    let name = name.trim_end();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let fits = !name.is_empty() && name.len() <= NAME_MAX && name.chars().all(is_name);
    fits.then_some((name, device.trim_start()))
}

fn speed(value: &str) -> Result<u32, NamedDeviceError> {
    let speed = value.parse().ok().filter(|speed| (1..=1600).contains(speed));
    speed.ok_or_else(|| NamedDeviceError::Speed { value: value.to_owned() })
}
