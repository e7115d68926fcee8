//! Rate caps on the engine's own time: the virtual scheduling algorithm (ITU-T I.371), which is a
//! token bucket that keeps one time instead of a level.

use crate::time::Time;

/// Nanoseconds in a second, with 32 bits behind the point.
const SECOND: u64 = 1_000_000_000 << 32;

/// A cap on the rate of something that is counted in units.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    /// Nanoseconds that a unit takes at the cap, with 32 bits behind the point; 0: no cap.
    unit_ns: u64,
    /// When what was taken so far is paid, and the part of a nanosecond behind it.
    paid_at: Time,
    fraction: u32,
    /// Nanoseconds that may be saved.
    slack_ns: u64,
}

impl Meter {
    /// No cap.
    pub const NONE: Self = Self { unit_ns: 0, paid_at: Time::ZERO, fraction: 0, slack_ns: 0 };

    /// At most `per_s` units a second, 0: no cap. What is not used is saved: `burst` units, or what
    /// the cap gives in `least_ns`, whichever is more.
    #[must_use]
    pub fn new(per_s: u64, burst: u64, least_ns: u64) -> Self {
        let unit_ns = SECOND.checked_div(per_s).map_or(0, |unit| unit.max(1));
        let slack = (u128::from(unit_ns) * u128::from(burst)) >> 32;
        let slack_ns = u64::try_from(slack).unwrap_or(u64::MAX).max(least_ns);
        Self { unit_ns, slack_ns, ..Self::NONE }
    }

    /// Whether something may be taken at `now`.
    #[inline]
    #[must_use]
    pub fn is_open(&self, now: Time) -> bool {
        self.paid_at <= now
    }

    /// When something may be taken.
    #[must_use]
    pub const fn opens_at(&self) -> Time {
        self.paid_at
    }

    /// Takes `units` at `now`, more than there are if need be.
    #[inline]
    pub fn take(&mut self, units: u64, now: Time) {
        let earliest = Time(now.0.saturating_sub(self.slack_ns));
        if self.paid_at < earliest {
            (self.paid_at, self.fraction) = (earliest, 0);
        }
        let price = u128::from(self.unit_ns) * u128::from(units) + u128::from(self.fraction);
        self.paid_at = self.paid_at.after(u64::try_from(price >> 32).unwrap_or(u64::MAX));
        self.fraction = low_half(price);
    }

    /// Another cap from `now` on. Of what is owed, what may be saved at the new one stays.
    #[must_use]
    pub fn changed(&self, other: Self, now: Time) -> Self {
        let mut changed = Self { paid_at: self.paid_at, fraction: 0, ..other };
        changed.forgive(now);
        changed
    }

    /// Forgives what is owed beyond as much as may be saved.
    pub fn forgive(&mut self, now: Time) {
        self.paid_at = self.paid_at.min(now.after(self.slack_ns));
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
const fn low_half(price: u128) -> u32 {
    price as u32
}
