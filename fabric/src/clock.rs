//! Virtual time, in picoseconds: the bytes of a 400 Gb/s link take 20 each, and nothing is rounded.

use core::ops::Add;
use datapath::time::Time;

/// A moment, or a length of time, in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Ps(pub u64);

impl Ps {
    /// A moment that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// So many nanoseconds.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns.saturating_mul(1000))
    }

    /// The engine's clock at this moment: whole nanoseconds that have passed.
    #[must_use]
    pub const fn to_time(self) -> Time {
        Time(self.0 / 1000)
    }

    /// The first moment at which the engine's clock shows `time`.
    #[must_use]
    pub const fn of_time(time: Time) -> Self {
        Self(time.0.saturating_mul(1000))
    }

    /// From `earlier` to here; 0 if that is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Ps {
    type Output = Self;

    fn add(self, length: Self) -> Self {
        Self(self.0.saturating_add(length.0))
    }
}
