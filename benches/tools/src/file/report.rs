//! What is said at the end: a line for people, a JSON file for programs.

use crate::error::{Error, Result};
use crate::output;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use verbs_api::Device;

/// What both sides measure.
#[derive(Clone, Copy)]
pub struct Transfer {
    /// Length of the file.
    pub bytes: u64,
    /// Sender: from the first byte to the last acknowledgement. Receiver: from when it was ready to
    /// the last byte.
    pub time: Duration,
}

impl Transfer {
    fn seconds(&self) -> f64 {
        self.time.as_secs_f64()
    }

    /// Payload rate, in 10^9 bits a second.
    #[expect(clippy::cast_precision_loss, reason = "a rate to three digits")]
    fn gbps(&self) -> f64 {
        self.bytes as f64 * 8e-9 / self.seconds().max(1e-9)
    }
}

/// Reports as the sender.
pub fn sender(device: &Device, transfer: Transfer, json: Option<&Path>) -> Result<()> {
    let counters = device.counters();
    let faults = device.fault_stats();
    let sent = counters.tx_requests + counters.tx_retransmits;
    let (again, drops) = (counters.tx_retransmits, faults.tx.dropped() + faults.rx.dropped());
    let (seconds, gbps) = (transfer.seconds(), transfer.gbps());
    let shown = output::line(format_args!(
        "sent {} bytes in {seconds:.3} s, {gbps:.2} Gb/s; {sent} packets, {again} sent again, {drops} dropped by faults",
        transfer.bytes
    ));
    let counted = json!({
        "bytes": transfer.bytes, "seconds": seconds, "gbps": gbps, "packets_sent": sent, "retransmitted": again,
        "injected_drops": drops, "timeouts": counters.rto_fired, "probes": counters.tx_probes,
    });
    write(json, &counted).and(shown)
}

/// Reports as the receiver.
pub fn receiver(device: &Device, transfer: Transfer, json: Option<&Path>) -> Result<()> {
    let counters = device.counters();
    let shown = output::line(format_args!(
        "received {} bytes in {:.3} s; {} packets, {} out of order, {} twice",
        transfer.bytes,
        transfer.seconds(),
        counters.rx_packets,
        counters.rx_out_of_order,
        counters.rx_duplicates,
    ));
    let counted = json!({
        "bytes": transfer.bytes, "seconds": transfer.seconds(), "packets_received": counters.rx_packets,
        "duplicates": counters.rx_duplicates, "out_of_order": counters.rx_out_of_order,
    });
    write(json, &counted).and(shown)
}

fn write(path: Option<&Path>, counted: &Value) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    std::fs::write(path, format!("{counted:#}\n")).map_err(Error::file("write", path))
}
