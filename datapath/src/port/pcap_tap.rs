//! A port that writes every frame it passes to a pcap stream, for Wireshark and for tests.

mod pcap;
#[cfg(test)]
mod tests;

use super::delegate::delegate;
use super::{FilterError, LinkDown, Port, PortCaps, PortStats, Rest, RxFrame};
use crate::time::Time;
use pcap::PcapWriter;
use std::io::{self, Write};

/// The counters of a [`PcapTap`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TapStats {
    /// Frames in the stream.
    pub recorded: u64,
    /// Frames missing from it: the writer failed at or before them.
    pub unrecorded: u64,
    /// Errors of the writer. After the first the stream may be torn, so nothing more is written.
    pub write_errors: u64,
}

/// A [`Port`] around another that records what is received and what is committed for sending, each
/// frame whole and with the time of the turn, in nanosecond pcap. Errors of the writer are counted
/// and never touch the traffic.
///
/// Put it outside a [`Fault`](super::fault::Fault) to see what the engine sees, inside to see the
/// wire.
#[derive(Debug)]
pub struct PcapTap<P: Port, W: Write> {
    inner: P,
    now: Time,
    pcap: PcapWriter<W>,
    /// What the slot of the port below will hold: that slot cannot be read once it is written.
    staging: Box<[u8]>,
    /// Whether a slot is lent.
    lent: bool,
    /// Frames that the port below had no slot for after all.
    tx_dropped: u64,
}

impl<P: Port, W: Write> PcapTap<P, W> {
    /// Records what passes `inner` into `writer`, which should be buffered.
    pub fn new(inner: P, writer: W) -> Self {
        let max_frame = inner.caps().max_frame;
        Self {
            inner,
            now: Time::ZERO,
            pcap: PcapWriter::new(writer, max_frame),
            staging: vec![0; max_frame].into_boxed_slice(),
            lent: false,
            tx_dropped: 0,
        }
    }

    /// The counters of what was written.
    pub const fn tap_stats(&self) -> TapStats {
        self.pcap.stats()
    }

    /// Flushes the writer.
    ///
    /// # Errors
    /// That of the writer; it is counted too.
    pub fn flush_pcap(&mut self) -> io::Result<()> {
        self.pcap.flush()
    }

    /// The port below.
    pub const fn inner(&self) -> &P {
        &self.inner
    }

    /// The port below.
    pub const fn inner_mut(&mut self) -> &mut P {
        &mut self.inner
    }

    /// The port below and the writer.
    pub fn into_parts(self) -> (P, W) {
        (self.inner, self.pcap.into_writer())
    }
}

impl<P: Port, W: Write> Port for PcapTap<P, W> {
    delegate! {
        to self.inner;
        fn caps(&self) -> PortCaps;
        fn link_up(&self) -> bool;
        fn link_down(&self) -> Option<LinkDown>;
        fn rx_limit(&self) -> usize;
        fn rx_frame(&self, index: usize) -> RxFrame<'_>;
        fn rx_release(&mut self);
        fn rx_waiting(&self) -> Option<usize>;
        fn tx_flush(&mut self);
        fn tx_waiting(&self) -> Option<usize>;
        fn tx_ahead(&self) -> Option<usize>;
        fn rest(&mut self) -> Rest;
        fn next_due(&self) -> Option<Time>;
        fn pass_on(&mut self, frame: &[u8]) -> bool;
        fn take_passed_on(&mut self) -> usize;
        fn set_groups(&mut self, macs: &[[u8; 6]]) -> Result<(), FilterError>;
    }

    fn rx_burst(&mut self) -> usize {
        let count = self.inner.rx_burst();
        for index in 0..count {
            self.pcap.record(self.now, self.inner.rx_frame(index).bytes());
        }
        count
    }

    fn tx_slot(&mut self) -> Option<&mut [u8]> {
        // Only whether there is room; the slot itself is taken again at the commit.
        self.lent = false;
        self.inner.tx_slot()?;
        self.inner.tx_cancel();
        self.lent = true;
        Some(&mut self.staging)
    }

    fn tx_commit(&mut self, len: usize) {
        assert!(std::mem::take(&mut self.lent), "tx_commit without a slot");
        let frame = &self.staging[..len];
        let Some(slot) = self.inner.tx_slot() else {
            self.tx_dropped += 1;
            return;
        };
        slot[..len].copy_from_slice(frame);
        self.inner.tx_commit(len);
        self.pcap.record(self.now, frame);
    }

    fn tx_cancel(&mut self) {
        self.lent = false;
    }

    fn set_now(&mut self, now: Time) {
        self.now = now;
        self.inner.set_now(now);
    }

    fn stats(&self) -> PortStats {
        let mut stats = self.inner.stats();
        stats.tx_dropped += self.tx_dropped;
        stats.unrecorded += self.pcap.stats().unrecorded;
        stats
    }
}
