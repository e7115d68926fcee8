//! A port whose frames are made at the start and change hands ever after: it allocates nothing.

use datapath::port::{Port, PortCaps, PortStats, RX_BURST};
use std::collections::VecDeque;

/// A frame and its length.
struct Frame {
    bytes: Box<[u8]>,
    len: usize,
}

/// One end of a cable; [`carry`] moves what was sent to the other.
pub struct MemoryPort {
    mac: [u8; 6],
    max_frame: usize,
    free: Vec<Frame>,
    arriving: VecDeque<Frame>,
    sent: VecDeque<Frame>,
    burst: usize,
    /// Frames of a receive burst at most.
    pub limit: usize,
    /// Frames that may be sent until the next flush: a transmit ring of that size.
    pub ring: usize,
    room: usize,
    /// Called once, at the next flush.
    pub at_flush: Option<Box<dyn FnOnce()>>,
}

impl MemoryPort {
    /// With `frames` frames of at most `max_frame` bytes.
    pub fn new(host: u8, frames: usize, max_frame: usize) -> Self {
        let frame = || Frame { bytes: vec![0; max_frame].into(), len: 0 };
        Self {
            mac: [2, 0, 0, 0, 0, host],
            max_frame,
            free: (0..frames).map(|_| frame()).collect(),
            arriving: VecDeque::with_capacity(frames),
            sent: VecDeque::with_capacity(frames),
            burst: 0,
            limit: RX_BURST,
            ring: usize::MAX,
            room: usize::MAX,
            at_flush: None,
        }
    }

    /// A frame from somebody else arrives.
    pub fn inject(&mut self, bytes: &[u8]) {
        let mut frame = self.free.pop().expect("a free frame");
        frame.bytes[..bytes.len()].copy_from_slice(bytes);
        frame.len = bytes.len();
        self.arriving.push_back(frame);
    }

    /// The frames sent and not carried away yet.
    pub fn sent(&self) -> impl Iterator<Item = &[u8]> {
        self.sent.iter().map(|frame| &frame.bytes[..frame.len])
    }
}

/// Moves all frames that `from` sent to `to`, except those that `drops` names. Returns how many
/// arrived.
pub fn carry(from: &mut MemoryPort, to: &mut MemoryPort, drops: &mut dyn FnMut(&[u8]) -> bool) -> usize {
    let mut carried = 0;
    while let Some(frame) = from.sent.pop_front() {
        match to.free.pop() {
            Some(spare) if !drops(&frame.bytes[..frame.len]) => {
                to.arriving.push_back(frame);
                from.free.push(spare);
                carried += 1;
            }
            spare => {
                to.free.extend(spare);
                from.free.push(frame);
            }
        }
    }
    carried
}

impl Port for MemoryPort {
    fn caps(&self) -> PortCaps {
        PortCaps { mac: self.mac, max_frame: self.max_frame }
    }

    fn link_up(&self) -> bool {
        true
    }

    fn rx_limit(&self) -> usize {
        self.limit
    }

    fn rx_burst(&mut self) -> usize {
        self.burst = self.arriving.len().min(self.limit);
        self.burst
    }

    fn rx_frame(&self, index: usize) -> &[u8] {
        let frame = &self.arriving[index];
        &frame.bytes[..frame.len]
    }

    #[inline]
    fn rx_release(&mut self) {
        self.free.extend(self.arriving.drain(..self.burst));
    }

    fn tx_slot(&mut self) -> Option<&mut [u8]> {
        if self.room == 0 {
            return None;
        }
        self.free.last_mut().map(|frame| &mut *frame.bytes)
    }

    fn tx_commit(&mut self, len: usize) {
        let mut frame = self.free.pop().expect("a slot is lent");
        frame.len = len;
        self.room -= 1;
        self.sent.push_back(frame);
    }

    fn tx_cancel(&mut self) {}

    fn tx_flush(&mut self) {
        self.room = self.ring;
        if let Some(at_flush) = self.at_flush.take() {
            at_flush();
        }
    }

    fn stats(&self) -> PortStats {
        PortStats::default()
    }
}
