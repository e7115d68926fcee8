//! A port whose network loses, duplicates, reorders, corrupts, delays and marks frames: seeded, so
//! that every run can be had again.
//!
//! Frames of a faulty direction are copied once, into buffers made at the start; a direction
//! without faults passes straight through. A full transmit ring of the port below is a queue that
//! fills, and a full queue drops.

mod alter;
mod class;
mod config;
mod judge;
mod lane;
mod pool;
mod rule;
mod stats;
#[cfg(test)]
mod tests;

pub use alter::mark_ce;
pub use class::FrameClass;
pub use config::{Direction, FaultConfig, Probability};
pub use rule::{BlackHole, DropRule, DropRules};
pub use stats::{FaultStats, LaneStats};

use super::delegate::delegate;
use super::{Bursts, FilterError, LinkDown, Port, PortCaps, PortStats, RX_BURST, Rest, RxFrame};
use crate::time::Time;
use arrayvec::ArrayVec;
use judge::Side;
use lane::{Frame, Lane};
use pool::Buffer;

/// A [`Port`] with faults around another.
#[derive(Debug)]
pub struct Fault<P: Port> {
    inner: P,
    now: Time,
    tx: Option<Lane>,
    rx: Option<Lane>,
    /// The slot lent last.
    lent: Option<Buffer>,
    /// A frame that has left its lane, but found the port below full.
    blocked: Option<Frame>,
    burst: ArrayVec<Frame, RX_BURST>,
}

impl<P: Port> Fault<P> {
    /// Puts faults around `inner`.
    pub fn new(inner: P, config: &FaultConfig) -> Self {
        let max_frame = inner.caps().max_frame;
        let tx = matches!(config.dir, Direction::Tx | Direction::Both);
        let rx = matches!(config.dir, Direction::Rx | Direction::Both);
        Self {
            inner,
            now: Time::ZERO,
            tx: tx.then(|| Lane::new(config, Side::Tx, max_frame)),
            rx: rx.then(|| Lane::new(config, Side::Rx, max_frame)),
            lent: None,
            blocked: None,
            burst: ArrayVec::new(),
        }
    }

    /// The port below.
    pub const fn inner(&self) -> &P {
        &self.inner
    }

    /// The port below.
    pub const fn inner_mut(&mut self) -> &mut P {
        &mut self.inner
    }

    /// The counters of injected faults.
    #[must_use]
    pub fn fault_stats(&self) -> FaultStats {
        let stats = |lane: &Option<Lane>| lane.as_ref().map_or_else(LaneStats::default, |lane| *lane.stats());
        FaultStats { tx: stats(&self.tx), rx: stats(&self.rx) }
    }

    /// Moves what is due to the port below, until that is full.
    fn pump_tx(&mut self) {
        let Some(lane) = &mut self.tx else { return };
        while let Some(frame) = self.blocked.take().or_else(|| lane.poll(self.now)) {
            let Some(slot) = self.inner.tx_slot() else {
                self.blocked = Some(frame);
                return;
            };
            let bytes = lane.bytes(&frame);
            let len = bytes.len();
            slot[..len].copy_from_slice(bytes);
            self.inner.tx_commit(len);
            lane.release(frame);
        }
    }
}

impl<P: Port> Port for Fault<P> {
    delegate! {
        to self.inner;
        fn caps(&self) -> PortCaps;
        fn link_up(&self) -> bool;
        fn link_down(&self) -> Option<LinkDown>;
        fn tx_ahead(&self) -> Option<usize>;
        fn pass_on(&mut self, frame: &[u8]) -> bool;
        fn take_passed_on(&mut self) -> usize;
        fn set_groups(&mut self, macs: &[[u8; 6]]) -> Result<(), FilterError>;
    }

    fn rx_limit(&self) -> usize {
        if self.rx.is_some() { RX_BURST } else { self.inner.rx_limit() }
    }

    fn rx_burst(&mut self) -> usize {
        let Some(lane) = &mut self.rx else { return self.inner.rx_burst() };
        let mut bursts = Bursts::new();
        while let Some(burst) = bursts.next(&mut self.inner) {
            for index in 0..burst {
                lane.copy_in(self.now, self.inner.rx_frame(index).bytes());
            }
            self.inner.rx_release();
        }
        while !self.burst.is_full() {
            let Some(frame) = lane.poll(self.now) else { break };
            self.burst.push(frame);
        }
        self.burst.len()
    }

    fn rx_frame(&self, index: usize) -> RxFrame<'_> {
        match &self.rx {
            Some(lane) => RxFrame::new(lane.bytes(&self.burst[index])),
            None => self.inner.rx_frame(index),
        }
    }

    fn rx_release(&mut self) {
        match &mut self.rx {
            Some(lane) => self.burst.drain(..).for_each(|frame| lane.release(frame)),
            None => self.inner.rx_release(),
        }
    }

    fn tx_slot(&mut self) -> Option<&mut [u8]> {
        let Some(lane) = &mut self.tx else { return self.inner.tx_slot() };
        let buffer = match self.lent.take() {
            Some(buffer) => buffer,
            None => lane.take()?,
        };
        Some(lane.buffer_mut(self.lent.insert(buffer)))
    }

    fn tx_commit(&mut self, len: usize) {
        let Some(lane) = &mut self.tx else { return self.inner.tx_commit(len) };
        let buffer = self.lent.take().expect("tx_commit without a slot");
        lane.enter(self.now, buffer, len);
        self.pump_tx();
    }

    fn tx_cancel(&mut self) {
        match &mut self.tx {
            Some(lane) => {
                if let Some(buffer) = self.lent.take() {
                    lane.give(buffer);
                }
            }
            None => self.inner.tx_cancel(),
        }
    }

    fn tx_flush(&mut self) {
        self.pump_tx();
        self.inner.tx_flush();
    }

    fn tx_waiting(&self) -> Option<usize> {
        let own = self.tx.as_ref().map_or(0, Lane::waiting) + usize::from(self.blocked.is_some());
        if own > 0 { Some(own) } else { self.inner.tx_waiting() }
    }

    fn rest(&mut self) -> Rest {
        // Nobody tells when the port below has room again.
        if self.blocked.is_some() { Rest::default() } else { self.inner.rest() }
    }

    fn next_due(&self) -> Option<Time> {
        let own = [&self.tx, &self.rx].into_iter().flatten().filter_map(Lane::next_due);
        own.chain(self.inner.next_due()).min()
    }

    fn set_now(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.inner.set_now(now);
    }

    /// As the engine sees it: frames lost to a fault count as dropped, duplicates as received.
    fn stats(&self) -> PortStats {
        let mut stats = self.inner.stats();
        if let Some(tx) = self.tx.as_ref().map(Lane::stats) {
            stats.tx_dropped += tx.dropped();
        }
        if let Some(rx) = self.rx.as_ref().map(Lane::stats) {
            stats.rx_frames = rx.passed;
            stats.rx_bytes = rx.passed_bytes;
            stats.rx_dropped += rx.dropped();
        }
        stats
    }
}
