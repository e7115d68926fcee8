//! Whether the window of a connection fills its way: what no part of a host is to blame for.

use super::finding::Finding;
use super::measure::Measured;

/// What is measured is the window's doing if it is within a tenth of what the window allows.
const TOLERANCE: f64 = 0.1;

/// A window of so many bytes allows so many bits in the time of a round trip: 10^9 bits a second.
#[must_use]
pub fn allows_gbps(window_bytes: f64, rtt_ns: f64) -> f64 {
    8.0 * window_bytes / rtt_ns
}

/// Judges a window of `window_bytes` by what a probe measured, and by the `rate_gbps` that the link
/// should carry.
#[must_use]
pub fn judge(window_bytes: f64, measured: Measured, rate_gbps: f64) -> Finding {
    const NAME: &str = "window";
    let allowed = allows_gbps(window_bytes, measured.latency_ns);
    let needed = rate_gbps * measured.latency_ns / 8.0;
    let (micros, kilobytes) = (measured.latency_ns / 1000.0, window_bytes / 1000.0);
    if allowed >= rate_gbps {
        return Finding::good(NAME, format!("{kilobytes:.1} KB allow {allowed:.1} Gb/s over {micros:.2} us"));
    }
    let words = format!(
        "window too small: W = {kilobytes:.1} KB allows {allowed:.1} Gb/s over {micros:.2} us; {rate_gbps:.1} Gb/s need {:.1} KB",
        needed / 1000.0
    );
    let remedy = "a larger window= of the queue pair, --window of the tools; or a shorter round trip";
    if measured.gbps >= allowed * (1.0 - TOLERANCE) {
        Finding::bad(NAME, words, remedy)
    } else {
        Finding::warning(NAME, format!("{words}; something else is the limit before that"), remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostping::finding::Level;

    const WINDOW: f64 = 34_700.0;

    /// Bandwidths that were measured over a slow and a fast way fit one window.
    #[test]
    fn one_window_explains_two_bandwidths() {
        for (rtt_ns, gbps) in [(2200.0, 125.5), (2400.0, 116.4)] {
            let allowed = allows_gbps(WINDOW, rtt_ns);
            assert!((allowed / gbps - 1.0).abs() < 0.05, "{allowed}");
            let found = judge(WINDOW, Measured { latency_ns: rtt_ns, gbps }, 200.0);
            assert_eq!(found.level, Level::Bad);
            assert!(found.words.starts_with("window too small: W = 34.7 KB "), "{found:?}");
            let needed = format!("200.0 Gb/s need {:.1} KB", 200.0 * rtt_ns / 8.0 / 1000.0);
            assert!(found.words.ends_with(&needed), "{found:?}");
        }
    }

    #[test]
    fn a_window_that_is_large_enough_is_not_blamed() {
        let measured = Measured { latency_ns: 2200.0, gbps: 60.0 };
        assert_eq!(judge(WINDOW, measured, 100.0).level, Level::Good);
        let found = judge(WINDOW, measured, 200.0);
        assert_eq!(found.level, Level::Warning, "it is not the window that keeps it at 60: {found:?}");
    }
}
