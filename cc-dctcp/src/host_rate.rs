//! How fast a host that does not keep up is sent to: the law of RHCC, "receiver host congestion
//! control", by the time that packets wait there, with an additive term.

use crate::{ConfigError, ONE, TARGET_NS_MAX};

/// The gains of the law in Q16, for each target that the delay is above the target, and that it
/// grew by. The paper has a tenth for both, which never settles if steps show a round trip late
/// (docs/adr/0074).
const GAIN: i64 = ONE as i64 / 32;
const GAIN_OF_GROWTH: i64 = ONE as i64 / 8;
/// Most that one step takes off, in Q16: half.
const CUT_MAX: i64 = ONE as i64 / 2;
/// Most that one step adds, in Q16: a fifth. A delay that falls from very long says no more than
/// that the queue is gone.
const GROWTH_MAX: i64 = ONE as i64 / 5;
/// A rate that is so many times what is sent holds nothing back.
const SPARE: u64 = 2;

/// What is aimed at, and how.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HostRateConfig {
    /// The time in the receiving host that is aimed at, in nanoseconds, 1 up to 4.19 ms.
    pub target_ns: u32,
    /// Least rate, in bytes a second, at least 1.
    pub floor_bytes_per_s: u64,
    /// What each step adds, in bytes a second. Several senders see one delay, and would keep the
    /// ratio of their rates for ever without it; with it they come to share alike.
    pub step_bytes_per_s: u64,
}

impl HostRateConfig {
    /// 50 us, which is more than a turn of most hosts; at least 100 Mb/s; 20 Mb/s each step.
    pub const DEFAULT: Self =
        Self { target_ns: 50_000, floor_bytes_per_s: 12_500_000, step_bytes_per_s: 2_500_000 };

    /// Are all parameters in their ranges?
    ///
    /// # Errors
    /// The first parameter that is not, with its value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !(1..=TARGET_NS_MAX).contains(&self.target_ns) {
            Err(ConfigError::Target { given_ns: self.target_ns })
        } else if self.floor_bytes_per_s == 0 {
            Err(ConfigError::ZeroFloor)
        } else {
            Ok(())
        }
    }
}

impl Default for HostRateConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The rate at which one host is sent to, or no limit, which is how it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostRate {
    bytes_per_s: Option<u64>,
    /// Of the step before, in nanoseconds.
    delay_ns: u32,
}

impl HostRate {
    /// The rate in bytes a second; `None`: no limit.
    #[inline]
    #[must_use]
    pub const fn bytes_per_s(&self) -> Option<u64> {
        self.bytes_per_s
    }

    /// The delay that the last step heard of, in nanoseconds.
    #[must_use]
    pub const fn delay_ns(&self) -> u32 {
        self.delay_ns
    }

    /// Takes a step: packets waited `delay_ns` nanoseconds in the host since the last one, of which
    /// `sent_per_s` bytes a second were sent. Steps are to be a round trip apart, so that each sees
    /// what the one before did. One that lasted longer than others weighs more: `weight`, 1 to
    /// 65,535, is 256 for one as long as most. Else the short ones, when nobody waits, would count
    /// for too much.
    pub fn step(&mut self, config: &HostRateConfig, delay_ns: u32, sent_per_s: u64, weight: u16) {
        let (target, before) = (i64::from(config.target_ns), i64::from(self.delay_ns));
        let delay = i64::from(delay_ns);
        self.delay_ns = delay_ns;
        let late = delay > target;
        let rate = match self.bytes_per_s {
            None if !late => return,
            None => sent_per_s,
            Some(rate) if !late && rate / SPARE > sent_per_s => {
                self.bytes_per_s = None;
                return;
            }
            Some(rate) => rate,
        };
        let excess = ((delay - target) * i64::from(weight)) >> 8;
        let change = (GAIN * excess + GAIN_OF_GROWTH * (delay - before)) / target;
        let change = change.clamp(-GROWTH_MAX, CUT_MAX);
        let share = u128::from((i64::from(ONE) - change).unsigned_abs());
        let rate = u64::try_from((u128::from(rate) * share) >> 16).unwrap_or(u64::MAX);
        let more = u64::try_from((u128::from(config.step_bytes_per_s) * u128::from(weight)) >> 8);
        let more = more.unwrap_or(u64::MAX);
        self.bytes_per_s = Some(rate.saturating_add(more).max(config.floor_bytes_per_s));
    }
}

#[cfg(test)]
mod tests;
