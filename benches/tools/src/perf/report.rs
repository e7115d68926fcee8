//! Results as they come: a row for people, an object of the JSON file for programs.

use crate::error::{Error, Result};
use crate::output;
use crate::perf::meter::Rates;
use crate::perf::statistics::Summary;
use crate::perf::table;
use serde_json::{Value, json};
use std::path::Path;
use verbs_api::Device;

/// The table so far.
pub struct Report {
    results: Vec<Value>,
    /// Whether people can see it.
    shown: Result<()>,
}

impl Report {
    /// Measures each of `sizes`: prints the heading, has `measure` add rows, and writes the JSON
    /// file, after Ctrl-C as well. `run` is what the file says of the run.
    pub fn of_each(
        sizes: &[usize],
        heading: &str,
        json: Option<&Path>,
        run: Value,
        mut measure: impl FnMut(&mut Self, usize) -> Result<()>,
    ) -> Result<()> {
        let mut report = Self { results: Vec::new(), shown: Ok(()) };
        report.show(heading);
        let result = sizes.iter().try_for_each(|&size| measure(&mut report, size));
        if matches!(result, Ok(()) | Err(Error::Interrupted)) {
            report.write(json, run)?;
        }
        result.and(report.shown)
    }

    /// Shows a line. If that is not possible any more, the measurement goes on: the JSON file and
    /// the peer want its results.
    fn show(&mut self, line: &str) {
        if self.shown.is_ok() {
            self.shown = output::line(line);
        }
    }

    /// A row of rates, for messages of `size` bytes; `gbits` is the unit.
    pub fn add_rates(&mut self, size: usize, rates: Rates, gbits: bool, lost: Lost) {
        self.add(&table::bandwidth_row(size, rates, gbits), rates.to_json(size), lost);
    }

    /// A row of latencies, for messages of `size` bytes.
    pub fn add_latencies(&mut self, size: usize, summary: &Summary, lost: Lost) {
        self.add(&table::latency_row(size, summary), summary.to_json(size), lost);
    }

    fn add(&mut self, row: &str, mut result: Value, lost: Lost) {
        self.show(row);
        result["retransmits"] = json!(lost.retransmits);
        result["drops"] = json!(lost.drops);
        self.results.push(result);
    }

    /// Writes the JSON file: what was run, and the rows; the keys of a single row stand beside the
    /// run's as well.
    fn write(&self, path: Option<&Path>, mut run: Value) -> Result<()> {
        let Some(path) = path else { return Ok(()) };
        if let [Value::Object(only)] = &self.results[..] {
            for (key, value) in only {
                run[key] = value.clone();
            }
        }
        run["results"] = json!(self.results);
        std::fs::write(path, format!("{run:#}\n")).map_err(Error::file("write", path))
    }
}

/// What did not go as it should.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lost {
    /// Packets sent again.
    pub retransmits: u64,
    /// Packets that faults dropped, or raw frames that did not arrive.
    pub drops: u64,
}

/// What a device counts of each size.
pub struct Losses {
    device: Device,
    /// Before the present size.
    before: Lost,
}

impl Losses {
    /// Counts from now on.
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone(), before: counted(device) }
    }

    /// What was counted since the last time.
    pub fn take(&mut self) -> Lost {
        let now = counted(&self.device);
        let before = std::mem::replace(&mut self.before, now);
        Lost { retransmits: now.retransmits - before.retransmits, drops: now.drops - before.drops }
    }
}

fn counted(device: &Device) -> Lost {
    let faults = device.fault_stats();
    Lost { retransmits: device.counters().tx_retransmits, drops: faults.tx.dropped() + faults.rx.dropped() }
}
