//! The metrics of tenants.

use super::families::Families;
use core::fmt;
use datapath::engine::TenantReport;
use prometheus_client::registry::Unit;

/// A number that a tenant has.
type Number<T> = fn(&TenantReport) -> T;

/// Name, help and value of what a tenant has at a moment.
const GAUGES: [(&str, &str, Number<f64>); 5] = [
    ("weight", "Share of the bytes beside other tenants.", |tenant| tenant.attr.weight.into()),
    ("queue_pairs", "Queue pairs of the tenant.", |tenant| tenant.queue_pairs.into()),
    ("completion_queues", "Completion queues of the tenant.", |tenant| tenant.completion_queues.into()),
    ("memory_regions", "Memory regions of the tenant.", |tenant| exact(tenant.memory_regions)),
    ("memory_size", "Bytes of the tenant's memory regions; 0 of the default one.", |tenant| {
        exact(tenant.memory_bytes)
    }),
];

/// Name, help, unit and value of what was counted of a tenant.
const COUNTERS: [(&str, &str, Option<Unit>, Number<u64>); 12] = [
    ("turns", "Turns of the tenant's queue pairs.", None, |tenant| tenant.counters.turns),
    ("tx_packets", "Packets sent but for acknowledgements.", None, |tenant| tenant.counters.tx_packets),
    ("tx", "Payload of the packets sent.", Some(Unit::Bytes), |tenant| tenant.counters.tx_bytes),
    ("tx_operations", "Operations begun.", None, |tenant| tenant.counters.tx_operations),
    ("parked", "Times that the tenant had used up a cap.", None, |tenant| tenant.counters.parked),
    (
        "rx_packets",
        "Packets received but for acknowledgements, while a tenant has a cap for them.",
        None,
        |tenant| tenant.counters.rx_packets,
    ),
    ("rx", "Payload of the packets received.", Some(Unit::Bytes), |tenant| tenant.counters.rx_bytes),
    ("rx_operations", "Operations of peers.", None, |tenant| tenant.counters.rx_operations),
    ("rx_marked", "Packets received above the tenant's cap.", None, |tenant| tenant.counters.rx_marked),
    ("rx_share_drops", "Packets dropped, as recovery was other tenants'.", None, |tenant| {
        tenant.counters.rx_share_drops
    }),
    ("control_calls", "Calls that created, registered or changed something.", None, |tenant| {
        tenant.counters.control_calls
    }),
    ("control_waits", "Times that such a call waited for the tenant's cap.", None, |tenant| {
        tenant.counters.control_waits
    }),
];

#[expect(clippy::cast_precision_loss, reason = "exact below 2^53")]
const fn exact(value: u64) -> f64 {
    value as f64
}

pub(super) fn encode_tenants(tenants: &[TenantReport], families: &mut Families<'_>) -> fmt::Result {
    let infos = tenants
        .iter()
        .map(|tenant| [("tenant", tenant.id.0.to_string()), ("class", tenant.class.to_string())]);
    families.infos("tenant", "The tenant, and the class of its traffic.", infos)?;
    for (name, help, value) in &GAUGES {
        let values = tenants.iter().map(|tenant| (label(tenant), value(tenant)));
        families.gauges(&format!("tenant_{name}"), help, None, values)?;
    }
    for (name, help, unit, value) in &COUNTERS {
        let values = tenants.iter().map(|tenant| (label(tenant), value(tenant)));
        families.counters(&format!("tenant_{name}"), help, unit.as_ref(), values)?;
    }
    Ok(())
}

fn label(tenant: &TenantReport) -> [(&'static str, String); 1] {
    [("tenant", tenant.id.0.to_string())]
}
