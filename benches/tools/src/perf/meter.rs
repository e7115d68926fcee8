//! Measuring a rate while messages complete.

use crate::perf::progress::Progress;
use core::fmt;
use core::str::FromStr;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The shortest interval that counts as a peak: the clock's own noise is far below.
const PEAK_INTERVAL: Duration = Duration::from_millis(1);
/// In it completes so many times what was outstanding when it began. That does not count, as some
/// of it may have been on its way already; so the peak is too low by an eighth at most.
const PEAK_TURNS: u64 = 8;

/// Rates of one direction, as the sender sees them.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Rates {
    /// Messages acknowledged.
    pub iterations: u64,
    /// Messages a second, from the first post to the last completion.
    pub average: f64,
    /// Messages a second in the best interval of a millisecond or more, of those that began and
    /// completed in it; the average, if there was none better.
    pub peak: f64,
}

impl Rates {
    /// Of messages that were handed over in some time; whether they arrived is not known.
    #[expect(clippy::cast_precision_loss, reason = "a rate to a few digits")]
    #[must_use]
    pub fn handed_over(iterations: u64, time: Duration) -> Self {
        let average = iterations as f64 / time.as_secs_f64().max(1e-9);
        Self { iterations, average, peak: average }
    }

    /// As the JSON file has them, for messages of `size` bytes.
    #[must_use]
    pub fn to_json(self, size: usize) -> Value {
        json!({
            "size": size, "iterations": self.iterations, "bw_peak_gbps": gbps(size, self.peak),
            "bw_avg_gbps": gbps(size, self.average), "msg_rate_mpps": self.average / 1e6,
        })
    }

    /// Those of two directions at once, of which the other is what a peer says.
    #[must_use]
    pub fn sum(self, other: Self) -> Self {
        Self {
            iterations: self.iterations.saturating_add(other.iterations),
            average: self.average + other.average,
            peak: self.peak + other.peak,
        }
    }
}

/// 10^9 bits a second, of messages of `size` bytes.
#[expect(clippy::cast_precision_loss, reason = "a rate to a few digits")]
#[must_use]
pub fn gbps(size: usize, messages: f64) -> f64 {
    size as f64 * 8e-9 * messages
}

impl fmt::Display for Rates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.iterations, self.average, self.peak)
    }
}

impl FromStr for Rates {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut fields = text.split(',');
        let iterations = fields.next().and_then(|field| field.parse().ok()).ok_or(())?;
        let mut rate = || {
            let rate: Option<f64> = fields.next().and_then(|field| field.parse().ok());
            rate.filter(|rate| rate.is_finite() && *rate >= 0.0).ok_or(())
        };
        let rates = Self { iterations, average: rate()?, peak: rate()? };
        if fields.next().is_some() { Err(()) } else { Ok(rates) }
    }
}

/// Counts completions against the clock.
#[derive(Debug)]
pub struct Meter {
    /// The beginning, and what is not to be measured.
    start: (Instant, u64),
    /// Where the interval began, and what had completed by then, or was outstanding.
    mark: (Instant, u64),
    /// How much of that was outstanding.
    outstanding: u64,
    /// The last completion, and how many there were.
    last: (Instant, u64),
    peak: f64,
    progress: Option<Progress>,
}

impl Meter {
    /// Begins now.
    #[must_use]
    pub fn new(start: Instant) -> Self {
        Self::beginning_with(0, start)
    }

    /// Begins now, with `messages` that are counted but belong to no interval.
    #[must_use]
    pub fn beginning_with(messages: u64, start: Instant) -> Self {
        Self {
            start: (start, messages),
            mark: (start, messages),
            outstanding: 0,
            last: (start, messages),
            peak: 0.0,
            progress: None,
        }
    }

    /// Shows a person what completed.
    #[must_use]
    pub fn showing(self, progress: Option<Progress>) -> Self {
        Self { progress, ..self }
    }

