//! What came out of the runs: the table, and whether it is good.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::error::{Error, Result};

/// A run of so many packets that drops nothing at 1 % is a broken injector, not luck: the odds are 0.99^2000, 2e-9.
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

/// One run's result.
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

/// All runs, one a line.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut table = format!(
        "{:10} {:>12} {:>9} {:>8} {:>13} {:>14} {:>9}  SHA-256",
        "run", "size", "seconds", "Gb/s", "packets sent", "retransmitted", "dropped"
    );
    for Outcome { name, size, counts, equal, .. } in outcomes {
        let _ = write!(
            table,
            "\n{name:10} {:>12} {:>9.3} {:>8.2} {:>13} {:>14} {:>9}  {}",
            mebibytes(*size),
            counts.seconds,
            counts.gbps,
            counts.packets_sent,
            counts.retransmitted,
            counts.injected_drops,
            if *equal { "equal" } else { "DIFFERENT" },
        );
    }
    table
}

/// An error unless every run delivered the file, and the lossy ones really lost packets.
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
        let table = table(&[outcome(true, true), outcome(true, false)]);
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["run", "1.0", "MiB", "0.500", "16.78", "9000", "91", "90", "equal"]);
        assert_eq!(lines[2].last(), Some(&"DIFFERENT"));
    }
}
