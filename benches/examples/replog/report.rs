//! What all runs amount to.

use crate::Cli;
use crate::trial::Outcome;
use serde_json::{Value, json};
use srnic_tools::error::{Error, Result};
use srnic_tools::output;
use std::path::Path;

/// The runs so far, of which one without loss and one with it belong together.
pub struct Report<'a> {
    cli: &'a Cli,
    rounds: Vec<[Outcome; 2]>,
}

impl<'a> Report<'a> {
    /// None yet: prints the heading.
    pub fn new(cli: &'a Cli) -> Result<Self> {
        let shape = cli.shape;
        output::line(format_args!(
            "{} records of {} bytes to two followers, of which one is killed and comes again; {} outstanding",
            shape.records, shape.size, shape.outstanding
        ))?;
        output::line(
            "loss         records/s   commit, us: p50       p99     p99.9       max    resent   rejoined with",
        )?;
        Ok(Self { cli, rounds: Vec::new() })
    }

    /// Adds a round, and shows it.
    pub fn add(&mut self, round: [Outcome; 2]) -> Result<()> {
        for (loss, outcome) in ["none", &self.cli.loss].into_iter().zip(&round) {
            let (latency, (had, of)) = (&outcome.latency, outcome.back);
            output::line(format_args!(
                "{loss:<8} {:>13.0} {:>18.1} {:>9.1} {:>9.1} {:>9.1} {:>9}   {had} of {of}",
                outcome.rate, latency.p50, latency.p99, latency.p999, latency.max, outcome.resent
            ))?;
        }
        self.rounds.push(round);
        Ok(())
    }

    /// Prints medians, and writes them and all runs to the file.
    pub fn end(&self, json: Option<&Path>) -> Result<()> {
        let rates = [0, 1].map(|which| self.median(|round| round[which].rate));
        let ratio = self.median(|[lossless, lossy]| lossy.rate / lossless.rate);
        output::line(format_args!(
            "medians: {:.0} records/s without loss, {:.0} with {}; ratio of a round {ratio:.3}",
            rates[0], rates[1], self.cli.loss
        ))?;
        let checksum = self.rounds.last().map_or(0, |[_, last]| last.checksum);
        output::line(format_args!(
            "every log of every run is that of its leader, to the byte: CRC-32 {checksum:08x}"
        ))?;
        let Some(path) = json else { return Ok(()) };
        let rounds: Vec<Value> = self.rounds.iter().map(|round| json!(round.each_ref().map(value))).collect();
        let shape = self.cli.shape;
        let document = json!({
            "records": shape.records, "size": shape.size, "outstanding": shape.outstanding, "loss": self.cli.loss,
            "lossless_rate": rates[0], "lossy_rate": rates[1], "ratio": ratio, "rounds": rounds,
        });
        std::fs::write(path, format!("{document:#}\n")).map_err(Error::file("write", path))
    }

    fn median(&self, of: impl Fn(&[Outcome; 2]) -> f64) -> f64 {
        let mut values: Vec<f64> = self.rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    }
}

/// A run, as the file has it.
fn value(outcome: &Outcome) -> Value {
    let latency = &outcome.latency;
    json!({
        "rate": outcome.rate, "resent": outcome.resent, "rejoined_with": outcome.back.0, "rejoined_of": outcome.back.1,
        "commit_us": { "p50": latency.p50, "p99": latency.p99, "p99.9": latency.p999, "max": latency.max },
    })
}
