//! Ports of an Ethernet segment inside the process: a switch without wires, for programs' own
//! tests.
//!
//! Frames of one sender to one receiver arrive in order, and at once. A receiver that does not keep
//! up loses what finds its inbox full, as on Ethernet.

#[cfg(test)]
mod tests;

use super::{Mac, Port, PortCaps, PortStats, RX_BURST, RxFrame};
use crate::frame::{Frame, FrameRing};
use core::mem::swap;
use core::num::NonZeroU8;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Ports of one segment at most: as many as a /24 network has hosts.
const PORTS_MAX: usize = 254;
/// Frames that wait for one port at most: two windows of the default size.
const INBOX_FRAMES: usize = 1024;
/// Frames that a port holds between two flushes.
const TX_FRAMES: usize = 256;

/// Frames that wait for a port, and those that found no room.
struct Inbox {
    frames: FrameRing,
    dropped: u64,
}

impl Inbox {
    /// Lets `write` put a frame behind the others, if there is room.
    fn put(&mut self, write: impl FnOnce(&mut Frame)) {
        match self.frames.free() {
            Some(place) => {
                write(place);
                self.frames.push();
            }
            None => self.dropped += 1,
        }
    }

    /// Takes the oldest frame for an empty one; false if there is none.
    fn take(&mut self, empty: &mut Frame) -> bool {
        let Some(oldest) = self.frames.front() else { return false };
        swap(oldest, empty);
        self.frames.pop();
        true
    }
}

/// A port as the others see it.
struct Station {
    mac: [u8; 6],
    /// It takes what is for addresses that no station has, too.
    promiscuous: bool,
    /// One for each of its queues.
    inboxes: Box<[Mutex<Inbox>]>,
    /// Queues whose ports are there.
    in_use: AtomicUsize,
}

/// A station, and its number.
struct Seat {
    station: Arc<Station>,
    host: u8,
}

/// An Ethernet segment: what its ports send to each other arrives. It ends with the last port.
pub struct Segment {
    max_frame: usize,
    /// By host number less 1.
    stations: Mutex<Vec<Option<Arc<Station>>>>,
}

/// Why a port cannot be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// Another port has the address.
    #[error("another port of the segment has the Ethernet address {}", Mac(*.0))]
    MacInUse([u8; 6]),
    /// All host numbers are taken.
    #[error("the segment has {PORTS_MAX} ports, which is all it can have")]
    Full,
}

impl Segment {
    /// A segment without ports, whose frames have at most `max_frame` bytes.
    #[must_use]
    pub fn new(max_frame: usize) -> Self {
        Self { max_frame, stations: Mutex::default() }
    }

    /// Longest frame, in bytes.
    #[must_use]
    pub const fn max_frame(&self) -> usize {
        self.max_frame
    }

    /// A new port. It gets the lowest host number that is free, and without a `mac` the address
    /// 02:00:00:00:00:HOST.
    ///
    /// # Errors
    /// [`SimError`].
    pub fn attach(self: &Arc<Self>, mac: Option<[u8; 6]>) -> Result<SimPort, SimError> {
        self.join(mac, false, 1).map(|seat| self.port(&seat, 0))
    }

    /// A new port that also gets frames for addresses that no port of the segment has, as that of a
    /// switch must.
    ///
    /// # Errors
    /// [`SimError`].
    pub fn attach_promiscuous(self: &Arc<Self>, mac: Option<[u8; 6]>) -> Result<SimPort, SimError> {
        self.join(mac, true, 1).map(|seat| self.port(&seat, 0))
    }

    /// A new host with several queues, and a port for each, which may be another thread's. What a
    /// host's queue `i` sends comes in at queue `i` of its receiver, modulo the queues that it has.
    ///
    /// # Errors
    /// [`SimError`].
    pub fn attach_queues(
        self: &Arc<Self>,
        mac: Option<[u8; 6]>,
        queues: NonZeroU8,
    ) -> Result<Vec<SimPort>, SimError> {
        let seat = self.join(mac, false, queues.get())?;
        Ok((0..queues.get().into()).map(|queue| self.port(&seat, queue)).collect())
    }

    fn join(&self, mac: Option<[u8; 6]>, promiscuous: bool, queues: u8) -> Result<Seat, SimError> {
        let mut stations = self.stations();
        let index = stations.iter().position(Option::is_none).unwrap_or(stations.len());
        let host = u8::try_from(index + 1).ok().filter(|_| index < PORTS_MAX).ok_or(SimError::Full)?;
        let mac = mac.unwrap_or([2, 0, 0, 0, 0, host]);
        if stations.iter().flatten().any(|station| station.mac == mac) {
            return Err(SimError::MacInUse(mac));
        }
        let inboxes: Box<[_]> = (0..queues)
            .map(|_| Mutex::new(Inbox { frames: FrameRing::new(INBOX_FRAMES, self.max_frame), dropped: 0 }))
            .collect();
        let in_use = AtomicUsize::new(inboxes.len());
        let station = Arc::new(Station { mac, promiscuous, inboxes, in_use });
        if index == stations.len() {
            stations.push(None);
        }
        stations[index] = Some(Arc::clone(&station));
        Ok(Seat { station, host })
    }

