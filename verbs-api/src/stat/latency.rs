//! The metrics of sampled operations. Without sampling their families are empty.

use super::families::Families;
use core::fmt;
use core::time::Duration;
use datapath::engine::{LatencyReport, QpReport};
use datapath::latency::{Operations, Part, QUANTILES, Quantiles, Slow};
use prometheus_client::registry::Unit;

/// All of them.
pub fn encode_latency(report: Option<&LatencyReport>, families: &mut Families<'_>) -> fmt::Result {
    let one_in = report.map_or(0, |report| report.config.one_in);
    families.gauge(
        "sampled_one_in",
        "One in so many send requests is sampled; 0: none is.",
        one_in.into(),
    )?;
    let operations = report.map_or(&[][..], |report| &report.operations);
    let counts = operations.iter().map(|of| (labels(of), of.count));
    families.counters("operations_sampled", "Operations whose time was taken.", None, counts)?;
    families.counters(
        "operation_part",
        "Where the time of sampled operations went.",
        Some(&Unit::Seconds),
        operations.iter().flat_map(parts),
    )?;
    families.gauges(
        "operation",
        "Time of a sampled operation from its post to its poll, over the last minute or two.",
        Some(&Unit::Seconds),
        operations.iter().flat_map(|of| {
            quantiles(&of.total).map(move |(quantile, seconds)| {
                let [qpn, opcode, status] = labels(of);
                ([qpn, opcode, status, ("quantile", quantile)], seconds)
            })
        }),
    )?;
    families.gauges(
        "operation_part_quantile",
        "Each part of that time, over all operations of the last minute or two.",
        Some(&Unit::Seconds),
        report.iter().flat_map(|report| &report.parts).flat_map(|(part, of)| {
            quantiles(of).map(move |(quantile, seconds)| {
                ([("part", part.to_string()), ("quantile", quantile)], seconds)
            })
        }),
    )?;
    let skipped = report.map_or(0, |report| report.skipped);
    let help = "Operations that were to be sampled, and were not: too many at once.";
    families.counter("operations_unsampled", help, None, skipped)?;
    encode_slow(report, families)
}

fn encode_slow(report: Option<&LatencyReport>, families: &mut Families<'_>) -> fmt::Result {
    let count = report.map_or(0, |report| report.slow.count());
    families.counter("slow_operations", "Sampled operations above the bound of slow=.", None, count)?;
    families.infos(
        "slow_operation",
        "The last sampled operations above the bound of slow=, and their queue pairs. Times in nanoseconds.",
        report.iter().flat_map(|report| report.slow.iter()).map(slow_labels),
    )
}

fn labels(of: &Operations) -> [(&'static str, String); 3] {
    let [qpn, opcode, status] = of.key.map_or_else(
        || [(); 3].map(|()| "other".to_owned()),
        |key| [key.qpn.to_string(), format!("{:?}", key.opcode), format!("{:?}", key.status)],
    );
    [("qpn", qpn), ("opcode", opcode), ("status", status)]
}

fn parts(of: &Operations) -> impl Iterator<Item = ([(&'static str, String); 4], f64)> + use<> {
    let [qpn, opcode, status] = labels(of);
    let parts = of.parts;
    Part::ALL.into_iter().map(move |part| {
        let labels = [qpn.clone(), opcode.clone(), status.clone(), ("part", part.to_string())];
        (labels, seconds(parts[part]))
    })
}

fn quantiles(of: &Quantiles) -> impl Iterator<Item = (String, f64)> + use<> {
    let told = if of.count > 0 { QUANTILES.len() } else { 0 };
    QUANTILES.into_iter().zip(of.ns).take(told).map(|(quantile, ns)| (quantile.to_string(), seconds(ns)))
}

fn seconds(ns: u64) -> f64 {
    Duration::from_nanos(ns).as_secs_f64()
}

fn slow_labels(slow: &Slow<QpReport>) -> [(&'static str, String); 26] {
    let Slow { sample, queue_pair } = slow;
    let [p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10] =
        Part::ALL.map(|part| (part.name(), sample.parts[part].to_string()));
    [
        ("qpn", sample.qpn.to_string()),
        ("opcode", format!("{:?}", sample.opcode)),
        ("status", format!("{:?}", sample.status)),
        ("wr_id", sample.wr_id.to_string()),
        ("posted", sample.posted_at.0.to_string()),
        ("total", sample.parts.total().to_string()),
        ("again", sample.again.to_string()),
        p0,
        p1,
        p2,
        p3,
        p4,
        p5,
        p6,
        p7,
        p8,
        p9,
        p10,
        ("peer_address", queue_pair.peer.to_string()),
        ("state", queue_pair.state.to_string()),
        ("limit", queue_pair.limit.to_string()),
        ("requests", queue_pair.requests.to_string()),
        ("outstanding_packets", queue_pair.outstanding.to_string()),
        ("window_packets", queue_pair.window.to_string()),
        ("cwnd_packets", queue_pair.cwnd.to_string()),
        ("srtt", queue_pair.srtt_ns.to_string()),
    ]
}
