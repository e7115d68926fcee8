//! The metrics of peer hosts that may be sent to at a rate.

use super::families::Families;
use core::fmt;
use datapath::sched::HostReport;
use prometheus_client::registry::Unit;

pub(super) fn encode_hosts(hosts: &[HostReport], families: &mut Families<'_>) -> fmt::Result {
    let all = |value: fn(&HostReport) -> f64| hosts.iter().map(move |host| (label(host), value(host)));
    families.gauges(
        "host_queue_pairs",
        "Queue pairs that send to the host.",
        None,
        all(|host| host.queue_pairs.into()),
    )?;
    let help = "Time that packets last spent in the host at most.";
    families.gauges("host_delay", help, Some(&Unit::Seconds), all(|host| f64::from(host.delay_ns) / 1e9))?;
    let help = "Bytes a second that the host is sent to at most, while it does not keep up.";
    let limited = hosts.iter().filter_map(|host| Some((label(host), exact(host.bytes_per_s?))));
    families.gauges("host_rate", help, Some(&Unit::Bytes), limited)
}

#[expect(clippy::cast_precision_loss, reason = "exact below 2^53")]
const fn exact(value: u64) -> f64 {
    value as f64
}

fn label(host: &HostReport) -> [(&'static str, String); 1] {
    [("host", host.address.to_string())]
}
