//! perftest's tables.

use crate::perf::meter::{Rates, gbps};
use crate::perf::statistics::Summary;

/// Titles, each behind the blanks before it. A value begins where its title does.
const GBITS: [&str; 5] =
    [" #bytes", "     #iterations", "    BW peak[Gb/sec]", "    BW average[Gb/sec]", "   MsgRate[Mpps]"];
const MEBIBYTES: [&str; 5] =
    [" #bytes", "     #iterations", "    BW peak[MiB/sec]", "    BW average[MiB/sec]", "   MsgRate[Mpps]"];
const LATENCY: [&str; 9] = [
    " #bytes",
    " #iterations",
    "    t_min[usec]",
    "    t_max[usec]",
    "  t_typical[usec]",
    "    t_avg[usec]",
    "    t_stdev[usec]",
    "   99% percentile[usec]",
    "   99.9% percentile[usec]",
];

/// Heading of a table of rates; `gbits`: in 10^9 bits a second, else in 2^20 bytes a second.
#[must_use]
pub fn bandwidth_heading(gbits: bool) -> String {
    if gbits { GBITS.concat() } else { MEBIBYTES.concat() }
}

/// One row of it, for messages of `size` bytes.
#[must_use]
pub fn bandwidth_row(size: usize, rates: Rates, gbits: bool) -> String {
    let rate = |messages: f64| if gbits { gbps(size, messages) } else { mebibytes(size, messages) };
    let cells = [
        size.to_string(),
        rates.iterations.to_string(),
        format!("{:.2}", rate(rates.peak)),
        format!("{:.2}", rate(rates.average)),
        format!("{:.6}", rates.average / 1e6),
    ];
    row(if gbits { &GBITS } else { &MEBIBYTES }, &cells)
}

/// Heading of a table of latencies.
#[must_use]
pub fn latency_heading() -> String {
    LATENCY.concat()
}

/// One row of it, for messages of `size` bytes.
#[must_use]
pub fn latency_row(size: usize, summary: &Summary) -> String {
    let times =
        [summary.min, summary.max, summary.p50, summary.mean, summary.deviation, summary.p99, summary.p999];
    let mut cells = vec![size.to_string(), summary.iterations.to_string()];
    cells.extend(times.iter().map(|time| format!("{time:.2}")));
    row(&LATENCY, &cells)
}

#[expect(clippy::cast_precision_loss, reason = "a rate to a few digits")]
fn mebibytes(size: usize, messages: f64) -> f64 {
    size as f64 * messages / f64::from(1 << 20)
}

fn row(titles: &[&str], cells: &[String]) -> String {
    let (mut text, mut column) = (String::new(), 0);
    for (title, cell) in titles.iter().zip(cells) {
        let start = column + title.len() - title.trim_start().len();
        // A cell that is too wide pushes the next one on, by one blank at least.
        let gap = start.saturating_sub(text.len()).max(1);
        text.extend(std::iter::repeat_n(' ', gap));
        text.push_str(cell);
        column += title.len();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_stand_below_their_titles() {
        let rates = Rates { iterations: 5000, average: 100_000.0, peak: 125_000.0 };
        let lines = [bandwidth_heading(true), bandwidth_row(65_536, rates, true)];
        assert_eq!(
            lines.join("\n"),
            " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n \
             65536      5000           65.54              52.43                0.100000"
        );
        let lines = [bandwidth_heading(false), bandwidth_row(65_536, rates, false)];
        assert_eq!(
            lines.join("\n"),
            " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]\n \
             65536      5000           7812.50             6250.00               0.100000"
        );
    }

    #[test]
    fn latencies_stand_below_their_titles() {
        let summary = Summary {
            iterations: 1000,
            min: 1.5,
            max: 1234.567,
            p50: 2.0,
            mean: 2.25,
            deviation: 0.125,
            p99: 9.0,
            p999: 99.0,
        };
        let lines = [latency_heading(), latency_row(2, &summary)];
        let expected = concat!(
            " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]",
            "   99% percentile[usec]   99.9% percentile[usec]\n",
            " 2      1000           1.50           1234.57      2.00               2.25           0.12         ",
            "   9.00                   99.00"
        );
        assert_eq!(lines.join("\n"), expected);
    }

    #[test]
    fn a_wide_value_keeps_its_distance() {
        let rates = Rates { iterations: 1 << 40, average: 1.0, peak: 1.0 };
        let row = bandwidth_row(1 << 30, rates, true);
        assert_eq!(
            row.split_whitespace().collect::<Vec<_>>(),
            ["1073741824", "1099511627776", "8.59", "8.59", "0.000001"]
        );
    }
}
