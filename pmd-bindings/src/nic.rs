//! A NIC that is bound to DPDK.

use std::fs;
use std::path::Path;

use memif::FRAME_OVERHEAD;

use crate::HEADROOM;
use crate::device::Device;
use crate::eal::Eal;
use crate::error::{EalError, PortError};
use crate::ethdev::Wiring;
use crate::mempool::Mempool;
use crate::open::{BUFFERS, OpenPort};

/// A port over a NIC. Needs [`crate::EalConfig::pci`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NicConfig {
    /// The full address of the NIC on the PCI bus, such as `0000:17:00.0`.
    pub address: String,
    /// The port's address; the NIC's if `None`.
    pub mac: Option<[u8; 6]>,
    /// Longest IP packet, in bytes; 1500 if `None`.
    pub mtu: Option<u16>,
}

const MTU_DEFAULT: u16 = 1500;
/// Drivers of the kernel's that hand a NIC over to a process.
const HANDED_OVER: [&str; 3] = ["vfio-pci", "igb_uio", "uio_pci_generic"];
/// Those that share it: DPDK's driver works beside the kernel's.
const SHARED: [&str; 3] = ["mlx4_core", "mlx5_core", "mana"];

/// Least room of a buffer, in bytes, that every driver takes.
const ROOM_MIN: u16 = 2048;
/// What a driver may put before a frame: virtio its header of 12 bytes.
const BEFORE_FRAME: u16 = 32;

/// The largest room that is a power of two. No frame of ours is longer: a path MTU is 4096 at most.
const ROOM_OF_OURS: u16 = 8192;
/// What most drivers count the room of a receive buffer in.
const ROOM_STEP: u16 = 1024;

/// Room of a buffer, in bytes, in which a frame of `max_frame` lies in one piece. Drivers round the
/// room of their receive buffers down, most to a multiple of 1 KiB, that of e1000 to a power of
/// two, and spread over several what is longer. vmxnet3 takes less than 16 KiB.
fn buffer_room(max_frame: u16) -> u16 {
    let room = max_frame.saturating_add(BEFORE_FRAME).max(ROOM_MIN);
    if room <= ROOM_OF_OURS {
        return room.next_power_of_two();
    }
    room.checked_next_multiple_of(ROOM_STEP).unwrap_or(u16::MAX - HEADROOM)
}

impl NicConfig {
    /// Opens the port.
    ///
    /// # Errors
    /// [`PortError::Nic`] if it is not there or not DPDK's to use; [`EalError::Running`]; else what
    /// DPDK refused.
    pub fn open(&self, eal: &Eal) -> Result<OpenPort, PortError> {
        self.check(Path::new("/sys/bus/pci/devices"))?;
        if !eal.config().pci {
            return Err(EalError::Running { wanted: "the PCI bus" }.into());
        }
        let mtu = self.mtu.unwrap_or(MTU_DEFAULT);
        let max_frame = mtu + FRAME_OVERHEAD;
        let pool = Mempool::new(eal, BUFFERS, buffer_room(max_frame))?;
        let device = Device::Pci { address: self.address.clone(), arguments: String::new() };
        let wiring = Wiring { mtu, ..device.into() };
        OpenPort::start(eal, wiring, &pool, max_frame, self.mac)
    }

    /// Looks at what the kernel has at the address, before DPDK fails without a reason.
    fn check(&self, devices: &Path) -> Result<(), PortError> {
        let fails = |problem: String| Err(PortError::Nic { address: self.address.clone(), problem });
        let device = devices.join(&self.address);
        if !device.exists() {
            return fails("there is none; `lspci -D` lists those that there are".into());
        }
        let class = fs::read_to_string(device.join("class")).unwrap_or_default();
        if !class.starts_with("0x02") {
            return fails(format!("it is no network controller but of PCI class {}", class.trim()));
        }
        let driver = fs::read_link(device.join("driver"));
        let driver = driver.ok().and_then(|link| Some(link.file_name()?.to_str()?.to_owned()));
        let known = |name: &str| HANDED_OVER.contains(&name) || SHARED.contains(&name);
        match driver {
            Some(name) if known(&name) => Ok(()),
            other => {
                let bound = other.map_or_else(
                    || "it is bound to no driver".into(),
                    |name| format!("the kernel's driver {name} has it"),
                );
                let address = &self.address;
                fails(format!("{bound}; give it to DPDK: dpdk-devbind.py --bind=vfio-pci {address}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_frame_lies_in_one_buffer_whatever_the_driver_makes_of_its_room() {
        for (max_frame, room) in [(64, 2048), (1518, 2048), (2040, 4096), (4218, 8192), (9018, 9216)] {
            assert_eq!(buffer_room(max_frame), room, "{max_frame}");
        }
        assert_eq!(buffer_room(u16::MAX), u16::MAX - HEADROOM, "a pool has no more");
    }

    #[test]
    fn a_nic_that_is_not_ours_is_named_with_what_to_do() {
        let devices = std::env::temp_dir().join(format!("pmd-nic-{}", std::process::id()));
        let config = NicConfig { address: "0000:17:00.0".into(), mac: None, mtu: None };
        let problem = || config.check(&devices).expect_err("not ours").to_string();
        assert_eq!(problem(), "NIC 0000:17:00.0: there is none; `lspci -D` lists those that there are");
        let device = devices.join(&config.address);
        fs::create_dir_all(&device).expect("a directory");
        fs::write(device.join("class"), "0x010802\n").expect("a file");
        assert!(problem().contains("it is no network controller but of PCI class 0x010802"), "{}", problem());
        fs::write(device.join("class"), "0x020000\n").expect("a file");
        assert!(
            problem().contains("it is bound to no driver; give it to DPDK: dpdk-devbind.py --bind=vfio-pci")
        );
        for (driver, ours) in [("ixgbe", false), ("vfio-pci", true), ("mlx5_core", true)] {
            symlink(devices.join(driver), device.join("driver")).expect("a link");
            assert_eq!(config.check(&devices).is_ok(), ours, "{driver}");
            if !ours {
                assert!(problem().contains("the kernel's driver ixgbe has it; give it"), "{}", problem());
            }
            fs::remove_file(device.join("driver")).expect("ours");
        }
        fs::remove_dir_all(&devices).expect("ours");
    }
}
