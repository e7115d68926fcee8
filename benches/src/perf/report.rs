//! Results as they come: a row for people, an object of the JSON file for programs.

use crate::error::{Error, Result};
use serde_json::{Value, json};
use std::path::Path;
use verbs_api::Device;

/// The table so far.
pub struct Report {
    results: Vec<Value>,
}

impl Report {
    /// Measures each of `sizes`: prints the heading, has `measure` add rows, and writes the JSON file, after Ctrl-C as
    /// well. `run` is what the file says of the run.
    pub fn of_each(
        sizes: &[usize],
        heading: &str,
        json: Option<&Path>,
        run: Value,
        mut measure: impl FnMut(&mut Self, usize) -> Result<()>,
    ) -> Result<()> {
        println!("{heading}");
        let mut report = Self { results: Vec::new() };
        let result = sizes.iter().try_for_each(|&size| measure(&mut report, size));
        if matches!(result, Ok(()) | Err(Error::Interrupted)) {
            report.write(json, run)?;
        }
        result
    }

    /// Prints a row; `result` is what the file says of it.
    pub fn add(&mut self, row: &str, result: Value) {
        println!("{row}");
        self.results.push(result);
    }

    /// Writes the JSON file: what was run, and the rows; the keys of a single row stand beside the run's as well.
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

/// What a device counts of each size.
pub struct Losses {
    device: Device,
    /// Packets sent again, and dropped by faults, before the present size.
    before: (u64, u64),
}

impl Losses {
    /// Counts from now on.
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone(), before: counted(device) }
    }

    /// Adds to `result` what was counted since the last time.
    pub fn add_to(&mut self, result: &mut Value) {
        let now = counted(&self.device);
        result["retransmits"] = json!(now.0 - self.before.0);
        result["drops"] = json!(now.1 - self.before.1);
        self.before = now;
    }
}

fn counted(device: &Device) -> (u64, u64) {
    let faults = device.fault_stats();
    (device.counters().tx_retransmits, faults.tx.dropped() + faults.rx.dropped())
}
