//! What a load measures.

use core::fmt;
use core::time::Duration;
use hdrhistogram::Histogram;

/// Times of operations, and how long all of them took.
#[derive(Clone, Debug)]
pub struct Load {
    nanos: Histogram<u64>,
    /// Bytes that were moved.
    pub bytes: u64,
    /// From the first operation's beginning to the last one's end.
    pub elapsed: Duration,
}

impl Default for Load {
    fn default() -> Self {
        // Three digits are a precision that there is.
        let nanos = Histogram::new(3).unwrap_or_else(|error| unreachable!("{error}"));
        Self { nanos, bytes: 0, elapsed: Duration::ZERO }
    }
}

impl Load {
    /// An operation has moved so many bytes in that time.
    pub fn add(&mut self, bytes: u64, took: Duration) {
        // It grows with what is recorded.
        let _ = self.nanos.record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        self.bytes += bytes;
    }

    /// Adds what another task has measured at once.
    pub fn merge(&mut self, other: &Self) {
        // Both have the same digits.
        let _ = self.nanos.add(&other.nanos);
        self.bytes += other.bytes;
        self.elapsed = self.elapsed.max(other.elapsed);
    }

    /// Operations that were measured.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.nanos.len()
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.elapsed.as_secs_f64();
        let micros = |quantile: f64| self.nanos.value_at_quantile(quantile) as f64 / 1000.0;
        write!(
            f,
            "{} operations, {:.0}/s, {:.3} GB/s, p50 {:.1} us, p99 {:.1} us",
            self.count(),
            self.count() as f64 / seconds,
            self.bytes as f64 / 1e9 / seconds,
            micros(0.5),
            micros(0.99),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tasks_measure_is_added_up() {
        let mut all = Load::default();
        for took in [10, 30] {
            let mut one = Load { elapsed: Duration::from_micros(took), ..Load::default() };
            one.add(500, Duration::from_micros(took));
            all.merge(&one);
        }
        assert_eq!((all.count(), all.bytes, all.elapsed), (2, 1000, Duration::from_micros(30)));
        assert!(all.to_string().starts_with("2 operations, 66667/s, 0.033 GB/s, p50 10.0 us"), "{all}");
    }
}
