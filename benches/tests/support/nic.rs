//! A device whose packet buffers are counted.

use datapath::port::dpdk::DpdkPort;
use dpdk_sys::Mempool;
use verbs_api::{Device, DeviceSpec, EngineConfig, PortDriver, Transport};

/// Buffers that an idle port may hold: those that it has taken in advance.
pub const HELD: u32 = 128;

/// An open device, and the buffers that it must give back.
pub struct Nic {
    pub device: Device,
    /// Where a port that lends buffers of its peer's or the kernel's has none.
    pool: Option<Mempool>,
}

impl Nic {
    /// Opens what a device string with an address names.
    pub fn open(text: &str) -> Self {
        let spec: DeviceSpec = text.parse().expect("a device string");
        let lends = PortDriver::Native;
        if matches!(
            &spec.transport,
            Transport::Memif { driver, .. } | Transport::AfPacket { driver, .. } if *driver == lends
        ) {
            return Self { device: Device::builder().open_spec(&spec).expect("a device"), pool: None };
        }
        let port = verbs_api::open_port(&spec).expect("a port");
        let pool = port.eth.pool().clone();
        let ip = spec.ip.expect("an address");
        let config =
            EngineConfig { ip, seed: u64::from(std::process::id()).into(), ..EngineConfig::default() };
        let device = Device::from_port(DpdkPort::over(port), config).expect("a device");
        Self { device, pool: Some(pool) }
    }

    /// Packet buffers that are out.
    pub fn held(&self) -> u32 {
        self.pool.as_ref().map_or(0, Mempool::in_use)
    }

    /// Closes the device; every buffer must be back.
    pub fn close(self) {
        let Self { device, pool } = self;
        drop(device);
        assert_eq!(pool.map_or(0, |pool| pool.in_use()), 0, "packet buffers leaked");
    }
}
