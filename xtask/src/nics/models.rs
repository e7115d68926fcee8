//! The NICs that QEMU has, and the drivers of the kernel's that hand them to DPDK.

use std::process::Command;

use super::checks::At;
use crate::error::Result;
use crate::repo::output;

/// A model of QEMU's.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// What the table calls it: the driver of DPDK's is named after it.
    pub name: &'static str,
    /// QEMU's device.
    pub device: &'static str,
    /// Its options.
    options: &'static str,
    /// Those with which it goes through an IOMMU.
    behind_iommu: &'static str,
    /// Longest IP packet that it takes, in bytes.
    pub mtu_max: u16,
}

/// All of them.
pub const MODELS: [Model; 4] = [
    Model {
        name: "virtio-net",
        device: "virtio-net-pci",
        options: ",host_mtu=9000",
        behind_iommu: ",iommu_platform=on",
        mtu_max: 9000,
    },
    Model { name: "e1000e", device: "e1000e", options: "", behind_iommu: "", mtu_max: 9216 },
    Model { name: "igb", device: "igb", options: "", behind_iommu: "", mtu_max: 9216 },
    Model { name: "vmxnet3", device: "vmxnet3", options: "", behind_iommu: "", mtu_max: 9000 },
];

/// How a guest hands its NICs to DPDK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handover {
    /// `uio_pci_generic`: the NIC reads and writes physical memory, in huge pages.
    Uio,
    /// `vfio-pci` behind an IOMMU: the NIC reaches what it is given, in ordinary pages, too.
    Vfio,
}

impl Handover {
    pub const ALL: [Self; 2] = [Self::Uio, Self::Vfio];

    /// The driver of the kernel's.
    pub const fn driver(self) -> &'static str {
        match self {
            Self::Uio => "uio_pci_generic",
            Self::Vfio => "vfio-pci",
        }
    }

    /// What the guest's machine has for it.
    pub const fn machine(self) -> &'static [&'static str] {
        match self {
            Self::Uio => &[],
            Self::Vfio => &["-device", "intel-iommu"],
        }
    }

    /// What its kernel is told.
    pub const fn append(self) -> &'static str {
        match self {
            Self::Uio => "hugepages=160",
            Self::Vfio => "intel_iommu=on hugepages=160",
        }
    }

    /// What a device string says of memory. The guest has 320 MB of huge pages. Emulated e1000e and
    /// vmxnet3 lose frames that are longer than a page if it is an ordinary one behind an IOMMU.
    pub const fn memory(self, at: At) -> &'static str {
        match (self, at) {
            (Self::Vfio, At::Ethernet) => "hugepages=off,memory=256",
            _ => "hugepages=on,memory=256",
        }
    }
}

impl Model {
    /// What QEMU is told of it.
    pub fn arguments(&self, handover: Handover) -> String {
        let more = if handover == Handover::Vfio { self.behind_iommu } else { "" };
        format!("{}{}{more}", self.device, self.options)
    }
}

/// The devices that this QEMU has.
pub fn available() -> Result<String> {
    output(Command::new("qemu-system-x86_64").args(["-device", "help"]))
}
