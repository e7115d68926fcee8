//! DCQCN, with its rate kept as a window (Zhu et al., SIGCOMM '15).

use crate::config::Limits;
use crate::{AckEvent, ConfigError, LossEvent, LossResponse, ONE};

/// log2 of the gain's inverse: g = 1/256.
const G_SHIFT: u32 = 8;
/// log2 of a clock tick in nanoseconds: 1.024 us.
const TICK_NS_LOG2: u32 = 10;
/// Ticks between two decays of alpha and two rises of the timer: 55 us.
const PERIOD_TICKS: u32 = 54;
/// Least ticks between two cuts: 50 us, as rarely as notifications come (protocol.md 1.8).
const CUT_TICKS: u32 = 49;
/// Periods without a sign of congestion after which all is forgotten: alpha has decayed by e^-8.
const FORGET_PERIODS: u32 = 8 << G_SHIFT;
/// Acknowledged bytes between two rises of the byte counter.
const RISE_BYTES: u32 = 10_000_000;
/// Rises of either counter in fast recovery.
const FAST_RECOVERY: u8 = 5;
/// The window rises by this part of the largest one: 40 Mb/s of 40 Gb/s.
const ADDITIVE_PART: u32 = 1024;
/// Steps of additive increase in one of hyper increase.
const HYPER: u32 = 10;

/// Parameters of [`Dcqcn`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DcqcnConfig {
    /// Largest window, and the first one, in bytes: the line's rate.
    pub max_window_bytes: u32,
    /// PMTU, in bytes: smallest window.
    pub mtu_bytes: u32,
    /// The response to losses.
    pub loss_response: LossResponse,
}

impl DcqcnConfig {
    /// Nothing is done about losses: DCQCN was made for networks without.
    #[must_use]
    pub const fn new(max_window_bytes: u32, mtu_bytes: u32) -> Self {
        Self { max_window_bytes, mtu_bytes, loss_response: LossResponse::None }
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        self.limits().validate()
    }

    const fn limits(&self) -> Limits {
        Limits { max_window_bytes: self.max_window_bytes, mtu_bytes: self.mtu_bytes }
    }
}

/// DCQCN, for `Plain` mode and as a baseline.
///
/// The published algorithm paces packets by a rate; here the rate stands as a window, of so many
/// bytes in each round trip. A notification, or a mark that an acknowledgement tells of, cuts it by
/// alpha / 2, at most once in 50 us. Without, it rises every 55 us and every 10 MB: half way back
/// to where it was five times, then by steps. The clock is read when something is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dcqcn {
    max_window_bytes: u32,
    mtu_bytes: u16,
    loss_response: LossResponse,
    started: bool,
    cwnd: u32,
    /// Where fast recovery leads.
    target: u32,
    /// In Q16.
    alpha: u32,
    /// Start of this period, in ticks of 1.024 us.
    period_at: u32,
    /// Time of the last cut, in ticks.
    cut_at: u32,
    /// Bytes acknowledged towards the byte counter.
    bytes: u32,
    /// Rises since the last cut: by the timer, by the byte counter.
    rises: [u8; 2],
    /// A cut has happened: `cut_at` means something.
    cut_before: bool,
}

impl Dcqcn {
    /// A controller with the largest window and alpha = 1. Parameters out of range are moved to the
    /// nearest valid value.
    #[must_use]
    pub fn new(config: DcqcnConfig) -> Self {
        let (max_window_bytes, mtu_bytes) = config.limits().clamped();
        Self {
            max_window_bytes,
            mtu_bytes,
            loss_response: config.loss_response,
            started: false,
            cwnd: max_window_bytes,
            target: max_window_bytes,
            alpha: ONE,
            period_at: 0,
            cut_at: 0,
            bytes: 0,
            rises: [0; 2],
            cut_before: false,
        }
    }

    /// The window: bytes that may be in flight.
    #[must_use]
    pub const fn cwnd_bytes(&self) -> u32 {
        self.cwnd
    }

    /// The estimate of congestion, in Q16: 65,536 is 1.
    #[must_use]
    pub const fn alpha(&self) -> u32 {
        self.alpha
    }

    /// Packets were acknowledged.
    #[inline]
    pub fn on_ack(&mut self, event: &AckEvent) {
        let now = ticks(event.now_ns);
        if event.ce_delta != 0 {
            self.congested(now);
            return;
        }
        self.advance(now, event.app_limited);
        self.bytes = self.bytes.saturating_add(event.acked_bytes);
        if self.bytes >= RISE_BYTES {
            self.bytes = 0;
            self.rise(1, event.app_limited);
        }
    }

