//! Ports of several engines that are one device: a frame that comes in where its queue pair is not
//! is handed to the engine that has it.
//!
//! What spreads frames over queues, a NIC by their UDP port or a peer by its own engines, does not
//! know which engine has a queue pair. The number of the queue pair does ([`EngineId`]). A frame
//! that has to move is copied, once, into the inbox of its engine: buffers that are made at the
//! start, and pass between threads without a lock. A full inbox drops and counts, as a full ring
//! does. So every engine of a device must be driven: another one's frames may come in at its port.
//!
//! What is no packet of RoCE stays with whoever got it, who answers questions and pings; but who
//! says where it is says it to all engines, and a datagram to a multicast group goes to all. Queue
//! pair 1, that of connection managers, is one of each engine: its packets stay as well.

mod inbox;
#[cfg(test)]
mod tests;

use super::delegate::delegate;
use super::{FilterError, LinkDown, Port, PortCaps, PortStats, RX_BURST, Rest, RxFrame};
use crate::neighbor::NeighborConfig;
use crate::qpn::{EngineId, MULTICAST_QPN};
use crate::time::Time;
use arrayvec::ArrayVec;
use core::net::IpAddr;
use inbox::{Inbox, Loan};
use std::sync::Arc;
use wire::{CommonFrame, Datagram, EncapError, Packet};

/// The configuration by which the engines of a device tell their frames apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SteerConfig {
    /// Address of the device.
    pub ip: IpAddr,
    /// VLAN tag of its frames.
    pub vlan: Option<u16>,
    /// UDP port of RoCEv2.
    pub udp_port: u16,
}

/// Whom a frame is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Recipient {
    Us,
    Other(u8),
    All,
}

/// Tells whom frames are for.
#[derive(Debug)]
struct Judge {
    engine: EngineId,
    udp_port: u16,
    link: NeighborConfig,
}

impl Judge {
    #[inline]
    fn recipient(&self, frame: RxFrame<'_>) -> Recipient {
        // Nothing of it is checked here: who has the queue pair does, and counts what is wrong.
        if let Some(qpn) = CommonFrame::peek_dest_qp(frame, self.udp_port) {
            return self.owner(qpn);
        }
        match Datagram::in_frame(frame, self.udp_port) {
            Ok(datagram) => {
                let packet = Packet::in_frame(frame, datagram.transport);
                packet.map_or(Recipient::Us, |packet| self.owner(packet.dest_qp()))
            }
            Err(EncapError::NotRoce) if self.link.is_announcement(frame.head()) => Recipient::All,
            // Whoever gets it counts what is wrong with it.
            Err(_) => Recipient::Us,
        }
    }

    #[inline]
    fn owner(&self, qpn: u32) -> Recipient {
        match self.engine.owner_of(qpn) {
            _ if qpn == MULTICAST_QPN => Recipient::All,
            Some(index) if index != self.engine.index() => Recipient::Other(index),
            _ => Recipient::Us,
        }
    }
}

/// The port of one engine of several. It wraps a queue of the device's port, and hands frames of
/// other engines over.
#[derive(Debug)]
pub struct Steered<P: Port> {
    inner: P,
    judge: Judge,
    /// Of every engine.
    inboxes: Arc<[Inbox]>,
    /// The burst is from the inbox, not from the port.
    from_inbox: bool,
    /// Frames of the burst of the port that are ours, by their places in it.
    kept: ArrayVec<usize, RX_BURST>,
    /// Those of a burst from the inbox.
    taken: ArrayVec<Loan, RX_BURST>,
    /// Frames that [`Port::take_passed_on`] has not told of.
    untold: usize,
    /// What went elsewhere, or had no room there: frames and bytes that the port below counts as
    /// received.
    gone: (u64, u64),
    /// What came from other engines.
    arrived: (u64, u64),
    steered: u64,
    missed: u64,
}

impl<P: Port> Steered<P> {
    /// Wraps ports that have one Ethernet address, one port for each engine. `None` if there is no
    /// port, or more than [`EngineId::COUNT_MAX`]. With each comes the engine that is to run on it.
    #[must_use]
    pub fn over(ports: Vec<P>, config: &SteerConfig) -> Option<Vec<(EngineId, Self)>> {
        let engines = EngineId::all(u8::try_from(ports.len()).ok()?)?;
        let inboxes: Arc<[Inbox]> = ports.iter().map(|port| Inbox::new(port.caps().max_frame)).collect();
        let steered = engines.into_iter().zip(ports).map(|(engine, inner)| {
            let mac = inner.caps().mac;
            let link = NeighborConfig {
                mac,
                ip: config.ip,
                vlan: config.vlan,
                capacity: 1,
                nonce: [0; 6],
                defends: false,
            };
            let steered = Self {
                inner,
                judge: Judge { engine, udp_port: config.udp_port, link },
                inboxes: Arc::clone(&inboxes),
                from_inbox: false,
                kept: ArrayVec::new(),
                taken: ArrayVec::new(),
                untold: 0,
                gone: (0, 0),
                arrived: (0, 0),
                steered: 0,
                missed: 0,
            };
            (engine, steered)
        });
        Some(steered.collect())
    }

