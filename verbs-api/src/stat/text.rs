//! The counters of a device in the text format that Prometheus reads.

use crate::driver::Driver;
use crate::shared::Shared;
use core::fmt::Write as _;
use core::net::IpAddr;
use datapath::counters::{Counters, QpCounters};
use datapath::engine::QpReport;
use datapath::port::{LinkDown, PortStats};
use std::sync::Arc;

/// A device, as far as it is looked into.
pub struct Facts {
    pub shared: Arc<Shared>,
    pub ip: IpAddr,
    pub driver: Driver,
}

/// Whether frames can pass, and if not, why.
struct Link {
    up: bool,
    down: Option<LinkDown>,
}

/// Text as the value of a label: quotes, backslashes and ends of lines do not end it.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

/// Counters of ours that `rdma statistic` knows from other NICs, by its name for them (mlx5, and
/// `retry_exceeded_err` rxe).
const RDMA_NAMES: [(&str, &str); 13] = [
    ("rx_reads", "rx_read_requests"),
    ("rx_atomics", "rx_atomic_requests"),
    ("rx_out_of_order", "out_of_sequence"),
    ("rx_duplicates", "duplicate_request"),
    ("rx_nacks", "packet_seq_err"),
    ("rx_rnr_naks", "rnr_nak_retry_err"),
    ("tx_rnr_naks", "out_of_buffer"),
    ("rto_fired", "local_ack_timeout_err"),
    ("rx_ce_marked", "np_ecn_marked_roce_packets"),
    ("tx_cnps", "np_cnp_sent"),
    ("rx_cnps", "rp_cnp_handled"),
    ("drop_icrc", "rx_icrc_encapsulated"),
    ("retry_exceeded", "retry_exceeded_err"),
];

fn rdma_name(ours: &'static str) -> &'static str {
    RDMA_NAMES.iter().find(|(own, _)| *own == ours).map_or(ours, |(_, theirs)| theirs)
}

impl Facts {
    /// Everything, as of now.
    pub fn text(&self) -> String {
        let (counters, port, link, reports) = {
            // A process that was forked has no thread that asks.
            let Some(mut nic) = self.shared.call() else { return String::new() };
            let now = nic.now();
            let link = Link { up: nic.link_up(), down: nic.link_down() };
            (*nic.core().counters(), nic.port_stats(), link, nic.core().reports(now))
        };
        let mut text = String::with_capacity(4096 + reports.len() * 512);
        // Writing to a String cannot fail.
        let _ = self.write_device(&mut text, &counters, &port, &link);
        let _ = write_queue_pairs(&mut text, &reports);
        text
    }

    fn write_device(
        &self,
        text: &mut String,
        counters: &Counters,
        port: &PortStats,
        link: &Link,
    ) -> core::fmt::Result {
        let driver = match self.driver {
            Driver::Inline => "inline",
            Driver::Thread { .. } => "thread",
            Driver::Hybrid => "hybrid",
        };
        writeln!(text, "# TYPE srnic_device_info gauge")?;
        writeln!(text, "srnic_device_info{{ip=\"{}\",driver=\"{driver}\"}} 1", self.ip)?;
        writeln!(text, "# TYPE srnic_link_up gauge\nsrnic_link_up {}", u8::from(link.up))?;
        if let Some(reason) = &link.down {
            writeln!(text, "# TYPE srnic_link_error gauge")?;
            writeln!(text, "srnic_link_error{{reason=\"{}\"}} 1", escaped(&reason.to_string()))?;
        }
        let of_port = [
            ("rx_packets", port.rx_frames),
            ("rx_bytes", port.rx_bytes),
            ("rx_dropped", port.rx_dropped),
            ("rx_missed_errors", port.rx_missed),
            ("rx_steered", port.rx_steered),
            ("rx_errors", port.rx_errors),
            ("tx_packets", port.tx_frames),
            ("tx_bytes", port.tx_bytes),
            ("tx_dropped", port.tx_dropped),
            ("tx_errors", port.tx_errors),
            ("unrecorded", port.unrecorded),
        ];
        for (name, value) in of_port {
            writeln!(text, "# TYPE srnic_port_{name} counter\nsrnic_port_{name} {value}")?;
        }
        for (name, value) in counters.iter() {
            let name = rdma_name(name);
            writeln!(text, "# TYPE srnic_{name} counter\nsrnic_{name} {value}")?;
        }
        Ok(())
    }
}

/// A number that a queue pair has.
type Gauge = fn(&QpReport) -> f64;

fn seconds(ns: u64) -> f64 {
    f64::from(u32::try_from(ns / 1000).unwrap_or(u32::MAX)) / 1e6
}

fn write_queue_pairs(text: &mut String, reports: &[QpReport]) -> core::fmt::Result {
    writeln!(text, "# TYPE srnic_qp_info gauge")?;
    for qp in reports {
        writeln!(
            text,
            "srnic_qp_info{{qpn=\"{}\",type=\"{}\",state=\"{}\",peer=\"{}\",dest_qpn=\"{}\",limit=\"{}\"}} 1",
            qp.qpn, qp.qp_type, qp.state, qp.peer, qp.dest_qpn, qp.limit
        )?;
    }
    let gauges: [(&str, Gauge); 9] = [
        ("requests", |qp| qp.requests.into()),
        ("outstanding_packets", |qp| qp.outstanding.into()),
        ("window_packets", |qp| qp.window.into()),
        ("cwnd_packets", |qp| qp.cwnd.into()),
        ("retry_packets", |qp| qp.retries.into()),
        ("repairing_tx", |qp| qp.repairing_tx.into()),
        ("repairing_rx", |qp| qp.repairing_rx.into()),
        ("srtt_seconds", |qp| seconds(qp.srtt_ns)),
        ("silent_seconds", |qp| seconds(qp.silent_ns)),
    ];
    for (name, value) in gauges {
        writeln!(text, "# TYPE srnic_qp_{name} gauge")?;
        for qp in reports {
            writeln!(text, "srnic_qp_{name}{{qpn=\"{}\"}} {}", qp.qpn, value(qp))?;
        }
    }
    for (index, (name, _)) in QpCounters::default().iter().enumerate() {
        let name = rdma_name(name);
        writeln!(text, "# TYPE srnic_qp_{name} counter")?;
        for qp in reports {
            let value = qp.counters.iter().nth(index).map_or(0, |(_, value)| value);
            writeln!(text, "srnic_qp_{name}{{qpn=\"{}\"}} {value}", qp.qpn)?;
        }
    }
    writeln!(text, "# TYPE srnic_qp_receives gauge")?;
    for (qpn, receives) in reports.iter().filter_map(|qp| Some((qp.qpn, qp.receives?))) {
        writeln!(text, "srnic_qp_receives{{qpn=\"{qpn}\"}} {receives}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_of_rdma_statistic_stands_for_a_counter_of_ours() {
        let counters = Counters::default();
        let ours: Vec<&str> = counters.iter().map(|(name, _)| name).collect();
        for (own, theirs) in RDMA_NAMES {
            assert!(ours.contains(&own) && !ours.contains(&theirs), "{own} {theirs}");
        }
        for (name, _) in QpCounters::default().iter() {
            assert!(ours.contains(&name), "a queue pair's {name} is one of all");
        }
        assert_eq!(rdma_name("rto_fired"), "local_ack_timeout_err");
        assert_eq!(rdma_name("tx_requests"), "tx_requests");
    }
}
