//! Swift: a target for the delay of the fabric, and one for that of the receiving host (Kumar et
//! al., SIGCOMM '20).

mod config;

pub use config::{SwiftConfig, TARGET_NS_MAX};

use crate::delay::{TICK_NS_LOG2, ticks};
use crate::window::Window;
use crate::{AckEvent, LossEvent, LossResponse, ONE};

/// What the excess over the target is weighted with: 0.8 in Q16.
const BETA: u32 = 52_429;
/// Most that one cut takes, in Q16: half.
const CUT_MAX: u32 = ONE / 2;
/// A window of one packet has a target larger by this many times the target, a window of
/// [`SCALING_PACKETS_MAX`] by none.
const SCALING_RANGE: u64 = 2;
/// Windows from this many packets on have the plain target.
const SCALING_PACKETS_MAX: u32 = 100;
/// 1 / sqrt([`SCALING_PACKETS_MAX`]) in Q16.
const SCALING_FLOOR: u32 = ONE / 10;

/// Swift.
///
/// It keeps two windows, one for the fabric and one for the receiving host, which ACK_DELAY tells
/// apart, and the smaller one counts. A delay below its target lets a window grow by one PMTU a
/// round trip. A delay above it takes 0.8 (delay - target) / delay off, half at most, and once a
/// round trip. Small windows have a larger fabric target, so that many flows on one link find room
/// beside each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Swift {
    max_window_bytes: u32,
    mtu_bytes: u16,
    /// Target of the host, in ticks of 64 ns.
    host_target: u16,
    fabric_target_ns: u32,
    fabric: Window,
    host: Window,
    /// Bytes until the window after a cut ends.
    cut_left: u32,
    loss_response: LossResponse,
    /// The last round trip was above its target.
    fabric_late: bool,
}

impl Swift {
    /// A controller with the largest window. Parameters out of range are moved to the nearest valid
    /// value.
    #[must_use]
    pub fn new(config: SwiftConfig) -> Self {
        let (max_window_bytes, mtu_bytes) = config.limits().clamped();
        Self {
            max_window_bytes,
            mtu_bytes,
            host_target: ticks(config.host_target_ns.max(1)),
            fabric_target_ns: config.fabric_target_ns.clamp(1, TARGET_NS_MAX),
            fabric: Window::new(max_window_bytes),
            host: Window::new(max_window_bytes),
            cut_left: 0,
            loss_response: config.loss_response,
            fabric_late: false,
        }
    }

    /// The window: bytes that may be in flight.
    #[must_use]
    pub const fn cwnd_bytes(&self) -> u32 {
        let (fabric, host) = (self.fabric.bytes(), self.host.bytes());
        if fabric < host { fabric } else { host }
    }

    /// The window for the fabric, and the window for the receiving host, in bytes.
    #[must_use]
    pub const fn windows(&self) -> (u32, u32) {
        (self.fabric.bytes(), self.host.bytes())
    }

    /// Packets were acknowledged.
    #[inline]
    pub fn on_ack(&mut self, event: &AckEvent) {
        if let Some(trip) = event.trip {
            self.fabric_late = trip.network_ns() > self.fabric_target_now();
        }
        let host_late = ticks(host_delay_ns(event)) > self.host_target;
        let at_rest = self.cut_left == 0 && self.cwnd_bytes() == self.max_window_bytes;
        if !self.fabric_late && !host_late && at_rest {
            return;
        }
        self.update(event, host_late);
    }

    /// Packets were lost: takes off what [`SwiftConfig::loss_response`] says, unless this window
    /// was cut already.
    pub fn on_loss_episode(&mut self, event: &LossEvent) {
        if self.cut_left == 0 {
            self.lose(event);
        }
    }

    /// The retransmission timer fired: a loss, whatever was cut before.
    pub fn on_rto(&mut self, event: &LossEvent) {
        self.lose(event);
    }

    fn update(&mut self, event: &AckEvent, host_late: bool) {
        let cuts = self.cut_left == 0 && self.cut_excess(event);
        self.grow(event, host_late);
        if cuts {
            self.cut_left = self.cwnd_bytes();
        }
        self.cut_left = self.cut_left.saturating_sub(event.acked_bytes);
    }

    /// Cuts the windows whose delay is above its target. False if none is.
    fn cut_excess(&mut self, event: &AckEvent) -> bool {
        let fabric = event.trip.map_or(0, |trip| excess(trip.network_ns(), self.fabric_target_now()));
        let host = excess(host_delay_ns(event), u32::from(self.host_target) << TICK_NS_LOG2);
        if fabric == 0 && host == 0 {
            return false;
        }
        for (window, excess) in [(&mut self.fabric, fabric), (&mut self.host, host)] {
            // The growth of one that is not late goes on.
            if excess != 0 {
                window.cut(2 * excess, self.mtu_bytes.into());
            }
        }
        true
    }

    /// Grows the windows whose delay is not.
    fn grow(&mut self, event: &AckEvent, host_late: bool) {
        if event.app_limited {
            return;
        }
        let (mtu, max) = (u32::from(self.mtu_bytes), self.max_window_bytes);
        if !self.fabric_late {
            self.fabric.grow(event.acked_bytes, mtu, max, |window| window);
        }
        if !host_late {
            self.host.grow(event.acked_bytes, mtu, max, |window| window);
        }
    }

    /// The fabric's target for a window of this size, in nanoseconds.
    fn fabric_target_now(&self) -> u32 {
        let packets = (self.fabric.bytes() / u32::from(self.mtu_bytes)).clamp(1, SCALING_PACKETS_MAX);
        // 1 / sqrt(packets) in Q16.
        let inverse = (1 << 24) / (packets << 16).isqrt();
        let scale = u64::from(inverse.saturating_sub(SCALING_FLOOR).min(ONE - SCALING_FLOOR));
        let target = u64::from(self.fabric_target_ns);
        let more = target * SCALING_RANGE * scale / u64::from(ONE - SCALING_FLOOR);
        u32::try_from(target + more).unwrap_or(u32::MAX)
    }

    pub(crate) const fn loss_response(&self) -> LossResponse {
        self.loss_response
    }

    /// Back to a window of `window_bytes`, if it is smaller now.
    pub(crate) fn restore(&mut self, window_bytes: u32) {
        for window in [&mut self.fabric, &mut self.host] {
            window.restore(window_bytes);
        }
        self.cut_left = 0;
    }

    fn lose(&mut self, event: &LossEvent) {
        let cut = self.loss_response.cut(event);
        if cut == 0 {
            return;
        }
        for window in [&mut self.fabric, &mut self.host] {
            window.cut(2 * cut, self.mtu_bytes.into());
        }
        self.cut_left = self.cwnd_bytes();
    }
}

/// Time that the receiving host spent, in nanoseconds. One that is not kept busy may sleep, and
/// what a packet waits for that is not congestion.
const fn host_delay_ns(event: &AckEvent) -> u32 {
    if event.app_limited { 0 } else { event.host_delay_ns }
}

/// What a delay above its target takes off a window, in Q16.
fn excess(delay_ns: u32, target_ns: u32) -> u32 {
    let over = delay_ns.saturating_sub(target_ns);
    if over == 0 {
        return 0;
    }
    let fraction = u64::from(over) * u64::from(BETA) / u64::from(delay_ns);
    u32::try_from(fraction).unwrap_or(CUT_MAX).min(CUT_MAX)
}

#[cfg(test)]
mod tests;