    /// More messages completed by `now`, and `outstanding` are begun and have not completed. A
    /// completion may be seen long after the message arrived: only what begins and completes in an
    /// interval belongs to it.
    pub fn completed(&mut self, messages: u64, outstanding: u64, now: Instant) {
        self.last = (now, self.last.1 + messages);
        if let Some(progress) = &mut self.progress {
            progress.done(self.last.1, now);
        }
        let enough = self.mark.1 + (PEAK_TURNS - 1) * self.outstanding;
        if self.last.1 >= enough && now.saturating_duration_since(self.mark.0) >= PEAK_INTERVAL {
            self.peak = self.peak.max(rate(self.mark, self.last));
            self.mark = (now, self.last.1 + outstanding);
            self.outstanding = outstanding;
        }
    }

    /// What was measured so far.
    #[must_use]
    pub fn rates(&self) -> Rates {
        let average = rate(self.start, self.last);
        Rates { iterations: self.last.1, average, peak: self.peak.max(average) }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate to a few digits")]
fn rate(from: (Instant, u64), to: (Instant, u64)) -> f64 {
    let seconds = to.0.saturating_duration_since(from.0).as_secs_f64();
    (to.1 - from.1) as f64 / seconds.max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(steps: &[(u64, u64)]) -> Rates {
        let start = Instant::now();
        let mut meter = Meter::new(start);
        for (micros, messages) in steps {
            meter.completed(*messages, 0, start + Duration::from_micros(*micros));
        }
        meter.rates()
    }

    fn close(one: f64, two: f64) -> bool {
        (one - two).abs() < two * 1e-9
    }

    #[test]
    fn however_much_a_peer_says_it_is_summed() {
        let said = Rates { iterations: u64::MAX, ..Rates::default() };
        assert_eq!(measured(&[(1000, 1000)]).sum(said).iterations, u64::MAX);
    }

    #[test]
    fn the_peak_is_the_best_interval() {
        // 1000 a millisecond, then 3000, then 2000.
        let rates = measured(&[(1000, 1000), (2000, 3000), (3000, 2000)]);
        assert_eq!(rates.iterations, 6000);
        assert!(close(rates.average, 2e6) && close(rates.peak, 3e6), "{rates:?}");
    }

    /// A line that carries ten messages in a millisecond; there is a completion for each 32 of
    /// them, and nobody looks for a while after each other look.
    #[test]
    fn no_interval_has_more_than_the_line_carries() {
        let start = Instant::now();
        let mut meter = Meter::new(start);
        let (mut seen, mut micros) = (0, 0);
        for gap in [1100, 9000].into_iter().cycle().take(1000) {
            micros += gap;
            let done = micros / 100 / 32 * 32;
            if done > seen {
                meter.completed(done - seen, 128, start + Duration::from_micros(micros));
                seen = done;
            }
        }
        let rates = meter.rates();
        assert!((8000.0..=10_000.0).contains(&rates.peak), "{rates:?}");
    }

    #[test]
    fn an_interval_that_is_too_short_is_no_peak() {
        let rates = measured(&[(999, 1), (1000, 1000), (2000, 10)]);
        assert!(close(rates.peak, 1_001_000.0), "{rates:?}");
        let rates = measured(&[(10, 100)]);
        assert!(close(rates.peak, 1e7) && close(rates.average, 1e7), "{rates:?}");
    }

    #[test]
    fn what_came_before_the_beginning_counts_and_has_no_rate() {
        let start = Instant::now();
        let mut meter = Meter::beginning_with(1000, start);
        meter.completed(500, 0, start + Duration::from_millis(1));
        let rates = meter.rates();
        assert_eq!(rates.iterations, 1500);
        assert!(close(rates.average, 5e5) && close(rates.peak, 5e5), "{rates:?}");
    }

    #[test]
    fn nothing_measured_is_zero() {
        assert_eq!(measured(&[]), Rates::default());
    }

    #[test]
    fn rates_travel_as_text() {
        let rates = Rates { iterations: 7, average: 1_234.567_8, peak: 1e9 / 3.0 };
        assert_eq!(rates.to_string().parse(), Ok(rates));
        for wrong in ["", "1,2", "1,2,3,4", "x,1,1", "1,NaN,1", "1,-1,1"] {
            assert_eq!(wrong.parse::<Rates>(), Err(()), "{wrong}");
        }
    }
}
