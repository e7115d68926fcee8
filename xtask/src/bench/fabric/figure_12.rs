//! SRNIC's Figure 12: flow completion times and slowdown in fat trees of 16 to 4,096 hosts.

use serde_json::Value;

use super::{Fabric, Outcome, Picture, number};
use crate::bench::claim::{Claim, Limit};
use crate::error::Result;

/// Those of the figure, and IRN with the congestion control of SRNIC, as the paper does not say
/// which IRN had.
const SCHEMES: [&str; 4] = ["srnic", "irn", "irn-dctcp", "cx6"];
const METRICS: [&str; 3] = ["avg_fct_us", "p99_fct_us", "avg_slowdown"];
/// From so many hosts on CX-6 must be behind.
const LARGE: f64 = 256.0;

pub fn run(fabric: &Fabric) -> Result<Outcome> {
    let (hosts, time) = if fabric.quick { ("16,64", "300") } else { ("16,64,256,1024,4096", "1000") };
    let schemes = SCHEMES.join(",");
    let rows = fabric.rows(&["compare", "--hosts", hosts, "--schemes", &schemes, "--time", time])?;
    let line = |scheme: &'static str| (scheme, of(&rows, scheme, "avg_slowdown"));
    let picture = Picture {
        title: "Average slowdown against hosts (simulated)",
        axes: ["hosts", "times an empty network's"],
        places: hosts.split(',').map(str::to_owned).collect(),
        lines: SCHEMES.map(line).to_vec(),
    };
    let words = "The paper: SRNIC is 1.9 to 2.2 times better than CX-6, the gap widens with scale, and SRNIC is about as IRN.";
    let claims = [claims(&rows), speed(&rows)].concat();
    Ok(Outcome { rows, claims, words, picture })
}

/// A number of a scheme at each size.
fn of(rows: &[Value], scheme: &str, metric: &str) -> Vec<f64> {
    rows.iter().filter(|row| row["scheme"] == scheme).map(|row| number(row, metric)).collect()
}

fn claims(rows: &[Value]) -> Vec<Claim> {
    let unfinished: f64 = rows.iter().map(|row| number(row, "unfinished") + number(row, "failed")).sum();
    let mut claims = vec![Claim::new("flows unfinished or failed", Limit::AtMost(0.0), unfinished)];
    let hosts = of(rows, "srnic", "hosts");
    for metric in METRICS {
        let ours = of(rows, "srnic", metric);
        for (peer, limit) in
            [("irn", Limit::Near(0.15)), ("irn-dctcp", Limit::Near(0.15)), ("cx6", Limit::AtLeast(1.1))]
        {
            for ((hosts, ours), theirs) in hosts.iter().zip(&ours).zip(of(rows, peer, metric)) {
                let (what, ratio) = match peer {
                    "cx6" => (
                        format!("{metric} of cx6 over srnic, {hosts} hosts (paper: 1.9 to 2.2)"),
                        theirs / ours,
                    ),
                    _ => (format!("{metric} of srnic over {peer}, {hosts} hosts"), ours / theirs),
                };
                let small = peer == "cx6" && *hosts < LARGE;
                claims.push(Claim::new(what, if small { Limit::Shown } else { limit }, ratio));
            }
        }
    }
    let slowdown = of(rows, "srnic", "avg_slowdown");
    if let (Some(small), Some(large)) = (slowdown.get(1), slowdown.last()) {
        let what = "avg_slowdown of srnic, the most hosts over 64";
        claims.push(Claim::new(what, Limit::AtMost(1.5), large / small));
    }
    claims
}

/// What the runs cost. It is claimed of 4,096 hosts, on two cores.
fn speed(rows: &[Value]) -> Vec<Claim> {
    const WHOLE: f64 = 4096.0;
    let whole = rows.iter().any(|row| number(row, "hosts") >= WHOLE);
    let limit = |limit| if whole { limit } else { Limit::Shown };
    let mut claims = Vec::new();
    if let Some(row) = rows.iter().rfind(|row| row["scheme"] == "srnic") {
        let what = format!("million data packets a second and core, srnic, {} hosts", number(row, "hosts"));
        let rate = number(row, "packets_per_core_second") / 1e6;
        claims.push(Claim::new(what, limit(Limit::AtLeast(0.5)), rate));
    }
    let most = rows.iter().map(|row| number(row, "peak_bytes")).fold(0.0, f64::max);
    claims.push(Claim::new(
        "most memory of a run, GiB",
        limit(Limit::AtMost(4.0)),
        most / f64::from(1 << 30),
    ));
    let seconds: f64 = rows.iter().map(|row| number(row, "seconds")).sum();
    claims.push(Claim::new("minutes of all runs", limit(Limit::AtMost(15.0)), seconds / 60.0));
    claims
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(scheme: &str, hosts: u32, factor: f64) -> Value {
        json!({ "scheme": scheme, "hosts": hosts, "unfinished": 0, "failed": 0, "avg_fct_us": 100.0 * factor,
                "p99_fct_us": 900.0 * factor, "avg_slowdown": 2.0 * factor })
    }

    #[test]
    fn claims_are_of_the_right_rows() {
        let rows = |irn, cx6, growth| {
            let at = |hosts, grown: f64| {
                [
                    row("srnic", hosts, grown),
                    row("irn", hosts, irn * grown),
                    row("irn-dctcp", hosts, grown),
                    row("cx6", hosts, cx6 * grown),
                ]
            };
            [at(16, 1.0), at(64, 1.0), at(256, growth)].concat()
        };
        let missed = |rows: &[Value]| claims(rows).iter().filter(|claim| !claim.is_kept()).count();
        assert_eq!(missed(&rows(1.1, 2.0, 1.4)), 0);
        assert_eq!(missed(&rows(1.3, 2.0, 1.4)), 9, "IRN at three sizes on three metrics");
        assert_eq!(missed(&rows(1.0, 1.0, 1.4)), 3, "CX-6 at 256 hosts");
        assert_eq!(missed(&rows(1.0, 2.0, 1.6)), 1, "growth");
    }

    #[test]
    fn costs_are_claimed_of_the_whole() {
        let row = |hosts: u32, rate: f64, gib: u64| {
            json!({ "scheme": "srnic", "hosts": hosts, "packets_per_core_second": rate,
                    "peak_bytes": gib << 30, "seconds": 500.0 })
        };
        let missed = |rows: &[Value]| speed(rows).iter().filter(|claim| !claim.is_kept()).count();
        assert_eq!(missed(&[row(64, 1e5, 9)]), 0);
        assert_eq!(missed(&[row(4096, 6e5, 3)]), 0);
        assert_eq!(missed(&[row(4096, 4e5, 3), row(4096, 4e5, 5)]), 3);
    }
}
