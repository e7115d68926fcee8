//! Frames that did not get through, at the port or in the engine.

use super::snapshot::Snapshot;
use verbs_api::Device;

/// Counters of the port that count such frames, beside the engine's `drop_`.
const PORT_DROPS: [&str; 4] =
    ["port_rx_dropped", "port_rx_missed_errors", "port_tx_dropped", "port_tx_errors"];

/// Whether a counter counts them; `name` is that of its metric, without `srnic_` and `_total`.
pub fn is_drop(name: &str) -> bool {
    name.starts_with("drop_") || PORT_DROPS.contains(&name)
}

/// Those of a device of this process.
#[must_use]
pub fn by(device: &Device) -> u64 {
    let port = device.port_stats();
    let of_engine: u64 =
        device.counters().iter().filter(|(name, _)| is_drop(name)).map(|(_, count)| count).sum();
    of_engine + port.rx_dropped + port.rx_missed + port.tx_dropped + port.tx_errors
}

/// Those of a device that tells this, in the text format of OpenMetrics.
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count far below 2^52")]
pub fn told(text: &str) -> u64 {
    Snapshot::parse(text).dropped() as u64
}
