//! DCTCP in bytes, after protocol.md 2.6 and RFC 8257.

use crate::{AckEvent, DctcpConfig, LossResponse};

/// 1.0 in Q16.
const ONE: u32 = 1 << 16;

/// DCTCP.
///
/// A *window* is as many acknowledged bytes as `cwnd` had when it began. Once a window alpha moves towards the fraction
/// F of its packets that were marked: alpha <- (1 - g) alpha + g F. The first mark cuts `cwnd` by alpha / 2, and for one
/// window from there nothing cuts again and nothing grows. Otherwise each window of acknowledged bytes adds one PMTU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dctcp {
    max_window_bytes: u32,
    mtu_bytes: u16,
    g_shift: u8,
    loss_response: LossResponse,
    cwnd: u32,
    /// alpha / g in Q16. With the gain's bits kept, no rounding builds up: alpha settles at F and decays to 0.
    alpha_over_g: u32,
    /// Bytes acknowledged towards the next PMTU of growth.
    growth_bytes: u32,
    /// Packets acknowledged in this window.
    packets: u32,
    /// Marks counted in this window.
    marked: u32,
    /// Bytes until this window ends.
    window_left: u32,
    /// Bytes until the window after a cut ends.
    cut_left: u32,
}

impl Dctcp {
    /// A controller with the largest window and alpha = 1. Parameters out of range are moved to the nearest valid value.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the clamped PMTU is at most 4096, the shift at most 10"
    )]
    pub fn new(config: DctcpConfig) -> Self {
        let config = config.clamped();
        Self {
            max_window_bytes: config.max_window_bytes,
            mtu_bytes: config.mtu_bytes as u16,
            g_shift: config.g_shift as u8,
            loss_response: config.loss_response,
            cwnd: config.max_window_bytes,
            alpha_over_g: ONE << config.g_shift,
            growth_bytes: 0,
            packets: 0,
            marked: 0,
            window_left: config.max_window_bytes,
            cut_left: 0,
        }
    }

    /// The window: bytes that may be in flight.
    #[must_use]
    pub const fn cwnd_bytes(&self) -> u32 {
        self.cwnd
    }

    /// The estimate of the marked fraction, in Q16: 65,536 is 1.
    #[must_use]
    pub const fn alpha(&self) -> u32 {
        self.alpha_over_g >> self.g_shift
    }

    /// Packets were acknowledged.
    #[inline]
    pub fn on_ack(&mut self, event: &AckEvent) {
        let uncongested = event.ce_delta == 0 && self.marked == 0 && self.alpha() == 0;
        if uncongested && self.cwnd == self.max_window_bytes {
            // Nothing would change but where the next window begins.
            return;
        }
        self.update(event);
    }

    /// Packets were lost: half the window, if losses count and this window was not cut yet.
    pub fn on_loss_episode(&mut self, _now_ns: u64) {
        if self.loss_response == LossResponse::HalvePerEpisode && self.cut_left == 0 {
            self.cut(ONE);
        }
    }

    /// The retransmission timer fired: half the window, if losses count. Whatever was cut before is over, since nothing
    /// came back for a whole round trip.
    pub fn on_rto(&mut self, _now_ns: u64) {
        if self.loss_response == LossResponse::HalvePerEpisode {
            self.cut(ONE);
        }
    }

    /// A congestion notification packet came. It says that packets are marked, not how many: the whole window counts as
    /// marked.
    pub fn on_cnp(&mut self, _now_ns: u64) {
        self.marked = u32::MAX;
        self.cut_once();
    }

    fn update(&mut self, event: &AckEvent) {
        self.packets = self.packets.saturating_add(event.acked_packets);
        self.marked = self.marked.saturating_add(event.ce_delta);
        if event.ce_delta != 0 {
            self.cut_once();
        } else if self.cut_left == 0 && !event.app_limited {
            self.grow(event.acked_bytes);
        }
        self.cut_left = self.cut_left.saturating_sub(event.acked_bytes);
        self.window_left = self.window_left.saturating_sub(event.acked_bytes);
        if self.window_left == 0 {
            self.end_window();
        }
    }

    /// alpha <- (1 - g) alpha + g F, kept as alpha / g.
    fn end_window(&mut self) {
        let fraction = match u64::from(self.packets) {
            0 => 0,
            packets => (u64::from(self.marked) << 16) / packets,
        };
        let fraction = u32::try_from(fraction).unwrap_or(ONE).min(ONE);
        self.alpha_over_g = self.alpha_over_g - self.alpha() + fraction;
        (self.packets, self.marked) = (0, 0);
        self.window_left = self.cwnd;
    }

    fn cut_once(&mut self) {
        if self.cut_left == 0 {
            self.cut(self.alpha());
        }
    }

    /// Takes half of `fraction` (Q16) off the window, and allows no further cut for one window.
    fn cut(&mut self, fraction: u32) {
        let reduction = (u64::from(self.cwnd) * u64::from(fraction)) >> 17;
        let reduction = u32::try_from(reduction).unwrap_or(u32::MAX);
        self.cwnd = self.cwnd.saturating_sub(reduction).max(u32::from(self.mtu_bytes));
        self.cut_left = self.cwnd;
        self.growth_bytes = 0;
    }

    /// One PMTU for each window of acknowledged bytes; what is over counts towards the next.
    fn grow(&mut self, acked_bytes: u32) {
        self.growth_bytes = self.growth_bytes.saturating_add(acked_bytes);
        while self.growth_bytes >= self.cwnd && self.cwnd < self.max_window_bytes {
            self.growth_bytes -= self.cwnd;
            self.cwnd = self.cwnd.saturating_add(u32::from(self.mtu_bytes)).min(self.max_window_bytes);
        }
    }
}

#[cfg(test)]
mod tests;
