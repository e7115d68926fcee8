//! A device as plain text: for standard output that is no terminal, and for `--once`.

use super::snapshot::{QueuePair, Snapshot, counted};
use std::fmt::Write as _;

/// Limits that held a queue pair back for less than this share of the time are not told.
pub const SHARE_MIN: f64 = 0.01;

/// The device, its queue pairs, and what has been counted since `before`, or since the device was
/// opened. At most `most` queue pairs are shown: first those that have something to do and are held
/// up.
pub fn table(now: &Snapshot, before: Option<&Snapshot>, most: usize) -> String {
    let mut text = heading(now);
    let mut rows: Vec<_> = now.queue_pairs.iter().collect();
    rows.sort_by_key(|(qpn, pair)| (pair.limit() == "nothing to send", **qpn));
    for (qpn, pair) in rows.iter().take(most) {
        write_pair(**qpn, pair, before.and_then(|before| before.queue_pairs.get(qpn)), &mut text);
    }
    if rows.len() > most {
        let _ = writeln!(text, "{:>8} and {} more", "..", rows.len() - most);
    }
    write_tenants(now, before, &mut text);
    for (name, count) in counted(&now.counters, before.map(|before| &before.counters)) {
        let _ = writeln!(text, "{count:>16} {name}");
    }
    text
}

fn heading(now: &Snapshot) -> String {
    format!(
        "device {}, driver {}, link {}, {} queue pairs\n{:>8} {:>5} {:>15} {:>8} {:>9} {:>9} {:>11} {:>6} {:>6} {:>9} {:>9}  waits for\n",
        now.label("ip"),
        now.label("driver"),
        now.link(),
        now.queue_pairs.len(),
        "qpn",
        "state",
        "peer",
        "requests",
        "done",
        "receives",
        "in flight",
        "cwnd",
        "lost",
        "srtt us",
        "silent ms",
    )
}

/// Tenants, if the device has some.
fn write_tenants(now: &Snapshot, before: Option<&Snapshot>, text: &mut String) {
    if now.tenants.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "{:>8} {:>9} {:>6} {:>6} {:>12} {:>12} {:>16} {:>8}",
        "tenant", "class", "weight", "qps", "operations", "packets", "bytes", "parked"
    );
    for (number, tenant) in &now.tenants {
        let before = before.and_then(|before| before.tenants.get(number));
        let _ = writeln!(
            text,
            "{number:>8} {:>9} {:>6} {:>6} {:>12} {:>12} {:>16} {:>8}",
            tenant.class,
            tenant.gauge("weight"),
            tenant.gauge("queue_pairs"),
            tenant.counted("tx_operations", before),
            tenant.counted("tx_packets", before),
            tenant.counted("tx_bytes", before),
            tenant.counted("parked", before),
        );
    }
}

fn write_pair(qpn: u32, pair: &QueuePair, before: Option<&QueuePair>, text: &mut String) {
    let receives = pair.gauges.get("receives").map_or_else(|| "shared".to_owned(), f64::to_string);
    let flight = format!("{}/{}", pair.gauge("outstanding_packets"), pair.gauge("window_packets"));
    let repairs = if pair.gauge("repairing_rx") > 0.0 { ", repairs what it receives" } else { "" };
    let _ = write!(
        text,
        "{qpn:>8} {:>5} {:>15} {:>8} {:>9} {receives:>9} {flight:>11} {:>6} {:>6} {:>9.1} {:>9.0}  {}{repairs}",
        pair.label("state"),
        pair.label("peer"),
        pair.gauge("requests"),
        pair.completed_since(before),
        pair.gauge("cwnd_packets"),
        pair.gauge("retry_packets"),
        pair.gauge("srtt_seconds") * 1e6,
        pair.gauge("silent_seconds") * 1e3,
        pair.limit(),
    );
    let shares = before.map(|before| pair.limit_shares(before)).unwrap_or_default();
    for (limit, share) in shares.iter().filter(|(_, share)| *share >= SHARE_MIN) {
        let _ = write!(text, ", {limit} {:.0} %", share * 100.0);
    }
    for (name, count) in counted(&pair.counters, before.map(|before| &before.counters)) {
        let _ = write!(text, ", {count} {name}");
    }
    text.push('\n');
}
