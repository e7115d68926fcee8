//! Congestion notifications, two by two: receivers that notify once in 50 us or for each marked
//! packet, senders that cut once in 50 us or at each notification.

use super::{Fabric, Outcome, Picture, number};
use crate::bench::claim::{Claim, Limit};
use crate::error::Result;

const NETWORK: &str = "fabric/networks/cnp.toml";
/// A name, and the options that make it.
const RECEIVERS: [(&str, &str); 2] = [("once in 50 us", "50"), ("each packet", "0")];
const SENDERS: [(&str, &str); 2] = [("senders cut at each", "0"), ("senders cut once in 50 us", "50")];

pub fn run(fabric: &Fabric) -> Result<Outcome> {
    let time = if fabric.quick { "8000" } else { "20000" };
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for (name, cut) in SENDERS {
        let mut line = Vec::new();
        for (_, notify) in RECEIVERS {
            let options = ["--notify-gap", notify, "--cut-gap", cut];
            let row = fabric.row(&[&["run", NETWORK, "--time", time], &options[..]].concat())?;
            line.push(number(&row, "workloads/0/gbps"));
            rows.push(row);
        }
        lines.push((name, line));
    }
    let picture = Picture {
        title: "Four senders to one host with DCQCN (simulated)",
        axes: ["receivers notify", "Gb/s"],
        places: RECEIVERS.iter().map(|(name, _)| (*name).to_owned()).collect(),
        lines,
    };
    let words = "Azure (NSDI '23): NICs of several generations notify, and react, once in a while or at each packet; \
                 a sender that cuts at each notification of a receiver that sends many gets too slow.";
    Ok(Outcome { rows, claims: claims(&picture), words, picture })
}

/// The payload of all four senders, of the 100 Gb/s of the receiver's link.
fn claims(picture: &Picture) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (senders, line) in &picture.lines {
        for (receivers, gbps) in picture.places.iter().zip(line) {
            let what = format!("Gb/s, {senders}, receivers notify: {receivers}");
            claims.push(Claim::new(what, Limit::Shown, *gbps));
        }
    }
    if let [(_, each), (_, once)] = &picture.lines[..] {
        let what = "each packet over once in 50 us, senders cut at each";
        claims.push(Claim::new(what, Limit::AtMost(0.8), each[1] / each[0]));
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
        assert_eq!(missed([[90.0, 40.0], [90.0, 88.0]]), 0);
        assert_eq!(missed([[90.0, 88.0], [90.0, 88.0]]), 1);
        assert_eq!(missed([[90.0, 40.0], [90.0, 40.0]]), 1);
    }
}
