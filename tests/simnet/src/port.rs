//! The port that an engine sees: one end of the network.

use core::cell::RefCell;
use datapath::port::{Port, PortCaps, PortStats, RX_BURST, RxFrame};
use std::collections::VecDeque;
use std::rc::Rc;
use wire::HEAD_LEN;

/// What port and network share. Single-threaded by design: one rig is one thread.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    /// Frames delivered by the network, not yet received.
    pub arrived: VecDeque<Vec<u8>>,
    /// Frames flushed by the engine, not yet taken by the network.
    pub sent: VecDeque<Vec<u8>>,
    /// Slots of the transmit ring that are free now.
    pub room: usize,
    /// Those that are not, where the port knows.
    pub ahead: Option<usize>,
    /// Buffers to use again.
    pub spare: Vec<Vec<u8>>,
    pub link_down: bool,
    pub scribbles: Option<Scribbles>,
}

/// A peer that goes on writing frames which it has handed over, as one of shared memory may: into
/// all headers that the ICRC does not cover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scribbles {
    /// After the receiver has copied the headers.
    BehindTheCopy,
    /// Before: what no port may show to an engine.
    BeforeTheCopy,
}

/// A virtual port. Frames flushed go to the uplink; what the downlink delivers waits to be
/// received.
#[derive(Debug)]
pub struct SimPort {
    caps: PortCaps,
    mailbox: Rc<RefCell<Mailbox>>,
    burst: Vec<Vec<u8>>,
    /// Copies of the first bytes of the burst's frames, if they are in shared memory.
    heads: Vec<[u8; HEAD_LEN]>,
    lent: Option<Vec<u8>>,
    queued: Vec<Vec<u8>>,
    stats: PortStats,
}

impl SimPort {
    pub(crate) fn new(caps: PortCaps, mailbox: Rc<RefCell<Mailbox>>) -> Self {
        Self {
            caps,
            mailbox,
            burst: Vec::new(),
            heads: Vec::new(),
            lent: None,
            queued: Vec::new(),
            stats: PortStats::default(),
        }
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
        if let Some(scribbles) = mailbox.scribbles {
            let heads = self.burst.iter_mut().map(|frame| {
                let intact = head(frame);
                scribble(frame);
                if scribbles == Scribbles::BehindTheCopy { intact } else { head(frame) }
            });
            self.heads.extend(heads);
        }
        self.stats.rx_frames += count as u64;
        self.stats.rx_bytes += self.burst.iter().map(|frame| frame.len() as u64).sum::<u64>();
        count
    }

    fn rx_frame(&self, index: usize) -> RxFrame<'_> {
        match self.heads.get(index) {
            Some(head) => RxFrame::shared(head, &self.burst[index]),
            None => RxFrame::new(&self.burst[index]),
        }
    }

    fn rx_waiting(&self) -> Option<usize> {
        Some(self.mailbox.borrow().arrived.len())
    }

    fn rx_release(&mut self) {
        self.heads.clear();
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

    fn tx_ahead(&self) -> Option<usize> {
        let mailbox = self.mailbox.borrow();
        mailbox.ahead.map(|ahead| ahead + mailbox.sent.len() + self.queued.len())
    }

    fn stats(&self) -> PortStats {
        self.stats
    }
}

fn head(frame: &[u8]) -> [u8; HEAD_LEN] {
    let mut head = [0xDD; HEAD_LEN];
    let len = frame.len().min(HEAD_LEN);
    head[..len].copy_from_slice(&frame[..len]);
    head
}

/// Ethernet; TOS, TTL and checksum of IPv4; the checksum of UDP.
fn scribble(frame: &mut [u8]) {
    for range in [0..14, 15..16, 22..23, 24..26, 40..42] {
        frame.get_mut(range).into_iter().flatten().for_each(|byte| *byte ^= 0xA5);
    }
}