    /// The port below.
    pub const fn inner(&self) -> &P {
        &self.inner
    }

    /// The port below.
    pub const fn inner_mut(&mut self) -> &mut P {
        &mut self.inner
    }

    fn us(&self) -> usize {
        self.judge.engine.index().into()
    }

    /// Takes a burst from the port, and keeps what is ours of it.
    fn receive(&mut self) {
        let count = self.inner.rx_burst();
        for index in 0..count {
            let frame = self.inner.rx_frame(index);
            match self.judge.recipient(frame) {
                Recipient::Us => self.kept.push(index),
                Recipient::Other(engine) => {
                    self.gone = (self.gone.0 + 1, self.gone.1 + frame.len() as u64);
                    self.untold += 1;
                    let passed = self.inboxes[usize::from(engine)].put(frame.bytes());
                    self.note(passed);
                }
                Recipient::All => {
                    self.kept.push(index);
                    self.missed += give_to_others(&self.inboxes, self.judge.engine, frame.bytes());
                }
            }
        }
        if self.kept.is_empty() && count > 0 {
            self.inner.rx_release();
        }
    }

    const fn note(&mut self, passed: bool) {
        if passed {
            self.steered += 1;
        } else {
            self.missed += 1;
        }
    }
}

/// Puts a frame into the inboxes of all engines but one. Returns how many had no room.
fn give_to_others(inboxes: &[Inbox], us: EngineId, frame: &[u8]) -> u64 {
    let others = inboxes.iter().enumerate().filter(|(index, _)| *index != usize::from(us.index()));
    others.map(|(_, inbox)| u64::from(!inbox.put(frame))).sum()
}

impl<P: Port> Port for Steered<P> {
    delegate! {
        to self.inner;
        fn caps(&self) -> PortCaps;
        fn link_up(&self) -> bool;
        fn link_down(&self) -> Option<LinkDown>;
        fn tx_slot(&mut self) -> Option<&mut [u8]>;
        fn tx_commit(&mut self, len: usize);
        fn tx_cancel(&mut self);
        fn tx_flush(&mut self);
        fn tx_waiting(&self) -> Option<usize>;
        fn tx_ahead(&self) -> Option<usize>;
        fn next_due(&self) -> Option<Time>;
        fn set_now(&mut self, now: Time);
        fn set_groups(&mut self, macs: &[[u8; 6]]) -> Result<(), FilterError>;
    }

    /// A burst is from the port or from the inbox; neither makes the other wait for longer than one
    /// burst.
    fn rx_burst(&mut self) -> usize {
        let us = self.us();
        self.from_inbox = !self.from_inbox && self.inboxes[us].take(&mut self.taken);
        if !self.from_inbox {
            self.receive();
            return self.kept.len();
        }
        let bytes: usize = self.taken.iter().map(|frame| frame.bytes().len()).sum();
        self.arrived = (self.arrived.0 + self.taken.len() as u64, self.arrived.1 + bytes as u64);
        self.taken.len()
    }

    fn rx_frame(&self, index: usize) -> RxFrame<'_> {
        if self.from_inbox {
            RxFrame::new(self.taken[index].bytes())
        } else {
            self.inner.rx_frame(self.kept[index])
        }
    }

    fn rx_release(&mut self) {
        if self.from_inbox {
            let inbox = &self.inboxes[self.us()];
            self.taken.drain(..).for_each(|frame| inbox.give_back(frame));
        } else if !self.kept.is_empty() {
            self.kept.clear();
            self.inner.rx_release();
        }
    }

    /// Another engine's thread puts frames into the inbox, and wakes nobody.
    fn rest(&mut self) -> Rest {
        Rest::default()
    }

    fn pass_on(&mut self, frame: &[u8]) -> bool {
        match self.judge.recipient(RxFrame::new(frame)) {
            Recipient::Us => false,
            Recipient::Other(engine) => {
                let passed = self.inboxes[usize::from(engine)].put(frame);
                self.note(passed);
                true
            }
            Recipient::All => {
                self.missed += give_to_others(&self.inboxes, self.judge.engine, frame);
                false
            }
        }
    }

    fn take_passed_on(&mut self) -> usize {
        core::mem::take(&mut self.untold)
    }

    /// As the engine sees it: what went to another one is counted there.
    fn stats(&self) -> PortStats {
        let stats = self.inner.stats();
        PortStats {
            rx_frames: (stats.rx_frames + self.arrived.0).saturating_sub(self.gone.0),
            rx_bytes: (stats.rx_bytes + self.arrived.1).saturating_sub(self.gone.1),
            rx_missed: stats.rx_missed + self.missed,
            rx_steered: self.steered,
            ..stats
        }
    }
}
