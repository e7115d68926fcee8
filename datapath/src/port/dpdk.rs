//! The port over DPDK: a burst of packet buffers (mbufs) in, a burst of them out.
//!
//! Receive views are the mbufs of the last burst; transmit slots come from a stash that is filled
//! in bulk, and wait in a queue until the driver takes them. The order of ownership: pool -> stash
//! -> slot (lent) -> queue -> driver.
//!
//! The wire of a port whose link is down loses what is sent, as a real one does: it is dropped and
//! counted, so that whoever retransmits sees the loss. The client of a shared-memory pair
//! reconnects by itself, from within [`Port::rx_burst`].

mod driver;
#[cfg(test)]
mod tests;

use dpdk_sys::{Burst, Device, EthPort, Mbuf, Mempool};
pub use driver::{Driver, Whole};

pub use dpdk_sys::{
    Eal, EalConfig, EalError, EthQueue, InterfaceConfig, MEMIF_MAX_FRAME, MemifConfig, MemifRole, Memory,
    NicConfig, NoLink, OpenPort, PortError, SocketKind, VhostConfig,
};

use super::{FilterError, LinkDown, Port, PortCaps, PortStats, RX_BURST, RxFrame};
use crate::prefetch;
use crate::time::Time;

/// Buffers of a port: both rings of a NIC and the caches of a few threads full at once, and as many
/// again.
const BUFFERS: u32 = 4096;
/// Frames that wait for the driver at most.
const TX_BURST: usize = 64;
/// Bytes of frames that pass at once, about: a driver that copies (memif) then finds in the first
/// cache what it sends, frees its buffers, and the next frames are written into those; and it
/// receives into the buffers of the burst before, where the engine finds them still in that cache.
const BURST_BYTES: usize = 16 * 1024;
/// Transmit slots taken from the pool at once, at most: as few as keeps the call cheap, because the
/// pool gives the buffers freed last, which are still in the cache.
const TX_STASH: usize = 8;
/// Bytes of the next frame that are fetched ahead at most: what is behind them the processor
/// expects by itself.
const EXPECTED: usize = 256;
/// How long a frame that the driver has taken lies in its ring at most, in nanoseconds: a NIC needs
/// microseconds, a peer that shares the ring may not run at once.
const IN_RING_NS: u64 = 20_000_000;
/// Empty receive bursts between two looks at a link that is up.
const LINK_CHECK: u32 = 256;

/// A port of DPDK's as the engine's [`Port`], or one of its queues.
#[derive(Debug)]
pub struct DpdkPort<D = Whole> {
    /// The last burst, until it is released.
    rx: Burst<RX_BURST>,
    /// Frames that the next one takes at most.
    rx_limit: usize,
    /// Bursts of long frames are short.
    short_bursts: bool,
    /// Fresh buffers.
    stash: Burst<TX_STASH>,
    /// How many are taken at once.
    stash_size: usize,
    /// The slot that is lent.
    slot: Option<Mbuf>,
    /// Committed frames that the driver has not taken.
    queue: Burst<TX_BURST>,
    /// Bytes of those.
    queued_bytes: usize,
    caps: PortCaps,
    stats: PortStats,
    /// As the engine said last.
    now: Time,
    /// Frames that the driver had taken by `sent_at`.
    sent: u64,
    /// When there were more of them than the time before.
    sent_at: Time,
    /// Empty receive bursts since the last look at the link.
    idle: u32,
    /// As last seen.
    link_up: bool,
    /// Last, so that it outlives the buffers above.
    driver: D,
}

impl DpdkPort {
    /// Opens one end of a memif pair.
    ///
    /// # Errors
    /// Those of [`MemifConfig::open`].
    pub fn memif(eal: &Eal, config: &MemifConfig) -> Result<Self, PortError> {
        Ok(Self::over(config.open(eal)?))
    }

    /// Any other device of DPDK's, for frames of up to `max_frame` bytes.
    ///
    /// # Errors
    /// [`PortError`] says what DPDK refused, and what to do.
    pub fn open(eal: &Eal, device: Device, max_frame: u16) -> Result<Self, PortError> {
        let pool = Mempool::new(eal, BUFFERS, max_frame)?;
        let mut eth = EthPort::attach(eal, device, &pool)?;
        eth.start()?;
        let (mac, queues) = (eth.mac()?, Vec::new());
        Ok(Self::over(OpenPort { mac, eth, queues, max_frame, short_bursts: false, reconnect: None }))
    }

