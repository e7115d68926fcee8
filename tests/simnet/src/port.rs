//! The port that an engine sees: one end of the network.

use core::cell::RefCell;
use datapath::port::{Port, PortCaps, PortStats, RX_BURST, RxFrame};
use std::collections::VecDeque;
use std::rc::Rc;

/// What port and network share. Single-threaded by design: one rig is one thread.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    /// Frames delivered by the network, not yet received.
    pub arrived: VecDeque<Vec<u8>>,
    /// Frames flushed by the engine, not yet taken by the network.
    pub sent: VecDeque<Vec<u8>>,
    /// Slots of the transmit ring that are free now.
    pub room: usize,
    /// Buffers to use again.
    pub spare: Vec<Vec<u8>>,
    pub link_down: bool,
}

/// A virtual port. Frames flushed go to the uplink; what the downlink delivers waits to be
/// received.
#[derive(Debug)]
pub struct SimPort {
    caps: PortCaps,
    mailbox: Rc<RefCell<Mailbox>>,
    burst: Vec<Vec<u8>>,
    lent: Option<Vec<u8>>,
    queued: Vec<Vec<u8>>,
    stats: PortStats,
}

impl SimPort {
    pub(crate) fn new(caps: PortCaps, mailbox: Rc<RefCell<Mailbox>>) -> Self {
        Self { caps, mailbox, burst: Vec::new(), lent: None, queued: Vec::new(), stats: PortStats::default() }
    }

    /// Sends one frame; false if the ring is full. For peers without an engine.
    pub fn send(&mut self, frame: &[u8]) -> bool {
        let Some(slot) = self.tx_slot() else { return false };
        slot[..frame.len()].copy_from_slice(frame);
        self.tx_commit(frame.len());
        self.tx_flush();
        true
    }

    /// Receives all frames that wait. For peers without an engine.
    pub fn receive(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while self.rx_burst() > 0 {
            frames.extend(self.burst.iter().cloned());
            self.rx_release();
        }
        frames
    }
}

impl Port for SimPort {
    fn caps(&self) -> PortCaps {
        self.caps
    }

    fn link_up(&self) -> bool {
        !self.mailbox.borrow().link_down
    }

    fn rx_burst(&mut self) -> usize {
        assert!(self.burst.is_empty(), "the burst before was not released");
        let mut mailbox = self.mailbox.borrow_mut();
        let count = mailbox.arrived.len().min(RX_BURST);
        self.burst.extend(mailbox.arrived.drain(..count));
        self.stats.rx_frames += count as u64;
        self.stats.rx_bytes += self.burst.iter().map(|frame| frame.len() as u64).sum::<u64>();
        count
    }

    fn rx_frame(&self, index: usize) -> RxFrame<'_> {
        RxFrame::new(&self.burst[index])
    }

    fn rx_release(&mut self) {
        self.mailbox.borrow_mut().spare.append(&mut self.burst);
    }

    fn tx_slot(&mut self) -> Option<&mut [u8]> {
        if self.lent.is_none() {
            let mut mailbox = self.mailbox.borrow_mut();
            if mailbox.sent.len() + self.queued.len() >= mailbox.room {
                return None;
            }
            let mut slot = mailbox.spare.pop().unwrap_or_default();
            // The content is undefined by contract: make sure that nobody relies on it.
            slot.clear();
            slot.resize(self.caps.max_frame, 0xEE);
            self.lent = Some(slot);
        }
        self.lent.as_deref_mut()
    }

    fn tx_commit(&mut self, len: usize) {
        let mut frame = self.lent.take().expect("a slot is lent");
        assert!(len <= frame.len(), "the frame is longer than its slot");
        frame.truncate(len);
        self.stats.tx_frames += 1;
        self.stats.tx_bytes += len as u64;
        self.queued.push(frame);
    }

    fn tx_cancel(&mut self) {
        if let Some(frame) = self.lent.take() {
            self.mailbox.borrow_mut().spare.push(frame);
        }
    }

    fn tx_flush(&mut self) {
        self.mailbox.borrow_mut().sent.extend(self.queued.drain(..));
    }

    fn stats(&self) -> PortStats {
        self.stats
    }
}
