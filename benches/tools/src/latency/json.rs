//! Sampled operations as a JSON document, for programs.

use super::report::Report;
use serde_json::{Value, json};

/// What was sampled. Times are in seconds; of `parts` they are of all operations together. Counts
/// and `parts` are since the device was opened or since the look before; `slow` has the last slow
/// operations in any case.
pub fn document(address: &str, time: f64, report: &Report) -> Value {
    let operations = report.operations.iter().filter(|(_, of)| of.count > 0.0);
    let operations: Vec<Value> = operations
        .map(|([qpn, opcode, status], of)| {
            json!({
                "qpn": qpn.parse::<u32>().ok(),
                "opcode": opcode,
                "status": status,
                "count": of.count,
                "mean": of.total() / of.count,
                "parts": of.parts,
                "quantiles": of.quantiles,
            })
        })
        .collect();
    json!({
        "time": time,
        "address": address,
        "one_in": report.one_in,
        "operations": operations,
        "part_quantiles": report.parts,
        "unsampled": report.unsampled,
        "slow_count": report.slow_count,
        "slow": report.slow,
    })
}