    /// A congestion notification packet came.
    pub fn on_cnp(&mut self, now_ns: u64) {
        self.congested(ticks(now_ns));
    }

    /// Packets were lost: takes off what [`DcqcnConfig::loss_response`] says, unless there was a
    /// cut just now.
    pub fn on_loss_episode(&mut self, event: &LossEvent) {
        if self.may_cut(ticks(event.now_ns)) {
            self.lose(event);
        }
    }

    /// The retransmission timer fired: a loss, whatever was cut before.
    pub fn on_rto(&mut self, event: &LossEvent) {
        self.lose(event);
    }

    pub(crate) const fn loss_response(&self) -> LossResponse {
        self.loss_response
    }

    /// Back to a window of `window_bytes`, if it is smaller now.
    pub(crate) fn restore(&mut self, window_bytes: u32) {
        self.cwnd = self.cwnd.max(window_bytes);
        self.target = self.target.max(window_bytes);
    }

    /// Alpha decays until now: the cut begins another period.
    fn lose(&mut self, event: &LossEvent) {
        let (now, cut) = (ticks(event.now_ns), self.loss_response.cut(event));
        if cut > 0 {
            self.advance(now, true);
            self.cut(now, 2 * cut);
        }
    }

    fn congested(&mut self, now: u32) {
        if self.may_cut(now) {
            self.advance(now, true);
            self.cut(now, self.alpha);
            self.alpha = self.alpha - self.decay() + (ONE >> G_SHIFT);
        }
    }

    const fn may_cut(&self, now: u32) -> bool {
        !self.cut_before || now.wrapping_sub(self.cut_at) >= CUT_TICKS
    }

    /// Takes half of `fraction` (Q16) off; recovery begins afresh.
    fn cut(&mut self, now: u32, fraction: u32) {
        let reduction = (u64::from(self.cwnd) * u64::from(fraction)) >> 17;
        self.target = self.cwnd;
        let reduction = u32::try_from(reduction).unwrap_or(u32::MAX);
        self.cwnd = self.cwnd.saturating_sub(reduction).max(self.mtu_bytes.into());
        (self.period_at, self.cut_at) = (now, now);
        (self.started, self.cut_before) = (true, true);
        (self.bytes, self.rises) = (0, [0; 2]);
    }

    /// What the clock brings: alpha decays and the timer rises, once a period.
    fn advance(&mut self, now: u32, app_limited: bool) {
        if !self.started {
            (self.started, self.period_at) = (true, now);
        }
        let periods = now.wrapping_sub(self.period_at) / PERIOD_TICKS;
        if periods >= FORGET_PERIODS {
            (self.alpha, self.period_at) = (0, now);
            if !app_limited {
                (self.cwnd, self.target) = (self.max_window_bytes, self.max_window_bytes);
            }
            return;
        }
        for _ in 0..periods {
            self.alpha -= self.decay();
            self.rise(0, app_limited);
        }
        self.period_at = self.period_at.wrapping_add(periods * PERIOD_TICKS);
    }

    /// What alpha loses in one period; rounded up, so that it reaches 0.
    const fn decay(&self) -> u32 {
        self.alpha.div_ceil(1 << G_SHIFT)
    }

    /// One rise, of the timer (0) or the byte counter (1).
    fn rise(&mut self, counter: usize, app_limited: bool) {
        if app_limited {
            return;
        }
        self.rises[counter] = self.rises[counter].saturating_add(1);
        let [timer, bytes] = self.rises;
        let step = (self.max_window_bytes / ADDITIVE_PART).max(1);
        let more = if timer.min(bytes) > FAST_RECOVERY {
            step.saturating_mul(HYPER)
        } else if timer.max(bytes) > FAST_RECOVERY {
            step
        } else {
            0
        };
        self.target = self.target.saturating_add(more).min(self.max_window_bytes);
        // Rounded up, so that it gets there.
        self.cwnd += (self.target - self.cwnd).div_ceil(2);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "differences of up to 73 minutes are meant")]
const fn ticks(now_ns: u64) -> u32 {
    (now_ns >> TICK_NS_LOG2) as u32
}

#[cfg(test)]
mod tests;
