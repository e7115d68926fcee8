//! A port in memory, for the tests of the ports that wrap one.

use super::{Port, PortCaps, PortStats, RX_BURST, RxFrame};
use crate::time::Time;
use std::collections::VecDeque;

/// Gives out the frames of `arriving`, puts what is sent into `wire`. Checks how it is used.
#[derive(Debug)]
pub struct TestPort {
    /// Frames to receive.
    pub arriving: VecDeque<Vec<u8>>,
    /// Frames sent and flushed.
    pub wire: Vec<Vec<u8>>,
    /// Slots of the transmit ring; 0: always full.
    pub ring: usize,
    /// Frames of a receive burst at most.
    pub limit: usize,
    /// What `set_now` said last.
    pub now: Time,
    max_frame: usize,
    burst: Vec<Vec<u8>>,
    slot: Option<Vec<u8>>,
    queued: Vec<Vec<u8>>,
    stats: PortStats,
}

impl TestPort {
    pub fn new(max_frame: usize) -> Self {
        Self {
            arriving: VecDeque::new(),
            wire: Vec::new(),
            ring: usize::MAX,
            limit: RX_BURST,
            now: Time::ZERO,
            max_frame,
            burst: Vec::new(),
            slot: None,
            queued: Vec::new(),
            stats: PortStats::default(),
        }
    }
}

impl Port for TestPort {
    fn caps(&self) -> PortCaps {
        PortCaps { mac: [2, 0, 0, 0, 0, 1], max_frame: self.max_frame }
    }

    fn link_up(&self) -> bool {
        true
    }

    fn rx_limit(&self) -> usize {
        self.limit
    }

    fn rx_burst(&mut self) -> usize {
        assert!(self.burst.is_empty(), "the burst before was not released");
        let count = self.arriving.len().min(self.limit);
        self.burst.extend(self.arriving.drain(..count));
        self.stats.rx_frames += count as u64;
        self.stats.rx_bytes += self.burst.iter().map(|frame| frame.len() as u64).sum::<u64>();
        count
    }

    fn rx_frame(&self, index: usize) -> RxFrame<'_> {
        RxFrame::new(&self.burst[index])
    }

    fn rx_release(&mut self) {
        self.burst.clear();
    }

    fn tx_slot(&mut self) -> Option<&mut [u8]> {
        if self.queued.len() >= self.ring {
            return None;
        }
        Some(self.slot.insert(vec![0xEE; self.max_frame]))
    }

    fn tx_commit(&mut self, len: usize) {
        let mut frame = self.slot.take().expect("a slot is lent");
        assert!(len <= frame.len());
        frame.truncate(len);
        self.stats.tx_frames += 1;
        self.stats.tx_bytes += len as u64;
        self.queued.push(frame);
    }

    fn tx_cancel(&mut self) {
        self.slot = None;
    }

    fn tx_flush(&mut self) {
        self.wire.append(&mut self.queued);
    }

    fn set_now(&mut self, now: Time) {
        self.now = now;
    }

    fn stats(&self) -> PortStats {
        self.stats
    }
}

/// Sends one frame; false if the port is full.
pub fn send<P: Port>(port: &mut P, frame: &[u8]) -> bool {
    let Some(slot) = port.tx_slot() else { return false };
    slot[..frame.len()].copy_from_slice(frame);
    port.tx_commit(frame.len());
    true
}

/// Receives one burst.
pub fn receive<P: Port>(port: &mut P) -> Vec<Vec<u8>> {
    let frames = (0..port.rx_burst()).map(|index| port.rx_frame(index).bytes().to_vec()).collect();
    port.rx_release();
    frames
}