    /// Over a port that is open.
    #[must_use]
    pub fn over(port: OpenPort) -> Self {
        Self::with_queues(port).0
    }

    /// Over a port that is open, and over each of its further queues. The first one looks after the
    /// link, and closes the port for all when it is dropped.
    #[must_use]
    pub fn with_queues(port: OpenPort) -> (Self, Vec<DpdkPort<EthQueue>>) {
        let OpenPort { eth, queues, max_frame, mac, short_bursts, reconnect } = port;
        let caps = PortCaps { mac, max_frame: max_frame.into() };
        let queues = queues.into_iter().map(|queue| DpdkPort::by(queue, caps, short_bursts)).collect();
        (Self::by(Whole { eth, reconnect }, caps, short_bursts), queues)
    }

    /// The DPDK port underneath, for its name and the driver's own counters.
    #[must_use]
    pub fn eth(&self) -> &EthPort {
        &self.driver.eth
    }
}

impl<D: Driver> DpdkPort<D> {
    fn by(driver: D, caps: PortCaps, short_bursts: bool) -> Self {
        let pool = driver.pool();
        Self {
            rx: Burst::new(pool),
            rx_limit: RX_BURST,
            short_bursts,
            stash: Burst::new(pool),
            stash_size: TX_STASH,
            slot: None,
            queue: Burst::new(pool),
            queued_bytes: 0,
            caps,
            stats: PortStats::default(),
            now: Time::ZERO,
            sent: 0,
            sent_at: Time::ZERO,
            idle: 0,
            link_up: false,
            driver,
        }
    }

    /// Drops frames of the last burst that are no single view of at most `max_frame` bytes; returns
    /// the bytes of the others.
    #[cold]
    fn drop_unfit(&mut self) -> usize {
        let max_frame = self.caps.max_frame;
        let dropped = self.rx.retain(|mbuf| fits(mbuf, max_frame));
        self.stats.rx_dropped += dropped as u64;
        self.rx.iter().map(|mbuf| mbuf.frame().len()).sum()
    }

    /// Looks at the link, and brings a client's back.
    #[cold]
    fn tend_link(&mut self) {
        self.idle = 0;
        self.link_up = self.driver.tend();
    }

    /// What the driver did not take of the queue: kept while there is a link, lost if not.
    #[cold]
    fn keep_or_lose(&mut self) {
        self.link_up = self.driver.link_up();
        if !self.link_up {
            self.stats.tx_dropped += self.queue.len() as u64;
            self.queue.clear();
        }
    }
}

/// How many frames as long as these have [`BURST_BYTES`], and [`RX_BURST`] at most.
#[inline]
const fn at_once(frames: usize, bytes: usize) -> usize {
    const SHORT: usize = BURST_BYTES / RX_BURST;
    // Without a division where it makes no difference.
    if bytes <= SHORT * frames { RX_BURST } else { (BURST_BYTES * frames).div_ceil(bytes) }
}

fn fits(mbuf: &Mbuf, max_frame: usize) -> bool {
    mbuf.segments() == 1 && mbuf.frame().len() <= max_frame
}

impl<D: Driver> Port for DpdkPort<D> {
    fn caps(&self) -> PortCaps {
        self.caps
    }

    fn link_up(&self) -> bool {
        self.driver.link_up()
    }

    fn link_down(&self) -> Option<LinkDown> {
        self.driver.no_link().map(LinkDown::from)
    }

    fn set_groups(&mut self, macs: &[[u8; 6]]) -> Result<(), FilterError> {
        self.driver.set_groups(macs).map_err(|error| FilterError { why: error.to_string() })
    }

    #[inline]
    fn rx_limit(&self) -> usize {
        self.rx_limit
    }

    #[inline]
    fn rx_burst(&mut self) -> usize {
        if self.driver.rx_burst(self.rx_limit, &mut self.rx) == 0 {
            self.idle += 1;
            if !self.link_up || self.idle >= LINK_CHECK {
                self.tend_link();
            }
            return 0;
        }
        let max_frame = self.caps.max_frame;
        let (mut bytes, mut all_fit) = (0, true);
        for mbuf in self.rx.iter() {
            bytes += mbuf.frame().len();
            all_fit &= fits(mbuf, max_frame);
        }
        if !all_fit {
            bytes = self.drop_unfit();
        }
        self.stats.rx_frames += self.rx.len() as u64;
        self.stats.rx_bytes += bytes as u64;
        if self.short_bursts {
            self.rx_limit = at_once(self.rx.len(), bytes);
        }
        self.rx.len()
    }

