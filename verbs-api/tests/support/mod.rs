//! Two devices on one wire, inside the process.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use verbs_api::{Device, Driver, EngineConfig, Port, PortStats, SlowPath};

use datapath::port::fault::{Fault, FaultConfig};
use datapath::port::{PortCaps, RX_BURST, RxFrame};

type Frames = Arc<Mutex<VecDeque<Vec<u8>>>>;

/// Longest frame: a path MTU of 1024 with all headers fits, one of 2048 does not.
pub const MAX_FRAME: usize = 1200;

/// One end of a wire that keeps every frame.
pub struct WirePort {
    mac: [u8; 6],
    to_peer: Frames,
    from_peer: Frames,
    burst: Vec<Vec<u8>>,
    slot: Vec<u8>,
    stats: PortStats,
}

impl Port for WirePort {
    fn caps(&self) -> PortCaps {
        PortCaps { mac: self.mac, max_frame: MAX_FRAME }
    }

    fn link_up(&self) -> bool {
        true
    }

    fn rx_burst(&mut self) -> usize {
        let mut frames = self.from_peer.lock().unwrap_or_else(PoisonError::into_inner);
        let count = frames.len().min(RX_BURST);
        self.burst.extend(frames.drain(..count));
        self.stats.rx_frames += count as u64;
        count
    }

    fn rx_frame(&self, index: usize) -> RxFrame<'_> {
        RxFrame::new(&self.burst[index])
    }

    fn rx_release(&mut self) {
        self.burst.clear();
    }

    fn tx_slot(&mut self) -> Option<&mut [u8]> {
        self.slot.resize(MAX_FRAME, 0);
        Some(&mut self.slot)
    }

    fn tx_commit(&mut self, len: usize) {
        self.stats.tx_frames += 1;
        let frame = self.slot[..len].to_vec();
        self.to_peer.lock().unwrap_or_else(PoisonError::into_inner).push_back(frame);
    }

    fn tx_cancel(&mut self) {}

    fn tx_flush(&mut self) {}

    fn stats(&self) -> PortStats {
        self.stats
    }
}

/// Two devices, 10.77.0.1 and 10.77.0.2; the second one's port has these faults.
pub fn devices(driver: Driver, faults: &str) -> (Device, Device) {
    let (there, back) = (Frames::default(), Frames::default());
    let port = |host, to_peer: &Frames, from_peer: &Frames| WirePort {
        mac: [2, 0, 0, 0, 0, host],
        to_peer: Arc::clone(to_peer),
        from_peer: Arc::clone(from_peer),
        burst: Vec::new(),
        slot: Vec::new(),
        stats: PortStats::default(),
    };
    let faults: FaultConfig = faults.parse().expect("faults");
    // Threads all the way, or none.
    let slow_path = if driver == Driver::Inline { SlowPath::Stepped } else { SlowPath::Thread };
    let builder = Device::builder().driver(driver).slow_path(slow_path);
    let one = builder.from_port(port(1, &there, &back), config(1));
    let two = builder.from_port(Fault::new(port(2, &back, &there), &faults), config(2));
    (one.expect("a device"), two.expect("a device"))
}

/// Sizes of device number `host`.
pub fn config(host: u8) -> EngineConfig {
    EngineConfig { ip: [10, 77, 0, host].into(), seed: u64::from(host).into(), ..EngineConfig::default() }
}
