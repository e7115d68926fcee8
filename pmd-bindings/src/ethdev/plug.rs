//! A device in DPDK's hands, from hotplug to removal.

use std::ffi::{CString, c_char};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{EthCapabilities, Wiring};
use crate::device::{Device, LONGEST};
use crate::error::{PortError, check};
use crate::ffi;
use crate::gate::Pass;
use crate::log::{self, Caught};
use crate::mempool::Mempool;
use crate::open::check_range;
use crate::quiescent::Quiescent;
use crate::removal::Removal;

/// Descriptors of each ring, where the driver lets us choose.
const DESCRIPTORS: u16 = 1024;

/// Attaching and removing is for one thread at a time.
static CONTROL: Mutex<()> = Mutex::new(());

/// Holds off other threads that attach or remove, and EAL's interrupt thread where that matters.
struct ControlGuard {
    _pass: Option<Pass<'static>>,
    _lock: MutexGuard<'static, ()>,
}

impl ControlGuard {
    fn enter(quiescent: Option<&'static Quiescent>) -> Self {
        let lock = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
        Self { _pass: quiescent.map(Quiescent::pass_control), _lock: lock }
    }
}

/// An attached and configured port, stopped at first; removed when dropped, started or not.
#[derive(Debug)]
pub(super) struct Plug {
    id: u16,
    name: CString,
    bus: &'static std::ffi::CStr,
    quiescent: Option<&'static Quiescent>,
    removal: Option<Removal>,
}

impl Plug {
    pub(super) fn new(
        wiring: &Wiring,
        pool: &Mempool,
        quiescent: Option<&'static Quiescent>,
    ) -> Result<Self, PortError> {
        let device = &wiring.device;
        let as_c = |text: &str| CString::new(text).map_err(|_| PortError::Name(text.into()));
        let name = device.new_name(&wiring.prefix);
        let length = device.length(&name) as u64;
        check_range("the length of the device with its arguments", length, 1, LONGEST as u64)?;
        let name = as_c(&name)?;
        let arguments = as_c(device.arguments())?;
        let control = ControlGuard::enter(quiescent);
        let mut log = Caught::new();
        // SAFETY: EAL runs, or there were no pool; the strings are terminated and DPDK copies them;
        // the log is writable.
        let ret = log::with_errors(|| unsafe {
            ffi::pmd_attach(device.bus().as_ptr(), name.as_ptr(), arguments.as_ptr(), log.target())
        });
        let refused = |errno, log: String| match device.missing_driver(&log) {
            Some(missing) => missing,
            None => PortError::Attach {
                device: format!("{},{}", name.to_string_lossy(), device.arguments()),
                errno,
                hint: hint(device, &log),
                log,
            },
        };
        check(ret).map_err(|errno| refused(errno, log.text()))?;
        let mut id = 0;
        // SAFETY: as above, and `id` is writable.
        let found = check(unsafe { ffi::rte_eth_dev_get_port_by_name(name.as_ptr(), &raw mut id) });
        // From here on dropping the plug removes the device.
        let removal = matches!(device, Device::Pci { .. }).then(|| Removal::watch(&name));
        let plug = Self { id, name: name.clone(), bus: device.bus(), quiescent, removal };
        let configured = found.map_err(|errno| refused(errno, log.text())).and_then(|_| {
            check_mtu(device, id, wiring.mtu)?;
            let (queues, descriptors, mtu) = (wiring.queues.into(), DESCRIPTORS, wiring.mtu);
            // SAFETY: a port that was just made and is not started; who has the plug keeps its
            // pool.
            check(log::with_errors(|| unsafe {
                ffi::pmd_port_configure(id, queues, descriptors, descriptors, mtu, pool.raw(), log.target())
            }))
            .map_err(|errno| refused(errno, log.text()))
        });
        drop(control);
        configured.map(|_| plug)
    }

    /// Of a NIC: whether it is still there.
    pub(super) fn removal(&self) -> Option<&Removal> {
        self.removal.as_ref()
    }

    pub(super) fn id(&self) -> u16 {
        self.id
    }

    pub(super) fn name(&self) -> &str {
        self.name.to_str().unwrap_or_default()
    }
}

impl Drop for Plug {
    fn drop(&mut self) {
        let _control = ControlGuard::enter(self.quiescent);
        // SAFETY: the device was attached under this name; nobody else is in its driver. Removing
        // closes the port.
        unsafe {
            ffi::rte_eal_hotplug_remove(self.bus.as_ptr(), self.name.as_ptr().cast::<c_char>());
        }
    }
}

/// A NIC takes MTUs of some range only, and DPDK refuses another without a reason.
fn check_mtu(device: &Device, id: u16, mtu: u16) -> Result<(), PortError> {
    let Device::Pci { address, .. } = device else { return Ok(()) };
    let operation = "read the capabilities";
    let can = EthCapabilities::of(id).map_err(|errno| PortError::Operation {
        port: address.clone(),
        operation,
        errno,
    })?;
    check_range("mtu of the NIC", mtu.into(), (*can.mtu.start()).into(), (*can.mtu.end()).into())
}

fn hint(device: &Device, log: &str) -> &'static str {
    match device {
        _ if log.contains("Operation not permitted") || log.contains("Permission denied") => {
            "This user may not: run as root, or see docs/ports.md for the capabilities that it needs"
        }
        _ if log.contains("maximum number of Ethernet ports") => {
            "DPDK has no room for more devices in one process: open further ones in another process, and memif devices without \
             driver=dpdk, which need no DPDK"
        }
        // The driver makes its number of a packet socket's group from the process and the
        // interface.
        _ if log.contains("could not set PACKET_FANOUT") => {
            "Another process in this network namespace happens to have a packet socket of the same number: try again, \
             as another process"
        }
        _ if log.contains("Expecting 'PA' IOVA mode") => {
            "This NIC has no IOMMU and reaches huge pages only: reserve as many as memory= says (512 MB: sysctl \
             vm.nr_hugepages=256), or say less; on a machine with an IOMMU bind it to vfio-pci instead"
        }
        Device::Virtual { .. } => "The driver refused its arguments",
        Device::Pci { .. } => "Is it bound to vfio-pci, and may this user open its /dev/vfio group?",
    }
}
