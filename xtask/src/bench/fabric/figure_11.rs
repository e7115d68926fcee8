//! SRNIC's Figure 11: goodput of one flow against loss, congestion control off.

use serde_json::Value;

use super::{Fabric, Outcome, Picture, number};
use crate::bench::claim::{Claim, Limit};
use crate::error::Result;

const NETWORK: &str = "fabric/networks/figure-11.toml";
/// Parts of the frames.
const LOSSES: [&str; 6] = ["0", "0.0001", "0.001", "0.005", "0.01", "0.02"];
/// Where 0.1, 0.5 and 1 % stand.
const TENTH: usize = 2;
const HALF: usize = 3;
const ONE: usize = 4;
/// A name, and the options that make it. NICs with go-back-N have no window (IRN, SIGCOMM '18), so
/// that of 8,000 packets is never used up.
const SERIES: [(&str, &[&str]); 4] = [
    ("selective repeat (engine)", &["--scheme", "srnic"]),
    ("go-back-N (engine)", &["--scheme", "srnic", "--recovery", "go-back-n", "--window", "8000"]),
    ("go-back-N (model of CX-6)", &["--scheme", "cx6-lossy"]),
    ("go-back-N (engine, 500 packets)", &["--scheme", "srnic", "--recovery", "go-back-n"]),
];

pub fn run(fabric: &Fabric) -> Result<Outcome> {
    let losses = if fabric.quick { &LOSSES[..=ONE] } else { &LOSSES[..] };
    let mut rows = Vec::new();
    for (_, options) in SERIES {
        for loss in losses {
            rows.push(fabric.row(&[&["run", NETWORK, "--loss", loss], options].concat())?);
        }
    }
    let series: Vec<&[Value]> = rows.chunks(losses.len()).collect();
    let goodput = |series: &[Value]| series.iter().map(|row| number(row, "flow_gbps")).collect::<Vec<_>>();
    let lines: Vec<_> = SERIES.iter().zip(&series).map(|((name, _), rows)| (*name, goodput(rows))).collect();
    let picture = Picture {
        title: "Goodput of a flow against loss (simulated)",
        axes: ["packets lost", "Gb/s"],
        places: losses.iter().map(|loss| percent(loss)).collect(),
        lines,
    };
    let claims = claims(&picture.lines, &series);
    let words = "The paper: at 1 % loss SRNIC has 75 of 100 Gb/s, CX-6 25.";
    Ok(Outcome { rows, claims, words, picture })
}

fn percent(loss: &str) -> String {
    loss.parse::<f64>().map_or_else(|_| loss.to_owned(), |loss| format!("{} %", loss * 100.0))
}

/// What the issue asks of the figure.
fn claims(lines: &[(&str, Vec<f64>)], series: &[&[Value]]) -> Vec<Claim> {
    let [selective, engine, model] = [0, 1, 2].map(|index: usize| lines[index].1.as_slice());
    let what = "selective repeat at 1 %, of lossless";
    let mut claims = vec![Claim::new(what, Limit::AtLeast(0.77), selective[ONE] / selective[0])];
    for ((name, line), rows) in [("engine", engine), ("model", model)].into_iter().zip(&series[1..]) {
        let what = format!("selective repeat at 1 %, of go-back-N ({name})");
        claims.push(Claim::new(what, Limit::AtLeast(3.0), selective[ONE] / line[ONE]));
        let busy = number(&rows[ONE], "busiest");
        claims.push(Claim::new(format!("line busy at 1 %, go-back-N ({name})"), Limit::AtLeast(0.95), busy));
        let lost_a_loss = (line[0] / line[ONE] - 1.0) / 0.01;
        let what = format!("packets sent again for each loss, D, fitted at 1 % ({name})");
        claims.push(Claim::new(what, Limit::Shown, lost_a_loss));
        for (place, loss) in [(TENTH, 0.001), (HALF, 0.005)] {
            let expected = line[0] / (1.0 + loss * lost_a_loss);
            let what = format!("go-back-N at {} %, of 1 / (1 + pD) ({name})", loss * 100.0);
            claims.push(Claim::new(what, Limit::Near(0.1), line[place] / expected));
        }
    }
    let busy = number(&series[3][ONE], "busiest");
    claims.push(Claim::new("line busy at 1 %, go-back-N (engine, 500 packets)", Limit::Shown, busy));
    claims
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Of lines that follow the formula everything is kept; of selective repeat that is no better,
    /// the ratios are missed.
    #[test]
    fn claims_are_of_the_right_numbers() {
        let go_back = |loss: &&str| 96.0 / (1.0 + 300.0 * loss.parse::<f64>().expect("a number"));
        let line: Vec<f64> = LOSSES.iter().map(go_back).collect();
        let rows = vec![json!({ "busiest": 0.99 }); LOSSES.len()];
        let series = [rows.as_slice(); 4];
        let good = [("", vec![96.0; 6]), ("", line.clone()), ("", line.clone())];
        assert!(claims(&good, &series).iter().all(Claim::is_kept));
        let bad = [("", line.clone()), ("", line.clone()), ("", line)];
        assert_eq!(claims(&bad, &series).iter().filter(|claim| !claim.is_kept()).count(), 3);
    }
}
