//! The port over memif without copies: frames are built where the peer reads them, and read where
//! it built them. (Long ones to a peer on another die are copied there, docs/adr/0089.)
//!
//! It needs no DPDK. The wire of a port whose link is down loses what is sent, as a real one does:
//! it is dropped and counted, so that whoever retransmits sees the loss.

mod drowsiness;
#[cfg(test)]
mod tests;

use std::time::Instant;

use ::memif::Endpoint;
pub use ::memif::{Config, Error, Role};

use super::{LinkDown, Port, PortCaps, PortStats, RX_BURST, Rest, RxFrame};
use crate::prefetch;
use crate::time::Time;
use drowsiness::Drowsiness;

/// Binary logarithm of the slots of a ring, unless there is a reason. With fewer, a buffer comes
/// around while its lines are in the peer's own cache, and each has to be fetched from there; with
/// more, the buffers have more pages than the processor knows.
pub const RING_SIZE_LOG2: u8 = 9;
/// Bytes of frames after which the peer gets what waits, in the middle of a turn too: it can begin.
const TX_BYTES: usize = 16 * 1024;
/// Frames of a burst between the one that is read and the one that is fetched.
const RX_PREFETCH_DISTANCE: usize = 3;
/// Empty receive bursts between two looks at a link that is up: each is a system call.
const LINK_CHECK: u32 = 4096;
/// Time between two such looks at most: the engine may sleep between its bursts, or none of them
/// may be empty.
const LINK_CHECK_NS: u64 = 50_000_000;
/// Time between two looks for a peer that is not there: so many ports cost little until somebody
/// comes.
const SEEK_NS: u64 = 10_000_000;

/// Starts to fetch a frame from the peer's processor.
#[inline]
fn prefetch(frame: &[u8]) {
    prefetch::read_bytes(&frame[..frame.len().min(memif::prefetch::EXPECTED)]);
}

/// One end of a memif pair as the engine's [`Port`].
#[derive(Debug)]
pub struct MemifPort {
    end: Endpoint,
    caps: PortCaps,
    stats: PortStats,
    /// Bytes committed and not yet handed over.
    queued_bytes: usize,
    /// What is lent while there is no link.
    nowhere: Box<[u8]>,
    lent: Lent,
    /// Empty receive bursts since the last look at the link, and when that was.
    idle: u32,
    tended_at: Time,
    now: Time,
    drowsiness: Drowsiness,
}

/// The slot that is lent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lent {
    Nothing,
    /// One that nobody reads.
    Nowhere,
    Slot,
}

impl MemifPort {
    /// Opens one end, with this Ethernet address.
    ///
    /// # Errors
    /// [`Error`] says what is wrong, and what to do.
    pub fn open(config: &Config, mac: [u8; 6]) -> Result<Self, Error> {
        Ok(Self::over(Endpoint::open(config)?, config, mac))
    }

    /// Opens one end with several queues each way, and gives a port for each: all have this
    /// Ethernet address, each may be another thread's, and what queue `i` sends comes to the peer's
    /// queue `i`. The peer must have as many.
    ///
    /// # Errors
    /// [`Error`] says what is wrong, and what to do.
    pub fn open_queues(config: &Config, mac: [u8; 6], queues: u8) -> Result<Vec<Self>, Error> {
        let ends = Endpoint::open_queues(config, queues)?;
        Ok(ends.into_iter().map(|end| Self::over(end, config, mac)).collect())
    }

    fn over(end: Endpoint, config: &Config, mac: [u8; 6]) -> Self {
        let max_frame = usize::from(config.max_frame);
        Self {
            end,
            caps: PortCaps { mac, max_frame },
            stats: PortStats::default(),
            queued_bytes: 0,
            nowhere: vec![0; max_frame].into(),
            lent: Lent::Nothing,
            idle: 0,
            tended_at: Time::ZERO,
            now: Time::ZERO,
            drowsiness: Drowsiness::Awake,
        }
    }

    /// Looks after the connection.
    #[cold]
    fn tend(&mut self) {
        (self.idle, self.tended_at) = (0, self.now);
        let was_up = self.link_up();
        self.end.tend(Instant::now());
        if was_up && !self.link_up() {
            self.queued_bytes = 0;
            self.lent = Lent::Nothing;
            self.drowsiness = Drowsiness::Awake;
        }
    }

    /// The first frames since somebody asked for an interrupt.
    #[cold]
    fn wake(&mut self) {
        self.drowsiness = Drowsiness::Awake;
        if let Some(link) = self.end.link() {
            link.rx.disable_interrupt();
        }
    }

