//! What the switch counted, for people and for programs.

use super::LaneStats;
use serde_json::{Value, json};
use std::fmt::Write as _;
use verbs_api::LinkDown;

/// A port and its counters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// As it was written on the command line; `pool:ADDRESS` for one of a pool.
    pub port: String,
    /// Why no host was there, if none was.
    pub link_down: Option<LinkDown>,
    /// Its counters.
    pub stats: LaneStats,
}

impl Row {
    /// Frames that did not get through, to or from the port: queue, ring, faults, length.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        let LaneStats { port, egress, .. } = &self.stats;
        egress.dropped + egress.too_long + port.rx_dropped + port.tx_dropped + port.rx_missed
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let LaneStats { port, egress, flooded, filtered } = &self.stats;
        json!({
            "port": self.port,
            "link_up": self.link_down.is_none(),
            "link_down": self.link_down.as_ref().map(ToString::to_string),
            "rx_packets": port.rx_frames,
            "rx_bytes": port.rx_bytes,
            "tx_packets": egress.frames,
            "tx_bytes": egress.bytes,
            "tx_marked": egress.marked,
            "tx_queue_dropped": egress.dropped,
            "tx_too_long": egress.too_long,
            "tx_queue_max": egress.queued_max,
            "tx_dropped": port.tx_dropped,
            "rx_dropped": port.rx_dropped,
            "rx_missed": port.rx_missed,
            "rx_flooded": flooded,
            "rx_filtered": filtered,
        })
    }
}

/// All ports, one a line.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:>12} {:>12} {:>9} {:>9} {:>6}  port\n",
        "rx frames", "tx frames", "marked", "lost", "queue"
    );
    for row in rows {
        let LaneStats { port, egress, .. } = &row.stats;
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:>12} {:>12} {:>9} {:>9} {:>6}  {}{}",
            port.rx_frames,
            egress.frames,
            egress.marked,
            row.lost(),
            egress.queued_max,
            row.port,
            row.link_down.as_ref().map(|why| format!(" ({why})")).unwrap_or_default(),
        );
    }
    text
}
