//! A device whose packet buffers are counted.

use datapath::port::dpdk::DpdkPort;
use dpdk_sys::Mempool;
use verbs_api::{Device, DeviceSpec, EngineConfig};

/// Buffers that an idle port may hold: those that it has taken in advance.
pub const HELD: u32 = 128;

/// An open device, and the buffers that it must give back.
pub struct Nic {
    pub device: Device,
    pub pool: Mempool,
}

impl Nic {
    /// Opens what a device string with an address names.
    pub fn open(text: &str) -> Self {
        let spec: DeviceSpec = text.parse().expect("a device string");
        let port = verbs_api::open_port(&spec).expect("a port");
        let pool = port.eth.pool().clone();
        let ip = spec.ip.expect("an address");
        let config = EngineConfig { ip, seed: std::process::id().into(), ..EngineConfig::default() };
        let device = Device::from_port(DpdkPort::over(port), config).expect("a device");
        Self { device, pool }
    }

    /// Closes the device; every buffer must be back.
    pub fn close(self) {
        let Self { device, pool } = self;
        drop(device);
        assert_eq!(pool.in_use(), 0, "packet buffers leaked");
    }
}
