//! Results as they come: a row for people, an object of the JSON file for programs.

use crate::error::{Error, Result};
use serde_json::{Value, json};
use std::path::Path;
use verbs_api::Device;

/// The table so far.
pub struct Report {
    device: Device,
    /// What the device had counted before the present size: packets sent again, and dropped by faults.
    before: (u64, u64),
    results: Vec<Value>,
}

impl Report {
    /// Prints the heading.
    pub fn new(device: &Device, heading: &str) -> Self {
        println!("{heading}");
        Self { device: device.clone(), before: counted(device), results: Vec::new() }
    }

    /// Prints a row; `result` is what the file says of it.
    pub fn add(&mut self, row: &str, mut result: Value) {
        println!("{row}");
        let now = counted(&self.device);
        result["retransmits"] = json!(now.0 - self.before.0);
        result["drops"] = json!(now.1 - self.before.1);
        self.before = now;
        self.results.push(result);
    }

    /// Writes the JSON file: what was run, and the rows.
    pub fn write(&self, path: Option<&Path>, mut run: Value) -> Result<()> {
        let Some(path) = path else { return Ok(()) };
        run["results"] = json!(self.results);
        std::fs::write(path, format!("{run:#}\n")).map_err(Error::file("write", path))
    }
}

fn counted(device: &Device) -> (u64, u64) {
    let faults = device.fault_stats();
    (device.counters().tx_retransmits, faults.tx.dropped() + faults.rx.dropped())
}
