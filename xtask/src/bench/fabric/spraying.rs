//! Packet spraying beside ECMP: each packet takes a way of its own, instead of each flow.

use serde_json::Value;

use super::{Fabric, Outcome, Picture, number};
use crate::bench::claim::{Claim, Limit};
use crate::error::Result;

/// A name, and the options that make it.
const SERIES: [(&str, &[&str]); 4] = [
    ("srnic, ECMP", &["--scheme", "srnic"]),
    ("srnic, spraying", &["--scheme", "srnic", "--spray"]),
    ("cx6-lossy, ECMP", &["--scheme", "cx6-lossy"]),
    ("cx6-lossy, spraying", &["--scheme", "cx6-lossy", "--spray"]),
];
/// Of Figure 12, and flows of one size from each host to one other.
const METRICS: [&str; 3] = ["avg_fct_us", "p99_fct_us", "avg_slowdown"];
const PERMUTATION: &str = "fabric/networks/permutation.toml";

pub fn run(fabric: &Fabric) -> Result<Outcome> {
    let time = if fabric.quick { "300" } else { "1000" };
    let mut rows = Vec::new();
    for (_, options) in SERIES {
        rows.push(fabric.row(&[&["run", "--hosts", "64", "--time", time], options].concat())?);
    }
    for (_, options) in SERIES {
        rows.push(fabric.row(&[&["run", PERMUTATION], options].concat())?);
    }
    let (random, permutation) = rows.split_at(SERIES.len());
    let slowdown = |row: &Value| number(row, "avg_slowdown");
    let line = |((name, _), (random, permutation)): (&(&'static str, _), (&Value, &Value))| {
        (*name, vec![slowdown(random), slowdown(permutation)])
    };
    let picture = Picture {
        title: "Average slowdown, ECMP and spraying (simulated)",
        axes: ["flows", "times an empty network's"],
        places: vec!["Figure 12".to_owned(), "permutation".to_owned()],
        lines: SERIES.iter().zip(random.iter().zip(permutation)).map(line).collect(),
    };
    let mut claims = claims("Figure 12", random);
    claims.extend(self::claims("permutation", permutation));
    let words =
        "The paper has no such figure: who places packets where they belong as they come can take any way.";
    Ok(Outcome { rows, claims, words, picture })
}

/// What spraying is of ECMP, for each transport.
fn claims(flows: &str, rows: &[Value]) -> Vec<Claim> {
    let unfinished: f64 = rows.iter().map(|row| number(row, "unfinished") + number(row, "failed")).sum();
    let mut claims =
        vec![Claim::new(format!("flows unfinished or failed, {flows}"), Limit::AtMost(0.0), unfinished)];
    for (pair, rows) in SERIES.chunks(2).zip(rows.chunks(2)) {
        let scheme = pair[0].0.split(',').next().unwrap_or_default();
        for metric in METRICS {
            let what = format!("{metric} of spraying over ECMP, {scheme}, {flows}");
            claims.push(Claim::new(what, Limit::Shown, number(&rows[1], metric) / number(&rows[0], metric)));
        }
    }
    claims
}
