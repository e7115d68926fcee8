//! The port over an interface of the kernel's, without DPDK and without copies of its own: frames
//! are built where the kernel reads them, and read where it put them.
//!
//! The wire of a port whose link is down loses what is sent, as a real one does: it is dropped and
//! counted, so that whoever retransmits sees the loss.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::os::fd::AsFd as _;

pub use ::packet::{Config, Error, Frames, Host, Interface, mtu_within};
use ::packet::{NoLink, PacketSocket};
use memif::FRAME_OVERHEAD;

use super::{FilterError, Interrupt, LinkDown, Port, PortCaps, PortStats, Rest, RxFrame};
use crate::prefetch;
use crate::time::Time;

/// Bytes of frames after which the kernel gets what waits, in the middle of a turn too: what it
/// copies is still in the first cache then.
const TX_BYTES: usize = 16 * 1024;
/// Frames of a burst between the one that is read and the one that is fetched.
const RX_PREFETCH_DISTANCE: usize = 2;
/// Bytes of a frame that are fetched ahead: its headers. What is behind them the processor expects
/// by itself.
const EXPECTED: usize = 128;
/// Time between two looks at the link: each is a few system calls.
const LINK_CHECK_NS: u64 = 50_000_000;

/// An interface of the kernel's as the engine's [`Port`].
#[derive(Debug)]
pub struct PacketPort {
    socket: PacketSocket,
    caps: PortCaps,
    stats: PortStats,
    /// Frames that found the ring full, as the kernel forgets what it has told.
    missed: Cell<u64>,
    /// Wakes whoever sleeps until frames come.
    interrupt: Interrupt,
    /// Bytes committed and not yet handed over.
    queued_bytes: usize,
    /// Why no frames pass, as last seen.
    no_link: Option<NoLink>,
    /// Longest frame that the interface sends, in bytes, as last seen: its MTU may be lowered.
    sendable: usize,
    looked_at: Time,
    now: Time,
}

impl PacketPort {
    /// Opens an interface, with this Ethernet address.
    ///
    /// # Errors
    /// [`Error`] says what is wrong, and what to do.
    pub fn open(interface: Interface, config: &Config, mac: [u8; 6]) -> Result<Self, Error> {
        let name = interface.name().to_owned();
        let socket = PacketSocket::open(interface, config)?;
        let interrupt = socket.as_fd().try_clone_to_owned().and_then(Interrupt::of_descriptor);
        let interrupt = interrupt.map_err(|source| Error::Refused { name, what: "a descriptor", source })?;
        let mut port = Self {
            no_link: None,
            sendable: 0,
            socket,
            caps: PortCaps { mac, max_frame: config.max_frame.into() },
            stats: PortStats::default(),
            missed: Cell::new(0),
            interrupt,
            queued_bytes: 0,
            looked_at: Time::ZERO,
            now: Time::ZERO,
        };
        port.look();
        Ok(port)
    }

    /// Looks at the link.
    #[cold]
    fn look(&mut self) {
        self.looked_at = self.now;
        self.no_link = self.socket.no_link();
        if let Ok(mtu) = self.socket.interface().mtu() {
            self.sendable = mtu as usize + usize::from(FRAME_OVERHEAD);
        }
    }
}

impl Port for PacketPort {
    fn caps(&self) -> PortCaps {
        self.caps
    }

    #[inline]
    fn link_up(&self) -> bool {
        self.no_link.is_none()
    }

    fn link_down(&self) -> Option<LinkDown> {
        self.no_link.clone().map(LinkDown::from)
    }

    fn set_groups(&mut self, macs: &[[u8; 6]]) -> Result<(), FilterError> {
        let joined = self.socket.interface_mut().join(macs);
        joined.map_err(|error| FilterError { why: error.to_string() })
    }

    #[inline]
    fn set_now(&mut self, now: Time) {
        self.now = now;
    }

    #[inline]
    fn rx_burst(&mut self) -> usize {
        if self.now.since(self.looked_at) >= LINK_CHECK_NS {
            self.look();
        }
        let (count, dropped) = self.socket.rx.burst();
        for index in 0..count {
            self.stats.rx_bytes += self.socket.rx.frame(index).len() as u64;
        }
        for index in 0..count.min(RX_PREFETCH_DISTANCE) {
            prefetch(self.socket.rx.frame(index));
        }
        self.stats.rx_frames += count as u64;
        self.stats.rx_dropped += dropped as u64;
        count
    }

    #[inline]
    fn rx_frame(&self, index: usize) -> RxFrame<'_> {
        if index + RX_PREFETCH_DISTANCE < self.socket.rx.len() {
            prefetch(self.socket.rx.frame(index + RX_PREFETCH_DISTANCE));
        }
        RxFrame::new(self.socket.rx.frame(index))
    }

    fn rx_waiting(&self) -> Option<usize> {
        Some(self.socket.rx.waiting())
    }

    #[inline]
    fn rx_release(&mut self) {
        self.socket.rx.release();
    }

    #[inline]
    fn tx_slot(&mut self) -> Option<&mut [u8]> {
        self.socket.tx.lend()
    }

    #[inline]
    fn tx_commit(&mut self, len: usize) {
        if len > self.sendable && len <= self.caps.max_frame {
            self.socket.tx.cancel();
            self.stats.tx_dropped += 1;
            return;
        }
        self.socket.tx.commit(len);
        self.queued_bytes += len;
        if self.queued_bytes >= TX_BYTES {
            self.tx_flush();
        }
    }

    #[inline]
    fn tx_cancel(&mut self) {
        self.socket.tx.cancel();
    }

    #[inline]
    fn tx_flush(&mut self) {
        self.queued_bytes = 0;
        if !self.link_up() {
            self.stats.tx_dropped += self.socket.tx.drop_queued() as u64;
            return;
        }
        let flushed = self.socket.tx.flush();
        self.stats.tx_frames += flushed.sent as u64;
        self.stats.tx_bytes += flushed.sent_bytes as u64;
        self.stats.tx_dropped += flushed.dropped as u64;
        if flushed.is_down {
            self.look();
        }
    }

    fn tx_waiting(&self) -> Option<usize> {
        Some(self.socket.tx.waiting())
    }

    fn rest(&mut self) -> Rest {
        // What the kernel had no room for is tried again.
        let unwatched_ns = (self.socket.tx.waiting() == 0).then_some(LINK_CHECK_NS);
        Rest { interrupt: Some(self.interrupt.clone()), unwatched_ns }
    }

    fn stats(&self) -> PortStats {
        self.missed.set(self.missed.get() + self.socket.take_missed());
        PortStats { rx_missed: self.missed.get(), ..self.stats }
    }
}

/// Starts to fetch a frame's headers.
#[inline]
fn prefetch(frame: &[u8]) {
    prefetch::read_bytes(&frame[..frame.len().min(EXPECTED)]);
}
