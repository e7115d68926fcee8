//! What an endpoint tells at the `stat=` of its device.

use super::service::Shared;
use super::{Stats, Way};
use crate::protocol::Violation;
use verbs_api::{Metric, MetricKind, MetricSource};

use MetricKind::{Counter, Gauge};

impl MetricSource for Shared {
    fn metrics(&self) -> Vec<Metric> {
        let stats = self.lock().stats();
        let mut metrics = plain(&stats);
        let of = |name, help, labels, value| Metric { name, help, kind: Counter, labels, value };
        for (way, sent) in Way::ALL.iter().zip(stats.sent) {
            let help = "Messages with bytes of streams that were sent, by the way that they went.";
            metrics.push(of("streams_messages", help, vec![("way", way.to_string())], sent));
        }
        for (violation, count) in Violation::ALL.iter().zip(stats.violations) {
            let help = "Streams that were closed because the peer broke a rule, by the rule.";
            metrics.push(of("streams_violations", help, vec![("rule", violation.name().to_owned())], count));
        }
        metrics
    }
}

/// Those without labels.
fn plain(stats: &Stats) -> Vec<Metric> {
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    [
        ("streams_open", "Streams that have memory here.", Gauge, count(stats.streams)),
        ("streams_over_tcp", "Streams that TCP carries now.", Gauge, count(stats.over_tcp)),
        ("streams_memory_bytes", "Registered memory of streams.", Gauge, count(stats.memory)),
        ("streams_registrations", "Regions of memory registered for streams.", Counter, stats.registrations),
        ("streams_made", "Streams that were made, by this end or by the peer.", Counter, stats.made),
        ("streams_rejected", "Requests for a stream that were rejected.", Counter, stats.rejected),
        (
            "streams_written_bytes",
            "Bytes that programs have written to streams.",
            Counter,
            stats.bytes_written,
        ),
        ("streams_read_bytes", "Bytes that programs have read from streams.", Counter, stats.bytes_read),
        (
            "streams_written_in_place_bytes",
            "Of the bytes that were written, those that were sent from where they lay.",
            Counter,
            stats.bytes_written_in_place,
        ),
        (
            "streams_read_in_place_bytes",
            "Of the bytes that were read, those that a program had where they had come to.",
            Counter,
            stats.bytes_read_in_place,
        ),
        ("streams_moved_to_tcp", "How often a stream went over to TCP.", Counter, stats.moved_to_tcp),
        (
            "streams_returned_to_rdma",
            "How often a stream came back to RDMA.",
            Counter,
            stats.returned_to_rdma,
        ),
        (
            "streams_stale_completions",
            "Completions of queue pairs that carry no stream any more.",
            Counter,
            stats.stale_completions,
        ),
    ]
    .into_iter()
    .map(|(name, help, kind, value)| Metric { name, help, kind, labels: Vec::new(), value })
    .collect()
}
