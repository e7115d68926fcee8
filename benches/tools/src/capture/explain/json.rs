//! The report as a document.

use super::connection::{Connection, Quantiles, Stream};
use super::judge::What;
use super::report::Report;
use super::rules::Violation;
use serde_json::{Value, json};

impl Report {
    /// As a document, for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let connections: Vec<Value> = self.connections.iter().map(connection).collect();
        let broken = self.violations().count();
        json!({
            "frames": self.counts.frames,
            "spoiled": self.counts.spoiled,
            "unparsed": self.counts.unparsed,
            "cut": self.counts.cut,
            "violations": broken,
            "connections": connections,
        })
    }
}

fn connection(of: &Connection) -> Value {
    let violations: Vec<Value> = of.violations.iter().map(violation).collect();
    json!({
        "ends": [of.forth.src.to_string(), of.forth.dst.to_string()],
        "qpns": [of.back.map(|back| back.qpn), Some(of.forth.qpn)],
        "dialect": if of.is_srnic { "srnic" } else { "plain" },
        "service": of.service,
        "path_mtu": of.pmtu,
        "captures": of.captures,
        "streams": of.streams.iter().map(stream).collect::<Vec<Value>>(),
        "violations": violations,
    })
}

fn violation(of: &Violation) -> Value {
    json!({
        "section": of.rule.section(),
        "rule": format!("{:?}", of.rule),
        "frame": of.frame,
        "text": of.text,
    })
}

fn stream(of: &Stream) -> Value {
    let events: Vec<Value> = of
        .events
        .iter()
        .map(|event| json!({ "what": event.what.name(), "psn": event.psn, "frame": event.frame }))
        .collect();
    json!({
        "from": of.src.to_string(),
        "to": of.dst.to_string(),
        "traffic": format!("{:?}", of.traffic).to_lowercase(),
        "packets": of.packets,
        "payload_bytes": of.bytes,
        "lost": of.count(What::Lost),
        "reordered": of.count(What::Reordered),
        "duplicated": of.count(What::Duplicated),
        "resent": {
            "all": of.resent(),
            "needed": of.count(What::Needed),
            "refused": of.count(What::Refused),
            "needless": of.count(What::Needless),
            "unjudged": of.count(What::Unjudged),
        },
        "marked": of.marked,
        "marks_reported": of.marks_reported,
        "keepalives": of.keepalives,
        "outstanding_max": of.window,
        "round_trip_ns": of.round_trip.map(quantiles),
        "host_delay_ns": of.host_delay.map(quantiles),
        "acks": of.acks,
        "acks_lost": of.acks_lost,
        "nacks": of.nacks,
        "rnr_naks": of.rnr_naks,
        "rnr_wait_ns": of.rnr_wait_ns,
        "error_naks": of.error_naks,
        "events": events,
    })
}

fn quantiles(of: Quantiles) -> Value {
    json!({ "min": of.min, "p50": of.p50, "p99": of.p99, "max": of.max })
}
