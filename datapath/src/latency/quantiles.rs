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

/// A histogram and how many values it is of: zeros are counted alone, as most parts of most
/// operations are zero.
#[derive(Clone, Debug)]
struct Filled {
    others: Histogram<u32>,
    zeros: u64,
}

/// Two histograms in turn: the one that is filled, and the one before.
#[derive(Debug)]
pub(super) struct Rotated {
    now: Filled,
    before: Filled,
}

impl Filled {
    fn new() -> Option<Self> {
        Some(Self { others: Histogram::new_with_bounds(1, NS_MAX, 2).ok()?, zeros: 0 })
    }

    fn clear(&mut self) {
        self.others.reset();
        self.zeros = 0;
    }
}

impl Rotated {
    /// `None` never happens: the bounds are constants, and valid.
    pub fn new() -> Option<Self> {
        Some(Self { now: Filled::new()?, before: Filled::new()? })
    }

    /// Takes a value in.
    pub fn record(&mut self, ns: u64) {
        match ns {
            0 => self.now.zeros += 1,
            _ => self.now.others.saturating_record(ns),
        }
    }

    /// Forgets what is older than what is filled now.
    pub fn rotate(&mut self) {
        core::mem::swap(&mut self.now, &mut self.before);
        self.now.clear();
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.now.clear();
        self.before.clear();
    }

    /// Of both, once it were rotated so many times; allocates.
    pub fn quantiles(&self, rotations: usize) -> Quantiles {
        let mut all = self.now.others.clone();
        all.reset();
        let mut zeros = 0;
        for part in [&self.now, &self.before].into_iter().take(2_usize.saturating_sub(rotations)) {
            // All have the same bounds, and zero is within them.
            let _ = all.add(&part.others);
            zeros += part.zeros;
        }
        let _ = all.record_n(0, u32::try_from(zeros).unwrap_or(u32::MAX));
        Quantiles { count: all.len(), ns: QUANTILES.map(|quantile| all.value_at_quantile(quantile)) }
    }
}
