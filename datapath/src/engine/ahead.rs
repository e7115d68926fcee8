//! Looking ahead: with many queue pairs, what each needs is fetched while others are served.
//!
//! One thing leads to the next: a context to its queue, the queue to a request, the request to the payload. Each is fetched some
//! frames or turns after the one before it.

use super::Engine;
use crate::port::Port;
use crate::prefetch;

/// Frames between the one that is handled and those of which this is fetched: themselves, hot and cold part of their queue
/// pair, its receive queue, and its next receive.
mod frames {
    pub const FRAME: usize = 16;
    pub const HOT: usize = 12;
    pub const COLD: usize = 8;
    pub const QUEUE: usize = 6;
    pub const RECEIVE: usize = 4;
}

/// Turns between the present one and those of which this is fetched: hot and cold part of the queue pair, its send queue, its
/// next requests, and the payload of the first.
mod turns {
    pub const HOT: usize = 8;
    pub const COLD: usize = 6;
    pub const QUEUE: usize = 4;
    pub const REQUESTS: usize = 2;
    pub const PAYLOAD: usize = 1;
}

/// Where a frame has its destination QPN: behind Ethernet, IP, UDP and five bytes of BTH.
const DEST_QP_V4: usize = 14 + 20 + 8 + 5;
const DEST_QP_V6: usize = 14 + 40 + 8 + 5;

impl<P: Port> Engine<P> {
    /// Before frame `index` of a burst is handled.
    #[inline]
    pub(super) fn expect_frames(&self, index: usize, burst: usize) {
        let frame = |index| self.wire.port.rx_frame(index);
        let from = |ahead: usize| if index == 0 { 0 } else { index + ahead };
        for next in from(frames::FRAME)..(index + frames::FRAME + 1).min(burst) {
            prefetch::read(frame(next).as_ptr());
        }
        for next in from(frames::HOT)..(index + frames::HOT + 1).min(burst) {
            self.qps.expect_hot(destination(frame(next)));
        }
        if index + frames::COLD < burst {
            self.qps.expect_cold(destination(frame(index + frames::COLD)));
        }
        if index + frames::QUEUE < burst {
            self.qps.expect_receives(destination(frame(index + frames::QUEUE)));
        }
        if index + frames::RECEIVE < burst {
            self.qps.expect_receive(destination(frame(index + frames::RECEIVE)));
        }
    }

    /// Before a turn: what the next turns need.
    #[inline]
    pub(super) fn expect_turns(&self) {
        let slot = |turns| self.units.mux.ahead(turns);
        if let Some(slot) = slot(turns::HOT) {
            self.qps.expect_hot(slot);
        }
        if let Some(slot) = slot(turns::COLD) {
            self.qps.expect_cold(slot);
        }
        if let Some(slot) = slot(turns::QUEUE) {
            self.qps.expect_send_queue(slot);
        }
        if let Some(slot) = slot(turns::REQUESTS) {
            self.qps.expect_requests(slot);
        }
        if let Some(slot) = slot(turns::PAYLOAD) {
            self.qps.expect_payload(slot, &self.units.memory);
        }
    }

    /// Before all these queue pairs are served, one after the other: their hot parts, then the cold ones.
    #[inline]
    pub(super) fn expect_all(&self, slots: impl Iterator<Item = u32> + Clone) {
        slots.clone().for_each(|slot| self.qps.expect_hot(slot));
        slots.for_each(|slot| self.qps.expect_cold(slot));
    }
}

/// The destination QPN, if the frame is a packet of RoCE without a VLAN tag; else any number, as it is no more than a hint.
#[inline]
fn destination(frame: &[u8]) -> u32 {
    let at = if frame.get(12) == Some(&0x86) { DEST_QP_V6 } else { DEST_QP_V4 };
    let bytes = frame.get(at..).and_then(<[u8]>::first_chunk::<3>);
    bytes.map_or(0, |&[high, middle, low]| u32::from_be_bytes([0, high, middle, low]))
}
