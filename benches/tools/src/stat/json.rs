//! A device as a JSON document, for programs.

use super::history::Track;
use super::snapshot::{QueuePair, Snapshot, Tenant};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The last sample of a device. `rates` has what was counted since the sample before, a second;
/// it is null if there is none.
pub fn document(track: &Track) -> Value {
    let Some(now) = track.now() else { return json!({ "address": track.address() }) };
    let pairs: Vec<Value> = now.queue_pairs.iter().map(|(qpn, pair)| queue_pair(track, *qpn, pair)).collect();
    json!({
        "time": track.time(),
        "address": track.address(),
        "device": now.device,
        "link_up": now.link_up,
        "link_error": now.link_error,
        "counters": now.counters,
        "rates": rates(track, now),
        "queue_pairs": pairs,
        "tenants": now.tenants.iter().map(|(number, tenant)| self::tenant(*number, tenant)).collect::<Vec<_>>(),
    })
}

fn tenant(number: u32, tenant: &Tenant) -> Value {
    json!({
        "tenant": number,
        "class": tenant.class,
        "gauges": tenant.gauges,
        "counters": tenant.counters,
    })
}

fn rates(track: &Track, now: &Snapshot) -> Value {
    let rate = |name: &String| Some((name.clone(), track.counter_rate(name)?.into()));
    let rates: Map<String, Value> = now.counters.keys().filter_map(rate).collect();
    if rates.is_empty() { Value::Null } else { rates.into() }
}

fn queue_pair(track: &Track, qpn: u32, pair: &QueuePair) -> Value {
    json!({
        "qpn": qpn,
        "labels": pair.labels,
        "gauges": pair.gauges,
        "counters": pair.counters,
        "completed_per_second": track.completed_rate(qpn),
        "resends_per_second": track.resend_rate(qpn),
        "limit_shares": track.limit_shares(qpn).into_iter().collect::<BTreeMap<_, _>>(),
    })
}
