//! What was slow, in sentences: where the time went, and what can be done.

use super::report::Report;
use super::text::time;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use verbs_api::Part;

/// Parts that are told of: from this share of the time on.
const SHARE_MIN: f64 = 0.1;

/// A paragraph for each of the last slow operations.
pub fn sentences(report: &Report) -> String {
    if report.slow.is_empty() {
        return "No sampled operation was slow: none took longer than slow= says.\n".to_owned();
    }
    let mut text = String::new();
    for slow in &report.slow {
        text.push_str(&sentence(&Slow(slow)));
        text.push('\n');
    }
    text
}

struct Slow<'a>(&'a BTreeMap<String, String>);

impl Slow<'_> {
    fn text(&self, key: &str) -> &str {
        self.0.get(key).map_or("?", String::as_str)
    }

    /// Nanoseconds, or a count.
    fn number(&self, key: &str) -> f64 {
        self.text(key).parse().unwrap_or(0.0)
    }

    fn time(&self, key: &str) -> String {
        time(self.number(key) * 1e-9)
    }

    /// The parts that matter, the longest first, with their share.
    fn parts(&self) -> Vec<(Part, f64)> {
        let total = self.number("total").max(1.0);
        let mut parts: Vec<_> =
            Part::ALL.into_iter().map(|part| (part, self.number(part.name()) / total)).collect();
        parts.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        parts.retain(|(_, share)| *share >= SHARE_MIN);
        parts
    }
}

fn sentence(slow: &Slow<'_>) -> String {
    let mut text = format!(
        "{} {} of queue pair {} to {} took {}",
        slow.text("opcode"),
        slow.text("wr_id"),
        slow.text("qpn"),
        slow.text("peer_address"),
        slow.time("total"),
    );
    match slow.text("status") {
        "Success" => text.push_str(".\n"),
        status => drop(writeln!(text, ", and ended as {status}.")),
    }
    let parts = slow.parts();
    for (part, share) in &parts {
        let _ = writeln!(text, "  {} ({:.0} %): {}.", slow.time(part.name()), share * 100.0, meaning(*part));
    }
    if slow.number("again") > 0.0 {
        let _ = writeln!(text, "  Packets of it sent again: {}.", slow.text("again"));
    }
    let _ = writeln!(
        text,
        "  Its queue pair was in {}, with {} requests posted, {} packets outstanding, a window of {}, \
         a congestion window of {} and a round trip of {}; it was held back by: {}.",
        slow.text("state"),
        slow.text("requests"),
        slow.text("outstanding_packets"),
        slow.text("window_packets"),
        slow.text("cwnd_packets"),
        slow.time("srtt"),
        slow.text("limit"),
    );
    if let Some((part, _)) = parts.first() {
        let _ = writeln!(text, "  What to do: {}.", remedy(*part));
    }
    text
}

/// What happened in a part.
const fn meaning(part: Part) -> &'static str {
    match part {
        Part::Posting => "it was posted, and the engine had not seen it",
        Part::Scheduler => "it waited for its turn, behind other requests and other queue pairs",
        Part::Port => "the port had no room for its packets",
        Part::Window => "the window was full: so many packets were in the network already",
        Part::Congestion => "the congestion controller allowed no more packets",
        Part::Reads => "it waited for READs, atomics or a fence before it",
        Part::Receives => "the peer had no receive posted for it, or for a SEND before it",
        Part::Recovery => "lost packets of its queue pair were sent again",
        Part::Network => "its packets and their acknowledgement were on the way",
        Part::Peer => "the peer's host had its packets, and had not looked at them",
        Part::Polling => "it was complete, and the program had not polled it",
    }
}

/// What to do about a part that is too long.
const fn remedy(part: Part) -> &'static str {
    match part {
        Part::Posting => "poll more often, submit batches sooner, or open the device with poll=thread",
        Part::Scheduler => {
            "post less at once, give its queue pair a weight or a priority, or use more engines (engines=); \
             srnic stat says whether a cap of its tenant holds it back"
        }
        Part::Port => "the link is full: send less, or use a faster port",
        Part::Window => "a larger window: it must be the bandwidth times the round trip, in packets",
        Part::Congestion => "look for marks and losses in the network (srnic stat, docs/congestion.md)",
        Part::Reads => "raise max_rd_atomic at both ends, and fence less",
        Part::Receives => "post more receives at the peer, or a shared receive queue",
        Part::Recovery => "find out where packets are lost: drop_* of both devices, and srnic pcap --explain",
        Part::Network => "look at the path: its length, its queues, and other traffic (srnic ping)",
        Part::Peer => "the peer polls too seldom: let it poll, or open its device with poll=thread",
        Part::Polling => "poll more often, or wait on a completion channel",
    }
}
