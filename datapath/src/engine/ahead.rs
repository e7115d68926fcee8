//! Looking ahead: with many queue pairs, what each needs is fetched while others are served.
//!
//! One thing leads to the next: a context to its queue, the queue to a request, the request to the payload. Each is fetched some
//! frames or turns after the one before it.

use super::Engine;
use crate::port::{Port, RX_BURST};
use crate::prefetch;
use wire::Opcode;

/// Frames between the one that is handled and those of which this is fetched: hot and cold part of their queue pair, the queue of
/// its receives, the first of these, and where a payload goes. Of an acknowledgement: the send queue and the timer.
mod frames {
    pub const HOT: usize = 12;
    pub const COLD: usize = 8;
    pub const QUEUE: usize = 6;
    pub const RECEIVE: usize = 4;
    pub const TARGET: usize = 3;
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

/// Where a frame has its BTH: behind Ethernet, IP and UDP.
const BTH_V4: usize = 14 + 20 + 8;
const BTH_V6: usize = 14 + 40 + 8;

impl<P: Port> Engine<P> {
    /// Before the first frame of a burst is handled: whose they are.
    #[inline]
    pub(super) fn look_over(&self, burst: usize) -> Arrivals {
        let frame = |index| self.wire.port.rx_frame(index);
        let count = burst.min(RX_BURST);
        (0..count).for_each(|index| prefetch::read(frame(index).as_ptr()));
        let mut arrivals = Arrivals { count, of: [Arrival::FOLLOWS; RX_BURST] };
        let mut last = Arrival::FOLLOWS;
        for (index, of) in arrivals.of[..count].iter_mut().enumerate() {
            let arrival = Arrival::of(frame(index));
            if arrival != last {
                (*of, last) = (arrival, arrival);
            }
        }
        arrivals
    }

    /// Before frame `index` of them is handled, or after it if those before `next` went together.
    #[inline(never)]
    pub(super) fn expect_frames(&self, arrivals: &Arrivals, index: usize, next: usize) {
        arrivals.step(index, frames::HOT, |to, _| self.qps.expect_hot(to.qpn()));
        arrivals.step(index, frames::COLD, |to, _| {
            if to.acknowledges() {
                self.qps.expect_sending(to.qpn());
            } else {
                self.qps.expect_receiving(to.qpn());
            }
        });
        arrivals.step(index, frames::QUEUE, |to, _| {
            if to.acknowledges() {
                self.qps.expect_send_queue(to.qpn());
                self.units.timers.expect(self.qps.slot_of(to.qpn()));
            } else {
                self.qps.expect_receives(to.qpn());
            }
        });
        arrivals.step(index, frames::RECEIVE, |to, at| {
            if !to.acknowledges() {
                self.qps.expect_receive(to.qpn(), arrivals.together(at));
            }
        });
        if !self.units.srqs.is_empty() {
            for index in from(index, frames::TARGET)..(index + frames::TARGET + 1).min(arrivals.count) {
                let (frame, ahead) = (self.wire.port.rx_frame(index), index.checked_sub(next));
                let to = Arrival::of(frame);
                if let Some(ahead) = ahead
                    && !to.acknowledges()
                {
                    self.qps.expect_target(to.qpn(), ahead, frame.len(), &self.units);
                }
            }
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
            self.qps.expect_sending(slot);
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
        slots.for_each(|slot| self.qps.expect_sending(slot));
    }
}

/// Whose the frames of a burst are.
pub(super) struct Arrivals {
    count: usize,
    of: [Arrival; RX_BURST],
}

impl Arrivals {
    /// Takes a step for the frame that is so far `ahead`, if it is not of the same queue pair as the one before it; it is told
    /// its index.
    #[inline(always)]
    fn step(&self, index: usize, ahead: usize, expect: impl Fn(Arrival, usize)) {
        for next in from(index, ahead)..(index + ahead + 1).min(self.count) {
            if self.of[next] != Arrival::FOLLOWS {
                expect(self.of[next], next);
            }
        }
    }

    /// How many frames are of the same queue pair from `index` on; beyond eight the processor has learnt where to go.
    fn together(&self, index: usize) -> u32 {
        let followers = self.of[index + 1..self.count].iter().take(7);
        followers.take_while(|of| **of == Arrival::FOLLOWS).fold(1, |count, _| count + 1)
    }
}

/// The first frame for which a step is taken `ahead` of frame `index`. Nobody is before the first ones: each step is taken for
/// all of them, so that they wait together.
const fn from(index: usize, ahead: usize) -> usize {
    if index == 0 { 0 } else { index + ahead }
}

/// What a frame says of itself before anything about it has been checked: a QPN, and whether it acknowledges.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Arrival(u32);

impl Arrival {
    /// It is of the same queue pair as the frame before it.
    const FOLLOWS: Self = Self(u32::MAX);
    const ACKNOWLEDGES: u32 = 1 << 24;

    /// Of a packet of RoCE without a VLAN tag; else anything, as it is no more than a hint.
    #[inline]
    fn of(frame: &[u8]) -> Self {
        let at = if frame.get(12) == Some(&0x86) { BTH_V6 } else { BTH_V4 };
        let bytes = frame.get(at..).and_then(<[u8]>::first_chunk::<8>);
        bytes.map_or(Self(0), |&[opcode, _, _, _, _, high, middle, low]| {
            let acknowledges = u32::from(opcode == Opcode::RcAck as u8) * Self::ACKNOWLEDGES;
            Self(u32::from_be_bytes([0, high, middle, low]) | acknowledges)
        })
    }

    const fn qpn(self) -> u32 {
        self.0 & (Self::ACKNOWLEDGES - 1)
    }

    const fn acknowledges(self) -> bool {
        self.0 & Self::ACKNOWLEDGES != 0
    }
}
