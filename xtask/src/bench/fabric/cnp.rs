//! Congestion notifications, two by two: receivers that notify once in 50 us or for each marked
//! packet, senders that cut at each notification or once in 50 us. Sixty hosts send to one at once.

use super::{Fabric, Outcome, Picture, number};
use crate::bench::claim::{Claim, Limit};
use crate::error::Result;

const NETWORK: &str = "fabric/networks/incast.toml";
/// A name, and microseconds between two.
const RECEIVERS: [(&str, &str); 2] = [("once in 50 us", "50"), ("each packet", "0")];
const SENDERS: [(&str, &str); 2] = [("senders cut at each", "0"), ("senders cut once in 50 us", "50")];

pub fn run(fabric: &Fabric) -> Result<Outcome> {
    let time = if fabric.quick { "4000" } else { "12000" };
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for (name, cut) in SENDERS {
        let mut line = Vec::new();
        for (_, notify) in RECEIVERS {
            let options = ["--scheme", "cx6", "--notify-gap", notify, "--cut-gap", cut];
            let row = fabric.row(&[&["run", NETWORK, "--time", time], &options[..]].concat())?;
            line.push(number(&row, "workloads/0/p99_fct_us"));
            rows.push(row);
        }
        lines.push((name, line));
    }
    let picture = Picture {
        title: "99th percentile of flow completion times, incast of 60 with DCQCN (simulated)",
        axes: ["receivers notify", "us"],
        places: RECEIVERS.iter().map(|(name, _)| (*name).to_owned()).collect(),
        lines,
    };
    let unfinished: f64 = rows.iter().map(|row| number(row, "unfinished") + number(row, "failed")).sum();
    let all = Claim::new("flows unfinished or failed", Limit::AtMost(0.0), unfinished);
    let words = "Azure (NSDI '23): its NICs notify, and react, once in a while or at each packet; senders that \
                 cut at each notification of receivers that send many get too slow.";
    Ok(Outcome { rows, claims: [vec![all], claims(&picture)].concat(), words, picture })
}

fn claims(picture: &Picture) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (senders, line) in &picture.lines {
        for (receivers, us) in picture.places.iter().zip(line) {
            let what = format!("p99 us, {senders}, receivers notify: {receivers}");
            claims.push(Claim::new(what, Limit::Shown, *us));
        }
    }
    if let [(_, each), (_, once)] = &picture.lines[..] {
        let what = "each packet over once in 50 us, senders cut at each";
        claims.push(Claim::new(what, Limit::AtLeast(1.2), each[1] / each[0]));
        let what = "each packet over once in 50 us, senders cut once in 50 us";
        claims.push(Claim::new(what, Limit::Near(0.1), once[1] / once[0]));
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Senders that cut once do not care how often they are notified.
    #[test]
    fn claims_are_of_the_right_cells() {
        let missed = |lines: [[f64; 2]; 2]| {
            let lines = SENDERS.iter().zip(lines).map(|((name, _), line)| (*name, line.to_vec())).collect();
            let places = vec![String::new(); 2];
            let all = claims(&Picture { title: "", axes: ["", ""], places, lines });
            all.iter().filter(|claim| !claim.is_kept()).count()
        };
        assert_eq!(missed([[2800.0, 4700.0], [2800.0, 2850.0]]), 0);
        assert_eq!(missed([[2800.0, 2850.0], [2800.0, 2850.0]]), 1);
        assert_eq!(missed([[2800.0, 4700.0], [2800.0, 4700.0]]), 1);
    }
}
