//! Fairness between round trips: a near host and one 80 km away send to one.

use super::{Fabric, Outcome, Picture, number};
use crate::bench::claim::{Claim, Limit};
use crate::error::Result;

const NETWORK: &str = "fabric/networks/rtt-fairness.toml";
/// A name, and the options that make it.
const SERIES: [(&str, &[&str]); 3] = [
    ("DCTCP", &["--scheme", "srnic"]),
    ("DCTCP with RTT-fair growth", &["--scheme", "srnic", "--rtt-reference", "200000"]),
    ("paced DCQCN", &["--scheme", "cx6"]),
];

pub fn run(fabric: &Fabric) -> Result<Outcome> {
    let (time, warm_up) = if fabric.quick { ("60000", "30000") } else { ("400000", "200000") };
    let mut rows = Vec::new();
    for (_, options) in SERIES {
        rows.push(fabric.row(&[&["run", NETWORK, "--time", time, "--warm-up", warm_up], options].concat())?);
    }
    let lines = SERIES.iter().zip(&rows).map(|((name, _), row)| {
        (*name, vec![number(row, "workloads/0/gbps"), number(row, "workloads/1/gbps")])
    });
    let picture = Picture {
        title: "Shares of a near and a far sender (simulated)",
        axes: ["round trip", "Gb/s"],
        places: vec!["2 us".to_owned(), "1.77 ms".to_owned()],
        lines: lines.collect(),
    };
    let mut claims = Vec::new();
    for (name, values) in &picture.lines {
        claims.push(Claim::new(format!("Gb/s of both, {name}"), Limit::Shown, values[0] + values[1]));
        claims.push(Claim::new(format!("near over far, {name}"), Limit::Shown, values[0] / values[1]));
    }
    let words = "Azure (NSDI '23): with DCQCN a near and a far sender share about evenly; a window of DCTCP favours the near one.";
    Ok(Outcome { rows, claims, words, picture })
}
