//! Devices to attach: a driver of DPDK and its arguments.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::PortError;
use crate::ffi;

/// Bytes of `bus:name,arguments` at most. DPDK refuses more from 24.11 on.
pub(crate) const LONGEST: usize = 127;
/// Digits of the number in a device's name, for 10,000 devices.
const DIGITS: usize = 4;

/// A device, as DPDK's hotplug takes it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Device {
    /// A virtual device: made by its driver, with the driver's own arguments.
    Virtual {
        /// The driver: `net_memif`, `net_virtio_user`, `net_af_packet`, `net_null`, ..
        driver: String,
        /// `key=value,..`, without the name.
        arguments: String,
    },
    /// A NIC that is bound to DPDK. Needs [`crate::EalConfig::pci`].
    Pci {
        /// `0000:17:00.0`.
        address: String,
        /// `key=value,..` for its driver.
        arguments: String,
    },
}

impl Device {
    /// A virtual device.
    #[must_use]
    pub fn virtual_device(driver: &str, arguments: &str) -> Self {
        Self::Virtual { driver: driver.into(), arguments: arguments.into() }
    }

    /// Bytes that are left for more arguments of a device whose name begins with `prefix`.
    pub(crate) fn room(&self, prefix: &str) -> usize {
        LONGEST.saturating_sub(self.length(prefix) + DIGITS)
    }

    /// Bytes of the device as DPDK joins it: `bus:name,arguments`.
    pub(crate) fn length(&self, name: &str) -> usize {
        self.bus().count_bytes() + 1 + name.len() + 1 + self.arguments().len()
    }

    pub(crate) fn bus(&self) -> &'static std::ffi::CStr {
        match self {
            Self::Virtual { .. } => c"vdev",
            Self::Pci { .. } => c"pci",
        }
    }

    /// The driver of a virtual device, the address of a NIC.
    pub(crate) fn driver(&self) -> &str {
        match self {
            Self::Virtual { driver, .. } => driver,
            Self::Pci { address, .. } => address,
        }
    }

    pub(crate) fn arguments(&self) -> &str {
        match self {
            Self::Virtual { arguments, .. } | Self::Pci { arguments, .. } => arguments,
        }
    }

    /// A name that begins with `prefix` and that no other device of the process has, or had: a
    /// driver that fails half-way may keep its name. A NIC has but one.
    pub(crate) fn new_name(&self, prefix: &str) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        match self {
            Self::Virtual { .. } => format!("{prefix}{}", NEXT.fetch_add(1, Ordering::Relaxed)),
            Self::Pci { address, .. } => address.clone(),
        }
    }

    /// Returns `true` if the driver changes rings or frees devices in EAL's interrupt thread
    /// without waiting for who uses them.
    pub(crate) fn needs_quiescence(&self) -> bool {
        matches!(self.driver(), "net_memif" | "net_virtio_user")
    }

    /// The error for a driver that `log` says DPDK does not have.
    pub(crate) fn missing_driver(&self, log: &str) -> Option<PortError> {
        let Self::Virtual { driver, .. } = self else { return None };
        let missing = log.contains("failed to parse device") || log.contains("no driver found");
        missing.then(|| PortError::NoDriver { driver: driver.clone(), package: package(driver) })
    }
}

/// The Debian package of a driver: named after the ABI, which counts up with each year's long-term
/// release.
fn package(driver: &str) -> String {
    // SAFETY: a constant, terminated string.
    let version = unsafe { std::ffi::CStr::from_ptr(ffi::pmd_version()) }.to_string_lossy();
    let year: Option<u32> = version.split([' ', '.']).find_map(|part| part.parse().ok());
    let family = match driver {
        "net_virtio_user" => "net_virtio",
        other => other,
    };
    format!(
        "librte-{}{}",
        family.replace('_', "-"),
        year.map_or_else(String::new, |year| (year + 1).to_string())
    )
}
