//! DCTCP in bytes, after protocol.md 2.6 and RFC 8257.

mod config;

pub use config::DctcpConfig;
pub(crate) use config::G_SHIFT_MAX;

use crate::delay::ticks;
use crate::window::Window;
use crate::{AckEvent, LossEvent, LossResponse, ONE, RoundTrip};

/// Fair growth is slowed down by this factor at most.
const SLOWEST: u32 = 1024;
/// Windows for which growth stays careful after a loss.
const CAREFUL_WINDOWS: u8 = 32;
/// PMTUs acknowledged for each PMTU of careful growth, at least.
const CAREFUL_STEP: u32 = 8;

/// DCTCP.
///
/// A *window* is as many acknowledged bytes as `cwnd` had when it began. Once a window alpha moves
/// towards the fraction F of its packets that were marked: alpha <- (1 - g) alpha + g F. The first
/// mark cuts `cwnd` by alpha / 2, and for one window from there nothing cuts again and nothing
/// grows. Otherwise each window of acknowledged bytes adds one PMTU, or what
/// [`DctcpConfig::rtt_reference_ns`] makes of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dctcp {
    max_window_bytes: u32,
    mtu_bytes: u16,
    /// Reference round trip of fair growth, in ticks of 64 ns; 0: growth is not scaled.
    reference: u16,
    cwnd: Window,
    /// alpha / g in Q16. With the gain's bits kept, no rounding builds up: alpha settles at F and
    /// decays to 0.
    alpha_over_g: u32,
    /// Packets acknowledged in this window, and marks counted in it; both saturate, and no window
    /// is that large.
    packets: u16,
    marked: u16,
    /// Bytes until this window ends.
    window_left: u32,
    /// Bytes until the window after a cut ends.
    cut_left: u32,
    /// Smoothed round trip in ticks of 64 ns, kept for fair growth only; 0: no sample yet.
    rtt: u16,
    g_shift: u8,
    /// Windows for which growth stays careful.
    careful: u8,
    loss_response: LossResponse,
}

impl Dctcp {
    /// A controller with the largest window and alpha = 1. Parameters out of range are moved to the
    /// nearest valid value.
    #[must_use]
    pub fn new(config: DctcpConfig) -> Self {
        let (max_window_bytes, mtu_bytes) = config.limits().clamped();
        let g_shift = config.g_shift.clamp(1, G_SHIFT_MAX);
        Self {
            max_window_bytes,
            mtu_bytes,
            reference: ticks(config.rtt_reference_ns),
            cwnd: Window::new(max_window_bytes),
            alpha_over_g: ONE << g_shift,
            packets: 0,
            marked: 0,
            window_left: max_window_bytes,
            cut_left: 0,
            rtt: 0,
            g_shift: g_shift as u8,
            careful: 0,
            loss_response: config.loss_response,
        }
    }

    /// The window: bytes that may be in flight.
    #[must_use]
    pub const fn cwnd_bytes(&self) -> u32 {
        self.cwnd.bytes()
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
        if uncongested && self.cwnd.bytes() == self.max_window_bytes {
            // Nothing would change but where the next window begins.
            return;
        }
        self.update(event);
    }

    /// Packets were lost: takes off what [`DctcpConfig::loss_response`] says, unless this window
    /// was cut already.
    pub fn on_loss_episode(&mut self, event: &LossEvent) {
        if event.is_careful() {
            self.careful = CAREFUL_WINDOWS;
        }
        if self.cut_left == 0 {
            self.lose(event);
        }
    }

    /// The retransmission timer fired: a loss, whatever was cut before, since nothing came back for
    /// a whole round trip.
    pub fn on_rto(&mut self, event: &LossEvent) {
        self.lose(event);
    }

    pub(crate) const fn loss_response(&self) -> LossResponse {
        self.loss_response
    }

    /// Back to a window of `window_bytes`, if it is smaller now.
    pub(crate) fn restore(&mut self, window_bytes: u32) {
        self.cwnd.restore(window_bytes);
        self.cut_left = 0;
    }

    fn lose(&mut self, event: &LossEvent) {
        let cut = self.loss_response.cut(event);
        if cut > 0 {
            self.cut(2 * cut);
        }
    }

    /// A congestion notification packet came. It says that packets are marked, not how many: the
    /// whole window counts as marked.
    pub fn on_cnp(&mut self, _now_ns: u64) {
        self.marked = u16::MAX;
        self.cut_once();
    }

    fn update(&mut self, event: &AckEvent) {
        self.packets = add(self.packets, event.acked_packets);
        self.marked = add(self.marked, event.ce_delta);
        if self.reference != 0 {
            self.smooth(event.trip);
        }
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
        let marked = u32::from(self.marked) << 16;
        let fraction = marked.checked_div(self.packets.into()).unwrap_or(0).min(ONE);
        self.alpha_over_g = self.alpha_over_g - self.alpha() + fraction;
        (self.packets, self.marked) = (0, 0);
        self.window_left = self.cwnd.bytes();
        self.careful = self.careful.saturating_sub(1);
    }

    fn cut_once(&mut self) {
        if self.cut_left == 0 {
            self.cut(self.alpha());
        }
    }

    /// Takes half of `fraction` (Q16) off the window, and allows no further cut for one window.
    fn cut(&mut self, fraction: u32) {
        self.cwnd.cut(fraction, self.mtu_bytes.into());
        self.cut_left = self.cwnd.bytes();
    }

    fn grow(&mut self, acked_bytes: u32) {
        let (mtu, max) = (u32::from(self.mtu_bytes), self.max_window_bytes);
        let (reference, rtt) = (self.reference, self.rtt);
        if self.careful > 0 {
            return self.cwnd.grow(acked_bytes, mtu, max, |window| window.max(CAREFUL_STEP * mtu));
        }
        if reference == 0 || rtt == 0 {
            self.cwnd.grow(acked_bytes, mtu, max, |window| window);
        } else {
            self.cwnd.grow(acked_bytes, mtu, max, |window| fair_step(window, mtu, reference, rtt));
        }
    }

    /// The round trip moves by an eighth towards each sample.
    fn smooth(&mut self, trip: Option<RoundTrip>) {
        let Some(trip) = trip else { return };
        let sample = ticks(trip.total_ns()).max(1);
        // Rounded up both ways, so that it gets there.
        let step = self.rtt.abs_diff(sample).div_ceil(8);
        self.rtt = match self.rtt {
            0 => sample,
            rtt if rtt < sample => rtt + step,
            rtt => rtt - step,
        };
    }
}

/// Bytes acknowledged for each PMTU of growth, where a round trip takes `rtt` instead of
/// `reference`: at most twice the window after one round trip.
fn fair_step(window: u32, mtu: u32, reference: u16, rtt: u16) -> u32 {
    let square = |time: u16| u64::from(time) * u64::from(time);
    let step = u64::from(window) * square(reference) / square(rtt);
    u32::try_from(step).unwrap_or(u32::MAX).clamp(mtu, window.saturating_mul(SLOWEST))
}

fn add(count: u16, more: u32) -> u16 {
    u16::try_from(u32::from(count).saturating_add(more)).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests;
