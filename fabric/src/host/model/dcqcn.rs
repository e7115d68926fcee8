//! DCQCN at the sender, with a rate that paces packets (Zhu et al., SIGCOMM '15).
//! docs/fabric.md has the sources of its parameters.

use crate::clock::Ps;

/// The gain g of alpha.
const GAIN: f64 = 1.0 / 256.0;
/// Time between two decays of alpha, and between two rises of the timer.
const PERIOD: Ps = Ps::from_ns(55_000);
/// Bytes between two rises of the byte counter.
const RISE_BYTES: u64 = 10_000_000;
/// Rises of either counter in fast recovery.
const FAST_RECOVERY: u32 = 5;
/// Additive increase: 40 Mb/s of a line of 40 Gb/s, and as much of others.
const ADDITIVE: f64 = 1.0 / 1000.0;
/// Hyper increase: ten times that.
const HYPER: f64 = 10.0 * ADDITIVE;
/// Least rate: 100 Mb/s of 100 Gb/s.
const LEAST: f64 = 1.0 / 1000.0;

/// The reaction point of one flow. Rates are parts of the line's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Dcqcn {
    /// The rate at which it sends.
    rate: f64,
    /// Where fast recovery leads.
    target: f64,
    alpha: f64,
    /// When alpha decayed last, and when the timer rose.
    alpha_at: Ps,
    rise_at: Ps,
    /// Bytes sent towards the byte counter.
    bytes: u64,
    /// Rises since the last cut: by the timer, by the byte counter.
    rises: [u32; 2],
    cut_at: Option<Ps>,
}

impl Dcqcn {
    /// Begins at the line's rate.
    #[must_use]
    pub const fn new(now: Ps) -> Self {
        Self {
            rate: 1.0,
            target: 1.0,
            alpha: 1.0,
            alpha_at: now,
            rise_at: now,
            bytes: 0,
            rises: [0; 2],
            cut_at: None,
        }
    }

    /// The rate, as a part of the line's.
    #[must_use]
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// A congestion notification packet has come. It is not heard if the last cut is less than
    /// `gap` ago.
    pub fn on_notification(&mut self, now: Ps, gap: Ps) {
        if self.cut_at.is_some_and(|at| now.since(at) < gap) {
            return;
        }
        self.cut_at = Some(now);
        self.advance(now);
        self.target = self.rate;
        self.rate = (self.rate * (1.0 - self.alpha / 2.0)).max(LEAST);
        self.alpha = (1.0 - GAIN) * self.alpha + GAIN;
        (self.alpha_at, self.rise_at) = (now, now);
        (self.bytes, self.rises) = (0, [0; 2]);
    }

    /// Bytes were sent.
    pub fn on_sent(&mut self, bytes: u64) {
        self.bytes += bytes;
        if self.bytes >= RISE_BYTES {
            self.bytes -= RISE_BYTES;
            self.rise(1);
        }
    }

    /// What the clock brings.
    pub fn advance(&mut self, now: Ps) {
        while now.since(self.alpha_at) >= PERIOD {
            self.alpha *= 1.0 - GAIN;
            self.alpha_at = self.alpha_at + PERIOD;
        }
        while now.since(self.rise_at) >= PERIOD {
            self.rise(0);
            self.rise_at = self.rise_at + PERIOD;
        }
    }

    fn rise(&mut self, counter: usize) {
        self.rises[counter] += 1;
        let [timer, bytes] = self.rises;
        let step = if timer.min(bytes) > FAST_RECOVERY {
            HYPER
        } else if timer.max(bytes) > FAST_RECOVERY {
            ADDITIVE
        } else {
            0.0
        };
        self.target = (self.target + step).min(1.0);
        self.rate = f64::midpoint(self.rate, self.target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(one: f64, two: f64) -> bool {
        (one - two).abs() < 1e-9
    }

    /// The first notification halves the rate; five periods later it is back but for 1/32 of what
    /// it lost, and then it rises by steps.
    #[test]
    fn a_rate_falls_and_recovers_as_published() {
        let mut dcqcn = Dcqcn::new(Ps(0));
        dcqcn.on_notification(Ps(0), Ps(0));
        assert!(near(dcqcn.rate(), 0.5));
        dcqcn.advance(Ps(5 * PERIOD.0));
        assert!(near(dcqcn.rate(), 1.0 - 0.5 / 32.0), "{dcqcn:?}");
        let alpha = (1.0 - GAIN).powi(5);
        assert!(near(dcqcn.alpha, alpha));
        dcqcn.on_notification(Ps(5 * PERIOD.0), Ps(0));
        let rate = dcqcn.rate();
        assert!(near(rate, (1.0 - 0.5 / 32.0) * (1.0 - alpha / 2.0)));
        let target = dcqcn.target;
        dcqcn.advance(Ps(11 * PERIOD.0));
        assert!(near(dcqcn.target, target + ADDITIVE), "the sixth period adds a step");
    }

    /// Of notifications within the gap only the first cuts.
    #[test]
    fn a_sender_may_cut_once_in_a_while() {
        let mut dcqcn = Dcqcn::new(Ps(0));
        (0..50).for_each(|number| dcqcn.on_notification(Ps(number), Ps(50)));
        assert!(near(dcqcn.rate(), 0.5));
        dcqcn.on_notification(Ps(50), Ps(50));
        assert!(near(dcqcn.rate(), 0.25), "{dcqcn:?}");
    }

    /// Notifications for a long time lead to the least rate, not to none.
    #[test]
    fn a_rate_never_becomes_zero() {
        let mut dcqcn = Dcqcn::new(Ps(0));
        (0..100).for_each(|number| dcqcn.on_notification(Ps(50_000_000 * number), Ps(0)));
        assert!(near(dcqcn.rate(), LEAST));
    }
}
