//! Quantiles of the last minute or two.

use hdrhistogram::Histogram;

/// The quantiles that are told.
pub const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 1.0];

/// A histogram has two digits up to so many nanoseconds, half a minute; longer ones count as this.
const NS_MAX: u64 = 1 << 35;

/// Values at [`QUANTILES`], in nanoseconds, and how many they are of.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Quantiles {
    /// Values.
    pub count: u64,
    /// In the order of [`QUANTILES`].
    pub ns: [u64; QUANTILES.len()],
}

/// Two histograms in turn: the one that is filled, and the one before.
#[derive(Debug)]
pub(super) struct Rotated {
    now: Histogram<u32>,
    before: Histogram<u32>,
}

impl Rotated {
    /// `None` never happens: the bounds are constants, and valid.
    pub fn new() -> Option<Self> {
        let empty = || Histogram::new_with_bounds(1, NS_MAX, 2).ok();
        Some(Self { now: empty()?, before: empty()? })
    }

    /// Takes a value in.
    pub fn record(&mut self, ns: u64) {
        self.now.saturating_record(ns.max(1));
    }

    /// Forgets what is older than what is filled now.
    pub fn rotate(&mut self) {
        core::mem::swap(&mut self.now, &mut self.before);
        self.now.reset();
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.now.reset();
        self.before.reset();
    }

    /// Of both; allocates.
    pub fn quantiles(&self) -> Quantiles {
        let mut all = self.before.clone();
        // Both have the same bounds.
        let _ = all.add(&self.now);
        Quantiles { count: all.len(), ns: QUANTILES.map(|quantile| all.value_at_quantile(quantile)) }
    }
}
