//! What many latencies amount to.

use crate::error::Result;
use crate::perf::cli::Goal;
use crate::perf::progress::Progress;
use core::fmt;
use core::str::FromStr;
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::time::Instant;

/// Longest latency that quantiles tell apart, in nanoseconds: 18 minutes.
const NANOS_MAX: u64 = 1 << 40;

/// Latencies collected so far, in bounded memory. Mean, deviation and extremes are exact, quantiles
/// to three digits.
#[derive(Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    min: u64,
    max: u64,
    mean: f64,
    /// Sum of squared distances from the mean (Welford).
    squares: f64,
    progress: Option<Progress>,
}

/// Quantiles and moments, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Summary {
    /// How many latencies.
    pub iterations: u64,
    /// The least.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// The median, which perftest calls typical.
    pub p50: f64,
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub deviation: f64,
    /// 99 of 100 are not above.
    pub p99: f64,
    /// 999 of 1000 are not above.
    pub p999: f64,
}

impl Default for Latencies {
    fn default() -> Self {
        // Fails only for more than five digits, or a range below 2.
        let histogram = Histogram::new_with_max(NANOS_MAX, 3).expect("constants that are possible");
        Self { histogram, min: u64::MAX, max: 0, mean: 0.0, squares: 0.0, progress: None }
    }
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds to a few digits")]
impl Latencies {
    /// None yet; shows a person how many there are.
    #[must_use]
    pub fn showing(progress: Option<Progress>) -> Self {
        Self { progress, ..Self::default() }
    }

    /// One more, in nanoseconds, that ended now.
    pub fn record_at(&mut self, nanos: u64, now: Instant) {
        self.record(nanos);
        if let Some(progress) = &mut self.progress {
            progress.done(self.histogram.len(), now);
        }
    }

    /// One more, in nanoseconds.
    pub fn record(&mut self, nanos: u64) {
        self.histogram.saturating_record(nanos);
        self.min = self.min.min(nanos);
        self.max = self.max.max(nanos);
        let distance = nanos as f64 - self.mean;
        self.mean += distance / self.histogram.len() as f64;
        self.squares += distance * (nanos as f64 - self.mean);
    }

    /// Measures rounds, back to back, until the goal is reached: half of each.
    ///
    /// # Errors
    /// Those of `round`.
    pub fn of_rounds(&mut self, goal: Goal, mut round: impl FnMut() -> Result<()>) -> Result<()> {
        let mut start = Instant::now();
        for rounds in 1.. {
            round()?;
            let end = Instant::now();
            self.record_at(u64::try_from((end - start).as_nanos() / 2).unwrap_or(u64::MAX), end);
            if goal.is_reached(rounds, end) {
                break;
            }
            start = end;
        }
        Ok(())
    }

    /// What they amount to; zeros if there are none.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let iterations = self.histogram.len();
        if iterations == 0 {
            return Summary::default();
        }
        let micros = |nanos: u64| nanos as f64 / 1e3;
        let quantile = |q| micros(self.histogram.value_at_quantile(q).clamp(self.min, self.max));
        Summary {
            iterations,
            min: micros(self.min),
            max: micros(self.max),
            p50: quantile(0.5),
            mean: self.mean / 1e3,
            deviation: (self.squares / iterations as f64).sqrt() / 1e3,
            p99: quantile(0.99),
            p999: quantile(0.999),
        }
    }
}

impl Summary {
    /// As the JSON file has it, for messages of `size` bytes.
    #[must_use]
    pub fn to_json(&self, size: usize) -> Value {
        json!({
            "size": size, "iterations": self.iterations,
            "lat_us": {
                "min": self.min, "p50": self.p50, "p99": self.p99, "p99.9": self.p999, "max": self.max,
                "avg": self.mean, "stdev": self.deviation,
            },
        })
    }

    const fn times(&self) -> [f64; 7] {
        [self.min, self.max, self.p50, self.mean, self.deviation, self.p99, self.p999]
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.iterations)?;
        self.times().iter().try_for_each(|time| write!(f, ",{time}"))
    }
}

impl FromStr for Summary {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        let mut fields = text.split(',');
        let iterations = fields.next().and_then(|field| field.parse().ok()).ok_or(())?;
        let mut times = [0.0; 7];
        for time in &mut times {
            let value: f64 = fields.next().and_then(|field| field.parse().ok()).ok_or(())?;
            *time = if value.is_finite() && value >= 0.0 { value } else { return Err(()) };
        }
        let [min, max, p50, mean, deviation, p99, p999] = times;
        let summary = Self { iterations, min, max, p50, mean, deviation, p99, p999 };
        if fields.next().is_some() { Err(()) } else { Ok(summary) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(nanos: impl Iterator<Item = u64>) -> Summary {
        let mut latencies = Latencies::default();
        nanos.for_each(|nanos| latencies.record(nanos));
        latencies.summary()
    }

    fn close(one: f64, two: f64, tolerance: f64) -> bool {
        (one - two).abs() <= two * tolerance
    }

    #[test]
    fn one_to_ten_thousand() {
        let summary = summary((1..=10_000).rev().map(|micros| micros * 1000));
        assert_eq!((summary.iterations, summary.min, summary.max), (10_000, 1.0, 10_000.0));
        assert!(close(summary.mean, 5000.5, 1e-9), "{summary:?}");
        // Of 1 to n: the root of (n^2 - 1) / 12.
        assert!(close(summary.deviation, 2_886.751_331, 1e-9), "{summary:?}");
        for (quantile, expected) in [(summary.p50, 5000.0), (summary.p99, 9900.0), (summary.p999, 9990.0)] {
            assert!(close(quantile, expected, 1e-3), "{quantile} is not {expected}");
        }
    }

    #[test]
    fn a_few_slow_ones_show_in_the_tail_alone() {
        let summary = summary((0..1000).map(|i| if i >= 995 { 900_000 } else { 3_000 }));
        assert!(close(summary.p50, 3.0, 1e-3) && close(summary.p99, 3.0, 1e-3), "{summary:?}");
        assert!(close(summary.p999, 900.0, 1e-3), "{summary:?}");
    }

    #[test]
    fn one_latency_is_all_of_them() {
        let summary = summary([12_345].into_iter());
        assert_eq!(summary.times(), [12.345, 12.345, 12.345, 12.345, 0.0, 12.345, 12.345]);
    }

    #[test]
    fn none_is_zeros() {
        assert_eq!(summary([].into_iter()), Summary::default());
    }

    #[test]
    fn a_summary_travels_as_text() {
        let summary = summary((1..=77).map(|i| i * 1001));
        assert_eq!(summary.to_string().parse(), Ok(summary));
        for wrong in ["", "1,1,1,1,1,1,1", "1,1,1,1,1,1,1,1,1", "1,1,1,inf,1,1,1,1", "-1,1,1,1,1,1,1,1"] {
            assert_eq!(wrong.parse::<Summary>(), Err(()), "{wrong}");
        }
    }
}