    fn port(self: &Arc<Self>, seat: &Seat, queue: usize) -> SimPort {
        let frames = |count| (0..count).map(|_| Frame::new(self.max_frame)).collect();
        SimPort {
            segment: Arc::clone(self),
            station: Arc::clone(&seat.station),
            host: seat.host,
            queue,
            received: frames(RX_BURST),
            burst: 0,
            queued: frames(TX_FRAMES),
            waiting: 0,
            stats: PortStats::default(),
        }
    }

    fn stations(&self) -> MutexGuard<'_, Vec<Option<Arc<Station>>>> {
        self.stations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Station {
    /// That of its queue, or of the one that takes its place.
    fn inbox(&self, queue: usize) -> MutexGuard<'_, Inbox> {
        let inbox = &self.inboxes[queue % self.inboxes.len()];
        inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A port of a [`Segment`]; it leaves the segment when dropped, or when the last port of its host
/// is.
pub struct SimPort {
    segment: Arc<Segment>,
    station: Arc<Station>,
    host: u8,
    queue: usize,
    received: Box<[Frame]>,
    burst: usize,
    queued: Box<[Frame]>,
    waiting: usize,
    stats: PortStats,
}

impl SimPort {
    /// Number of the port on its segment, 1 to 254.
    #[must_use]
    pub const fn host(&self) -> u8 {
        self.host
    }
}

impl Drop for SimPort {
    fn drop(&mut self) {
        let mut stations = self.segment.stations();
        // Under the lock: what others have done before is seen.
        if self.station.in_use.fetch_sub(1, Ordering::Relaxed) == 1 {
            stations[usize::from(self.host) - 1] = None;
        }
    }
}

/// Hands a frame to the stations that its destination names. False if there is none.
fn deliver(
    frame: &mut Frame,
    (from, queue): (&Arc<Station>, usize),
    stations: &[Option<Arc<Station>>],
) -> bool {
    let others = || stations.iter().flatten().filter(|station| !Arc::ptr_eq(station, from));
    let Some(&[first, ..]) = frame.bytes().first_chunk::<6>() else { return false };
    if first & 1 == 0 {
        let named = others().find(|station| frame.bytes().starts_with(&station.mac));
        let Some(station) = named.or_else(|| others().find(|station| station.promiscuous)) else {
            return false;
        };
        station.inbox(queue).put(|place| swap(place, frame));
        return true;
    }
    for station in others() {
        station.inbox(queue).put(|place| place.copy_from(frame.bytes()));
    }
    true
}

impl Port for SimPort {
    fn caps(&self) -> PortCaps {
        PortCaps { mac: self.station.mac, max_frame: self.segment.max_frame }
    }

    fn link_up(&self) -> bool {
        true
    }

    fn rx_burst(&mut self) -> usize {
        let mut inbox = self.station.inbox(self.queue);
        self.stats.rx_dropped = inbox.dropped;
        self.burst = self.received.iter_mut().map_while(|empty| inbox.take(empty).then_some(())).count();
        drop(inbox);
        let burst = &self.received[..self.burst];
        self.stats.rx_frames += burst.len() as u64;
        self.stats.rx_bytes += burst.iter().map(|frame| frame.len as u64).sum::<u64>();
        self.burst
    }

    fn rx_frame(&self, index: usize) -> RxFrame<'_> {
        RxFrame::new(self.received[..self.burst][index].bytes())
    }

    fn rx_waiting(&self) -> Option<usize> {
        Some(self.station.inbox(self.queue).frames.len())
    }

    fn rx_release(&mut self) {
        self.burst = 0;
    }

    fn tx_slot(&mut self) -> Option<&mut [u8]> {
        self.queued.get_mut(self.waiting).map(|frame| &mut *frame.bytes)
    }

    fn tx_commit(&mut self, len: usize) {
        let frame = &mut self.queued[self.waiting];
        assert!(len <= frame.bytes.len(), "a frame of {len} bytes in a slot of {}", frame.bytes.len());
        frame.len = len;
        self.waiting += 1;
    }

    fn tx_cancel(&mut self) {}

    fn tx_flush(&mut self) {
        if self.waiting == 0 {
            return;
        }
        let stations = self.segment.stations();
        for frame in &mut self.queued[..self.waiting] {
            let len = frame.len as u64;
            if deliver(frame, (&self.station, self.queue), &stations) {
                self.stats.tx_frames += 1;
                self.stats.tx_bytes += len;
            } else {
                self.stats.tx_dropped += 1;
            }
        }
        self.waiting = 0;
    }

    fn stats(&self) -> PortStats {
        self.stats
    }
}
