//! What came out of the runs: the table, and whether it is good.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::error::{Error, Result};

/// A run of so many packets that drops nothing at 1 % is a broken injector, not luck: the odds are
/// 0.99^2000, 2e-9.
const PACKETS_THAT_MUST_LOSE: u64 = 2_000;

/// What the sender counted.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Counts {
    /// Payload bytes that were sent and acknowledged.
    pub bytes: u64,
    /// From the first byte to the last acknowledgement.
    pub seconds: f64,
    /// Payload rate, in 10^9 bits a second.
    pub gbps: f64,
    /// Packets handed to the port, retransmissions included.
    pub packets_sent: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// Packets that fault injection dropped.
    pub injected_drops: u64,
}

impl Counts {
    /// Reads the sender's JSON file.
    pub fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).map_err(|e| Error::io("read", file, &e))?;
        Self::parse(&text).map_err(|e| Error(format!("{}: {e}", file.display())))
    }

    fn parse(text: &str) -> Result<Self> {
        let json: serde_json::Value = serde_json::from_str(text).map_err(|e| Error(e.to_string()))?;
        let missing = |key: &str| Error(format!("`{key}` is missing or no number"));
        let count = |key: &str| json[key].as_u64().ok_or_else(|| missing(key));
        let real = |key: &str| json[key].as_f64().ok_or_else(|| missing(key));
        Ok(Self {
            bytes: count("bytes")?,
            seconds: real("seconds")?,
            gbps: real("gbps")?,
            packets_sent: count("packets_sent")?,
            retransmitted: count("retransmitted")?,
            injected_drops: count("injected_drops")?,
        })
    }
}

/// One file's way.
pub struct Outcome {
    /// What the table calls it.
    pub name: &'static str,
    /// Length of the file in bytes.
    pub size: u64,
    /// Whether packets were to be dropped.
    pub injects: bool,
    /// What the sender counted.
    pub counts: Counts,
    /// Whether the received file's SHA-256 is that of the source.
    pub equal: bool,
}

/// Bytes for a person to read.
pub fn mebibytes(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) >> 20;
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

/// A line of the table; what does not apply is `None`.
#[derive(Default)]
pub struct Row {
    /// What was measured.
    pub name: String,
    /// Payload rate, in 10^9 bits a second.
    pub gbps: Option<f64>,
    /// Median and 99th percentile of half a round trip, in microseconds.
    pub latency: Option<[f64; 2]>,
    /// Packets sent again, and dropped by fault injection.
    pub again: Option<[u64; 2]>,
    /// How the data was checked.
    pub data: &'static str,
}

impl Row {
    /// Of a file.
    pub fn of_file(outcome: &Outcome) -> Self {
        let Outcome { name, size, counts, equal, .. } = outcome;
        Self {
            name: format!("file of {}, {name}", mebibytes(*size)),
            gbps: Some(counts.gbps),
            latency: None,
            again: Some([counts.retransmitted, counts.injected_drops]),
            data: if *equal { "SHA-256 equal" } else { "SHA-256 DIFFERENT" },
        }
    }
}

/// All rows.
pub fn table(rows: &[Row]) -> String {
    let mut table = format!(
        "{:36} {:>8} {:>8} {:>8} {:>11} {:>8}  data",
        "", "Gb/s", "p50 us", "p99 us", "sent again", "dropped"
    );
    for Row { name, gbps, latency, again, data } in rows {
        let real = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
        let count = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        let _ = write!(
            table,
            "\n{name:36} {:>8} {:>8} {:>8} {:>11} {:>8}  {data}",
            real(*gbps),
            real(latency.map(|[p50, _]| p50)),
            real(latency.map(|[_, p99]| p99)),
            count(again.map(|[again, _]| again)),
            count(again.map(|[_, dropped]| dropped)),
        );
    }
    table
}

/// An error unless every file arrived, and the lossy runs really lost packets.
pub fn verdict(outcomes: &[Outcome]) -> Result<()> {
    let mut wrong = Vec::new();
    for Outcome { name, size, injects, counts, equal } in outcomes {
        if !equal {
            wrong.push(format!("{name}: the received file differs from the source"));
        }
        if counts.bytes != *size {
            wrong.push(format!("{name}: the sender counted {} bytes of {size}", counts.bytes));
        }
        let must_lose = *injects && counts.packets_sent >= PACKETS_THAT_MUST_LOSE;
        if must_lose && counts.injected_drops == 0 {
            wrong.push(format!("{name}: no packet was dropped, so this run shows nothing"));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Error(wrong.join("\n"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"bytes": 1048576, "seconds": 0.5, "gbps": 16.777, "packets_sent": 9000,
                           "retransmitted": 91, "injected_drops": 90}"#;

    fn outcome(injects: bool, equal: bool) -> Outcome {
        let counts = Counts::parse(JSON).expect("as the sender writes it");
        Outcome { name: "run", size: 1 << 20, injects, counts, equal }
    }

    #[test]
    fn a_key_that_is_missing_or_no_number_is_named() {
        let error = Counts::parse(&JSON.replace("gbps", "mbps")).expect_err("there is no gbps");
        assert_eq!(error.0, "`gbps` is missing or no number");
        let error = Counts::parse(&JSON.replace("91", "\"many\"")).expect_err("not a number");
        assert_eq!(error.0, "`retransmitted` is missing or no number");
        assert!(Counts::parse("{").is_err());
    }

    #[test]
    fn equal_files_pass() {
        assert_eq!(verdict(&[outcome(false, true), outcome(true, true)]), Ok(()));
    }

    #[test]
    fn a_different_file_fails() {
        let error = verdict(&[outcome(false, true), outcome(true, false)]).expect_err("one differs");
        assert!(error.0.contains("differs"), "{error}");
    }

    #[test]
    fn a_lossy_run_without_loss_fails() {
        let mut run = outcome(true, true);
        run.counts.injected_drops = 0;
        assert!(verdict(&[run]).expect_err("nothing was dropped").0.contains("shows nothing"));
        let mut run = outcome(false, true);
        run.counts.injected_drops = 0;
        assert_eq!(verdict(&[run]), Ok(()), "nothing was to be dropped");
    }

    #[test]
    fn a_short_count_fails() {
        let mut run = outcome(false, true);
        run.counts.bytes -= 1;
        assert!(verdict(&[run]).is_err());
    }

    #[test]
    fn the_table_has_every_figure() {
        let latency =
            Row { name: "WRITE".into(), latency: Some([1.5, 2.25]), data: "verified", ..Row::default() };
        let table =
            table(&[Row::of_file(&outcome(true, true)), Row::of_file(&outcome(true, false)), latency]);
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            lines[1][..],
            ["file", "of", "1.0", "MiB,", "run", "16.78", "-", "-", "91", "90", "SHA-256", "equal"]
        );
        assert_eq!(lines[2].last(), Some(&"DIFFERENT"));
        assert_eq!(lines[3][..], ["WRITE", "-", "1.50", "2.25", "-", "-", "verified"]);
    }
}