    #[inline]
    fn rx_frame(&self, index: usize) -> RxFrame<'_> {
        if index + 1 < self.rx.len() {
            let next = self.rx[index + 1].frame();
            prefetch::read_bytes(&next[..next.len().min(EXPECTED)]);
        }
        RxFrame::new(self.rx[index].frame())
    }

    #[inline]
    fn rx_release(&mut self) {
        self.rx.clear();
    }

    #[inline]
    fn tx_slot(&mut self) -> Option<&mut [u8]> {
        self.tx_cancel();
        if self.queue.is_full() {
            self.tx_flush();
            if self.queue.is_full() {
                return None;
            }
        }
        if self.stash.is_empty() && !self.stash.fill_to(self.stash_size) {
            return None;
        }
        let slot = self.slot.insert(self.stash.pop()?);
        // There is room: the buffer holds `max_frame` behind the whole headroom, of which some
        // stays unused.
        slot.writable(0).get_mut(..self.caps.max_frame)
    }

    #[inline]
    fn tx_commit(&mut self, len: usize) {
        assert!(len <= self.caps.max_frame, "a frame of {len} bytes on a port for {}", self.caps.max_frame);
        let Some(mut slot) = self.slot.take() else { panic!("no slot is lent") };
        slot.set_len(len);
        // There is room: no slot is lent while the queue is full.
        let queued = self.queue.push(slot);
        debug_assert!(queued.is_ok());
        self.queued_bytes += len;
        if self.queued_bytes >= BURST_BYTES {
            self.tx_flush();
        }
    }

    #[inline]
    fn tx_cancel(&mut self) {
        return_slot(&mut self.slot, &mut self.stash);
    }

    #[inline]
    fn tx_flush(&mut self) {
        if self.queue.is_empty() {
            return;
        }
        if self.short_bursts {
            self.stash_size = at_once(self.queue.len(), self.queued_bytes).min(TX_STASH);
        }
        let taken = self.driver.tx_burst(&mut self.queue);
        let left_bytes = self.queue.iter().map(|mbuf| mbuf.frame().len()).sum::<usize>();
        self.stats.tx_frames += taken as u64;
        self.stats.tx_bytes += (self.queued_bytes - left_bytes) as u64;
        if !self.queue.is_empty() {
            self.keep_or_lose();
        }
        self.queued_bytes = if self.queue.is_empty() { 0 } else { left_bytes };
    }

    /// What the driver has taken may lie in a ring: of descriptors of a NIC, which reads them soon,
    /// or in memory that a peer shares.
    fn tx_waiting(&self) -> Option<usize> {
        let sent = self.stats.tx_frames;
        let all_left = sent == 0 || sent == self.sent && self.now >= self.sent_at.after(IN_RING_NS);
        (all_left || !self.queue.is_empty()).then(|| self.queue.len())
    }

    #[inline]
    fn set_now(&mut self, now: Time) {
        self.now = now;
        if self.sent != self.stats.tx_frames {
            self.sent = self.stats.tx_frames;
            self.sent_at = now;
        }
    }

    /// Our own counters, and those of the driver for what we do not see. A driver that cannot say
    /// counts nothing.
    fn stats(&self) -> PortStats {
        let driver = self.driver.stats();
        PortStats {
            rx_missed: driver.rx_missed + driver.rx_no_mbuf,
            rx_errors: driver.rx_errors,
            tx_errors: driver.tx_errors,
            ..self.stats
        }
    }
}

impl<D> Drop for DpdkPort<D> {
    fn drop(&mut self) {
        return_slot(&mut self.slot, &mut self.stash);
    }
}

/// Takes a slot back.
#[inline]
fn return_slot(slot: &mut Option<Mbuf>, stash: &mut Burst<TX_STASH>) {
    if let Some(slot) = slot.take() {
        // There is room: it came from there, and the stash is filled only while no slot is lent.
        let returned = stash.push(slot);
        debug_assert!(returned.is_ok());
    }
}
