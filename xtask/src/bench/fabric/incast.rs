//! Incast: sixty hosts send 500 KB to one at once, while all send at 30 % of their links.

use super::{Fabric, Outcome, Picture, number};
use crate::bench::claim::{Claim, Limit};
use crate::error::Result;

const NETWORK: &str = "fabric/networks/incast.toml";
/// A name, and the options that make it.
const SERIES: [(&str, &[&str]); 4] = [
    ("srnic", &["--scheme", "srnic"]),
    ("engine, go-back-N", &["--scheme", "srnic", "--recovery", "go-back-n"]),
    ("cx6-lossy", &["--scheme", "cx6-lossy"]),
    ("srnic, spraying", &["--scheme", "srnic", "--spray"]),
];

pub fn run(fabric: &Fabric) -> Result<Outcome> {
    let time = if fabric.quick { "4000" } else { "12000" };
    let mut rows = Vec::new();
    for (_, options) in SERIES {
        rows.push(fabric.row(&[&["run", NETWORK, "--time", time], options].concat())?);
    }
    let places = [("incast", "workloads/0/p99_fct_us"), ("other flows", "workloads/1/p99_fct_us")];
    let lines = SERIES.iter().zip(&rows).map(|((name, _), row)| {
        (*name, places.iter().map(|(_, path)| number(row, path)).collect::<Vec<_>>())
    });
    let picture = Picture {
        title: "99th percentile of flow completion times, incast of 60 (simulated)",
        axes: ["flows", "us"],
        places: places.iter().map(|(name, _)| (*name).to_owned()).collect(),
        lines: lines.collect(),
    };
    let claims = claims(&picture);
    let unfinished: f64 = rows.iter().map(|row| number(row, "unfinished") + number(row, "failed")).sum();
    let claims =
        [vec![Claim::new("flows unfinished or failed", Limit::AtMost(0.0), unfinished)], claims].concat();
    let words = "The paper has no such figure: go-back-N stands without PFC beside selective repeat.";
    Ok(Outcome { rows, claims, words, picture })
}

/// The 99th percentiles, and what the others' are of SRNIC's.
fn claims(picture: &Picture) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (place, flows) in picture.places.iter().enumerate() {
        let ours = picture.lines[0].1[place];
        claims.push(Claim::new(format!("p99 us of srnic, {flows}"), Limit::Shown, ours));
        for (name, values) in &picture.lines[1..] {
            let what = format!("p99 of {name} over srnic, {flows}");
            claims.push(Claim::new(what, Limit::Shown, values[place] / ours));
        }
    }
    claims
}
