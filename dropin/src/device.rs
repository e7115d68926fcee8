//! The list of devices. Nothing is opened for it.

use crate::abi;
use crate::argument::{Handle, Out};
use crate::config::{self, DeviceConfig};
use crate::errno::{Errno, Result};
use crate::object::{Object, Shell};
use crate::paths::{self, Node};
use core::ffi::{CStr, c_char, c_int};
use core::ptr::null_mut;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A device that may be opened.
#[repr(C)]
pub struct Device {
    c: Shell<abi::Device>,
    config: DeviceConfig,
}

// SAFETY: the structure is its first field; the rest never changes.
unsafe impl Object for Device {
    type C = abi::Device;

    /// It is as long as the process, and programs have none but those that are listed.
    unsafe fn is_alive(c: *mut abi::Device) -> bool {
        known().iter().chain(others()).any(|device| device.address() == c)
    }
}

impl Device {
    pub fn new(config: DeviceConfig, index: usize) -> Self {
        let c = abi::Device {
            ops: [null_mut(); 2],
            node_type: abi::NODE_CA,
            transport_type: abi::TRANSPORT_IB,
            name: chars(&config.name),
            dev_name: chars(&format!("uverbs{index}")),
            dev_path: chars(&format!("/sys/class/infiniband_verbs/uverbs{index}")),
            ibdev_path: chars(&format!("/sys/class/infiniband/{}", config.name)),
        };
        Self { c: Shell::new(c), config }
    }

    pub const fn config(&self) -> &DeviceConfig {
        &self.config
    }
}

/// A string in an array that ends with a zero.
pub fn chars<const N: usize>(text: &str) -> [c_char; N] {
    let mut chars = [0; N];
    for (to, from) in chars[..N - 1].iter_mut().zip(text.bytes()) {
        *to = from.cast_signed();
    }
    chars
}

/// The devices of this process, which are made once: programs compare their addresses, and keep
/// those of devices that they have opened.
pub fn known() -> &'static [Device] {
    static KNOWN: std::sync::OnceLock<Vec<Device>> = std::sync::OnceLock::new();
    KNOWN.get_or_init(|| {
        let configs = config::devices().unwrap_or_else(|error| {
            eprintln!("srnic: {error}");
            Vec::new()
        });
        configs.into_iter().enumerate().map(|(index, config)| Device::new(config, index)).collect()
    })
}

/// Devices that are opened without being listed: only tests have such.
#[cfg(not(test))]
const fn others() -> [&'static Device; 0] {
    []
}

#[cfg(test)]
pub use registered::{others, register};

#[cfg(test)]
mod registered {
    use super::Device;
    use crate::config;
    use std::sync::{Mutex, PoisonError};

    static REGISTERED: Mutex<Vec<&Device>> = Mutex::new(Vec::new());

    pub fn others() -> Vec<&'static Device> {
        REGISTERED.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A device as long as the process, by its string.
    pub fn register(text: &str) -> &'static Device {
        let config = config::parse("srnic0", text).expect("a device");
        let device = Box::leak(Box::new(Device::new(config, 0)));
        REGISTERED.lock().unwrap_or_else(PoisonError::into_inner).push(device);
        device
    }
}

/// What the devices of this process are.
pub fn configs() -> impl Iterator<Item = &'static DeviceConfig> {
    known().iter().map(Device::config)
}

/// What a file of sysfs says.
fn sysfs(directory: &CStr, file: &CStr) -> Result<String> {
    let path = Path::new(OsStr::from_bytes(directory.to_bytes())).join(OsStr::from_bytes(file.to_bytes()));
    match paths::find(path.to_str().ok_or(Errno::NO_ENTRY)?)? {
        Node::Text(text) => Ok(text),
        Node::Directory(_) | Node::Character(_) | Node::ConnectionManager => Err(Errno(libc::EISDIR)),
    }
}

exports! {
    fn ibv_get_device_list(count: Option<Out<c_int>>) -> *mut *mut abi::Device = pointer {
        let known = known();
        if let Some(count) = count {
            count.set(c_int::try_from(known.len()).unwrap_or(c_int::MAX));
        }
        let list: Vec<_> = known.iter().map(Object::address).chain([null_mut()]).collect();
        Ok(Box::into_raw(list.into_boxed_slice()).cast())
    }

    fn ibv_free_device_list(list: Handle<*mut abi::Device>) -> () = nothing {
        if !list.0.is_null() {
            let list = core::ptr::slice_from_raw_parts_mut(list.0, known().len() + 1);
            // SAFETY: it was made by `ibv_get_device_list`, always of this length.
            drop(unsafe { Box::from_raw(list) });
        }
        Ok(())
    }

    fn ibv_get_device_name(device: &Device) -> *const c_char = chars_of {
        // SAFETY: the name was written when the device was made.
        Ok(unsafe { (&raw const (*device.c.get()).name).cast() })
    }

    fn ibv_get_device_index(device: &Device) -> c_int = count {
        // As on a kernel that has no such numbers.
        let _ = device;
        Err(Errno::NOT_SUPPORTED)
    }

    fn ibv_get_device_guid(device: &Device) -> u64 = value {
        Ok(device.config.guid().to_be())
    }

    fn ibv_get_sysfs_path() -> *const c_char = text {
        Ok(c"/sys")
    }


    fn ibv_read_sysfs_file(directory: &CStr, file: &CStr, buffer: Out<u8>, size: usize) -> c_int = count {
        let text = sysfs(directory, file)?;
        // Without the end of its line, and with a zero.
        let text = text.trim_end();
        if size <= text.len() {
            return Err(Errno::INVALID);
        }
        for (index, byte) in text.bytes().chain([0]).enumerate() {
            buffer.at(index).set(byte);
        }
        Ok(c_int::try_from(text.len()).unwrap_or(0))
    }

    fn ibv_read_ibdev_sysfs_file(_buffer: Handle<c_char>, _size: usize, _device: Handle<abi::Device>) -> c_int = count {
        Err(Errno::NO_ENTRY)
    }
}
