//! What to attach: a driver of DPDK's and its arguments.

use std::sync::atomic::{AtomicU32, Ordering};

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

    pub(crate) fn bus(&self) -> &'static std::ffi::CStr {
        match self {
            Self::Virtual { .. } => c"vdev",
            Self::Pci { .. } => c"pci",
        }
    }

    pub(crate) fn arguments(&self) -> &str {
        match self {
            Self::Virtual { arguments, .. } | Self::Pci { arguments, .. } => arguments,
        }
    }

    /// A name that no other device of the process has, or had: a driver that fails half-way may keep its name.
    pub(crate) fn new_name(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        match self {
            Self::Virtual { driver, .. } => format!("{driver}{}", NEXT.fetch_add(1, Ordering::Relaxed)),
            Self::Pci { address, .. } => address.clone(),
        }
    }

    /// Whether the driver changes rings in EAL's interrupt thread without waiting for who uses them.
    pub(crate) fn needs_quiescence(&self) -> bool {
        matches!(self, Self::Virtual { driver, .. } if driver == "net_memif")
    }
}