    /// An empty burst without a link.
    #[cold]
    fn seek(&mut self) {
        self.idle += 1;
        let is_due = self.now.since(self.tended_at) >= SEEK_NS || self.idle >= LINK_CHECK;
        if is_due || self.end.is_meeting() {
            self.tend();
        }
    }
}

impl Port for MemifPort {
    fn caps(&self) -> PortCaps {
        self.caps
    }

    #[inline]
    fn link_up(&self) -> bool {
        self.end.linked().is_some()
    }

    fn link_down(&self) -> Option<LinkDown> {
        self.end.no_link().map(LinkDown::from)
    }

    #[inline]
    fn set_now(&mut self, now: Time) {
        self.now = now;
    }

    #[inline]
    fn rx_burst(&mut self) -> usize {
        if self.now.since(self.tended_at) >= LINK_CHECK_NS {
            self.tend();
        }
        let Some(link) = self.end.link() else {
            self.seek();
            return 0;
        };
        let (count, dropped) = link.rx.burst();
        for index in 0..count {
            self.stats.rx_bytes += link.rx.packet(index).len() as u64;
        }
        for index in link.rx.fetched()..count.min(RX_PREFETCH_DISTANCE) {
            prefetch(link.rx.packet(index));
        }
        self.stats.rx_frames += count as u64;
        self.stats.rx_dropped += dropped as u64;
        if count == 0 {
            self.drowsiness.found_nothing(self.now);
            self.idle += 1;
            if self.idle >= LINK_CHECK {
                self.tend();
            }
        } else if self.drowsiness != Drowsiness::Awake {
            self.wake();
        }
        count
    }

    #[inline]
    fn rx_frame(&self, index: usize) -> RxFrame<'_> {
        debug_assert!(index < RX_BURST);
        let Some(link) = self.end.linked() else { panic!("no burst without a link") };
        if index + RX_PREFETCH_DISTANCE < link.rx.len() {
            prefetch(link.rx.packet(index + RX_PREFETCH_DISTANCE));
        }
        RxFrame::shared(link.rx.head(index), link.rx.packet(index))
    }

    fn rx_waiting(&self) -> Option<usize> {
        self.end.linked().map(|link| link.rx.waiting().into())
    }

    #[inline]
    fn rx_release(&mut self) {
        if let Some(link) = self.end.link() {
            link.rx.release();
        }
    }

    #[inline]
    fn tx_slot(&mut self) -> Option<&mut [u8]> {
        let Some(link) = self.end.link() else {
            self.lent = Lent::Nowhere;
            return Some(&mut self.nowhere);
        };
        let slot = link.tx.lend();
        self.lent = if slot.is_some() { Lent::Slot } else { Lent::Nothing };
        slot
    }

    #[inline]
    fn tx_commit(&mut self, len: usize) {
        assert!(len <= self.caps.max_frame, "a frame of {len} bytes on a port for {}", self.caps.max_frame);
        match (std::mem::replace(&mut self.lent, Lent::Nothing), self.end.link()) {
            (Lent::Slot, Some(link)) => {
                link.tx.commit(len);
                self.stats.tx_bytes += len as u64;
                self.queued_bytes += len;
                if self.queued_bytes >= TX_BYTES {
                    self.tx_flush();
                }
            }
            (Lent::Nowhere, _) => self.stats.tx_dropped += 1,
            _ => panic!("no slot is lent"),
        }
    }

    #[inline]
    fn tx_cancel(&mut self) {
        self.lent = Lent::Nothing;
    }

    #[inline]
    fn tx_flush(&mut self) {
        self.queued_bytes = 0;
        if let Some(link) = self.end.link() {
            self.stats.tx_frames += u64::from(link.tx.flush());
        }
    }

    fn rest(&mut self) -> Rest {
        let Some(link) = self.end.link() else {
            let unwatched_ns = (!self.end.is_meeting()).then_some(SEEK_NS);
            return Rest { interrupt: None, unwatched_ns };
        };
        let interrupt = link.rx.enable_interrupt();
        if interrupt.is_some() {
            self.drowsiness.ask();
        }
        let unwatched_ns = (self.drowsiness == Drowsiness::Drowsy).then_some(LINK_CHECK_NS);
        Rest { interrupt, unwatched_ns }
    }

    fn tx_waiting(&self) -> Option<usize> {
        Some(self.end.linked().map_or(0, |link| link.tx.waiting().into()))
    }

    fn tx_ahead(&self) -> Option<usize> {
        self.tx_waiting()
    }

    fn stats(&self) -> PortStats {
        self.stats
    }
}
