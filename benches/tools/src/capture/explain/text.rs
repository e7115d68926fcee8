//! The report for people.

use super::connection::{Connection, Quantiles, Stream};
use super::judge::What;
use super::report::Report;
use super::stream::Traffic;
use std::fmt;

/// Violations of a connection that are told one by one.
const TOLD_MAX: usize = 20;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} frames, {} connections", self.counts.frames, self.connections.len())?;
        let counts = [
            (self.counts.spoiled, "packets have a wrong ICRC: receivers drop them"),
            (self.counts.unparsed, "frames cannot be parsed"),
            (self.counts.cut, "frames were not captured whole; capture with a larger snapshot length"),
        ];
        for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
            writeln!(f, "{count} {what}")?;
        }
        self.connections.iter().try_for_each(|one| connection(one, f))
    }
}

fn connection(of: &Connection, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let dialect = if of.is_srnic { "srnic" } else { "plain" };
    write!(f, "\n{}", of.forth.src)?;
    if let Some(back) = of.back {
        write!(f, " qp {:#08x}", back.qpn)?;
    }
    write!(f, " - {} qp {:#08x}: {dialect} {}", of.forth.dst, of.forth.qpn, of.service)?;
    if let Some(pmtu) = of.pmtu {
        write!(f, ", path MTU {pmtu}")?;
    }
    writeln!(f, ", {}", if of.captures > 1 { "captured at both ends" } else { "captured once" })?;
    of.streams.iter().try_for_each(|one| stream(one, f))?;
    for violation in of.violations.iter().take(TOLD_MAX) {
        let section = violation.rule.section();
        writeln!(f, "  BROKEN RULE, protocol.md {section}, frame {}: {}", violation.frame, violation.text)?;
    }
    match of.violations.len() {
        0 => writeln!(f, "  no rule was broken"),
        count if count > TOLD_MAX => writeln!(f, "  and {} more", count - TOLD_MAX),
        _ => Ok(()),
    }
}

fn stream(of: &Stream, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let what = match of.traffic {
        Traffic::Requests => "requests",
        Traffic::Responses => "responses",
    };
    writeln!(
        f,
        "  {what} from {} to {}: {} packets, {} bytes, at most {} outstanding",
        of.src, of.dst, of.packets, of.bytes, of.window
    )?;
    let happened = [
        (What::Lost, "lost"),
        (What::Reordered, "out of order"),
        (What::Duplicated, "duplicated by the network"),
        (What::Unsent, "received and never sent"),
    ];
    sum(f, "network", happened.map(|(what, text)| (of.count(what) as u64, text)))?;
    let again = [
        (What::Needed, "needed: nothing had arrived"),
        (What::Refused, "needed: refused before"),
        (What::Needless, "needless: it had arrived"),
        (What::Unjudged, "that nothing tells about"),
    ];
    sum(f, "sent again", again.map(|(what, text)| (of.count(what) as u64, text)))?;
    sum(
        f,
        "answers",
        [
            (of.acks, "acknowledgements"),
            (of.acks_lost.unwrap_or(0), "of them lost"),
            (of.nacks, "that something is missing"),
            (of.rnr_naks, "that no receive is posted (RNR)"),
            (of.error_naks, "that end the connection"),
        ],
    )?;
    sum(
        f,
        "marks",
        [
            (of.marked, "packets marked CE"),
            (of.marks_reported, "marks reported"),
            (of.keepalives, "keepalive probes"),
        ],
    )?;
    times(f, "round trip", of.round_trip)?;
    times(f, "of it the peer's host", of.host_delay)
}

/// A line of what there is; none if there is nothing.
fn sum<const N: usize>(f: &mut fmt::Formatter<'_>, title: &str, of: [(u64, &str); N]) -> fmt::Result {
    let some: Vec<String> = of
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, text)| format!("{count} {text}"))
        .collect();
    if some.is_empty() { Ok(()) } else { writeln!(f, "    {title}: {}", some.join(", ")) }
}

fn times(f: &mut fmt::Formatter<'_>, title: &str, of: Option<Quantiles>) -> fmt::Result {
    let Some(of) = of else { return Ok(()) };
    let us = |ns: u64| format!("{}.{:02}", ns / 1000, ns % 1000 / 10);
    writeln!(
        f,
        "    {title}: {} us at least, {} p50, {} p99, {} at most",
        us(of.min),
        us(of.p50),
        us(of.p99),
        us(of.max)
    )
}
