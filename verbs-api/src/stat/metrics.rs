//! The metrics of a device in the text format of OpenMetrics, which Prometheus reads.

use super::added::encode_added;
use super::facts::Sample;
use super::families::Families;
use super::hosts::encode_hosts;
use super::latency::encode_latency;
use super::names::rdma_name;
use super::tenants::encode_tenants;
use core::fmt;
use core::time::Duration;
use datapath::counters::{Counters, QpCounters};
use datapath::engine::QpReport;
use datapath::port::PortStats;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::{Registry, Unit};

/// Begins the name of every metric.
const PREFIX: &str = "srnic";

/// All of a sample.
pub fn text(sample: Sample) -> String {
    let mut text = String::with_capacity(16_384 + sample.queue_pairs.len() * 768);
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(sample));
    // Writing to a String cannot fail.
    let _ = text::encode(&mut text, &registry);
    text
}

impl Collector for Sample {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families(encoder);
        self.encode_device(&mut families)?;
        self.encode_link(&mut families)?;
        encode_port(&self.port, &mut families)?;
        for ((name, value), help) in self.counters.iter().zip(Counters::HELP) {
            families.counter(rdma_name(name), help, None, value)?;
        }
        encode_queue_pairs(&self.queue_pairs, &mut families)?;
        encode_tenants(&self.tenants, &mut families)?;
        encode_hosts(&self.hosts, &mut families)?;
        encode_latency(self.latency.as_ref(), &mut families)?;
        encode_added(&self.added, &mut families)
    }
}

impl Sample {
    fn encode_device(&self, families: &mut Families<'_>) -> fmt::Result {
        let labels = [("ip", self.ip.to_string()), ("driver", self.driver.to_owned())];
        families.infos("device", "The device: its address, and who runs its engine.", [labels])
    }

    fn encode_link(&self, families: &mut Families<'_>) -> fmt::Result {
        families.gauge("link_up", "1 if frames can pass, 0 if not.", u8::from(self.link_up).into())?;
        let reasons = self.link_down.iter().map(|reason| ([("reason", reason.to_string())], 1.0));
        families.gauges("link_error", "Why frames cannot pass, while they cannot.", None, reasons)
    }
}

fn encode_port(port: &PortStats, families: &mut Families<'_>) -> fmt::Result {
    let counters = [
        ("rx_packets", "Frames handed to the engine.", port.rx_frames),
        ("rx_bytes", "Bytes of the frames handed to the engine.", port.rx_bytes),
        ("rx_dropped", "Received frames that the port could not show as one view.", port.rx_dropped),
        ("rx_missed_errors", "Frames that the driver or another engine had no room for.", port.rx_missed),
        ("rx_steered", "Received frames that went to another engine of the device.", port.rx_steered),
        ("rx_errors", "Frames that arrived damaged, by the driver's account.", port.rx_errors),
        ("tx_packets", "Frames handed to the wire.", port.tx_frames),
        ("tx_bytes", "Bytes of the frames handed to the wire.", port.tx_bytes),
        ("tx_dropped", "Frames that the port gave up on.", port.tx_dropped),
        ("tx_errors", "Frames that the driver took and could not send.", port.tx_errors),
        ("unrecorded", "Frames that are missing from the file of pcap=.", port.unrecorded),
    ];
    for (name, help, value) in counters {
        let (name, unit) = match name.strip_suffix("_bytes") {
            Some(name) => (name, Some(&Unit::Bytes)),
            None => (name, None),
        };
        families.counter(&format!("port_{name}"), help, unit, value)?;
    }
    Ok(())
}

/// A number that a queue pair has.
type Number = fn(&QpReport) -> f64;

/// Name, help, unit and value of what a queue pair has at a moment.
const GAUGES: [(&str, &str, Option<Unit>, Number); 9] = [
    ("requests", "Send requests posted and not completed.", None, |qp| qp.requests.into()),
    ("outstanding_packets", "Request packets sent and not acknowledged.", None, |qp| qp.outstanding.into()),
    ("window_packets", "Packets that may be in the network at most.", None, |qp| qp.window.into()),
    ("cwnd_packets", "Packets that the congestion controller allows in the network.", None, |qp| {
        qp.cwnd.into()
    }),
    ("retry_packets", "Packets known to be lost that wait to be sent again.", None, |qp| qp.retries.into()),
    ("repairing_tx", "1 if something that it sent is missing at the peer.", None, |qp| {
        qp.repairing_tx.into()
    }),
    ("repairing_rx", "1 if something that the peer sent is missing here.", None, |qp| qp.repairing_rx.into()),
    ("srtt", "Smoothed round-trip time; 0 if not measured yet.", Some(Unit::Seconds), |qp| {
        seconds(qp.srtt_ns)
    }),
    ("silent", "How long the peer has owed an acknowledgement.", Some(Unit::Seconds), |qp| {
        seconds(qp.silent_ns)
    }),
];

fn seconds(ns: u64) -> f64 {
    f64::from(u32::try_from(ns / 1000).unwrap_or(u32::MAX)) / 1e6
}

fn encode_queue_pairs(reports: &[QpReport], families: &mut Families<'_>) -> fmt::Result {
    families.infos(
        "qp",
        "The queue pair: its peer, and what keeps it from sending more.",
        reports.iter().map(labels),
    )?;
    for (name, help, unit, value) in &GAUGES {
        let values = reports.iter().map(|qp| (qpn(qp), value(qp)));
        families.gauges(&format!("qp_{name}"), help, unit.as_ref(), values)?;
    }
    let receives = reports.iter().filter_map(|qp| Some((qpn(qp), f64::from(qp.receives?))));
    families.gauges("qp_receives", "Receive requests posted and not completed.", None, receives)?;
    let completed = reports.iter().map(|qp| (qpn(qp), u64::from(qp.completed)));
    families.counters("qp_completed_requests", "Send requests completed, modulo 2^32.", None, completed)?;
    encode_limits(reports, families)?;
    for (index, (name, help)) in names_and_helps().enumerate() {
        let values = reports.iter().map(|qp| (qpn(qp), nth(&qp.counters, index)));
        families.counters(&format!("qp_{}", rdma_name(name)), help, None, values)?;
    }
    Ok(())
}

/// With sampling only.
fn encode_limits(reports: &[QpReport], families: &mut Families<'_>) -> fmt::Result {
    let times = reports.iter().flat_map(|qp| {
        let times = qp.limit_times.map(|times| times.iter().collect::<Vec<_>>()).unwrap_or_default();
        times.into_iter().map(|(limit, ns)| {
            let labels = [("qpn", qp.qpn.to_string()), ("limit", limit)];
            (labels, Duration::from_nanos(ns).as_secs_f64())
        })
    });
    let help = "How long each limit has kept the queue pair from sending more.";
    families.counters("qp_limit", help, Some(&Unit::Seconds), times)
}

fn names_and_helps() -> impl Iterator<Item = (&'static str, &'static str)> {
    let names = QpCounters::default();
    let names: Vec<&str> = names.iter().map(|(name, _)| name).collect();
    names.into_iter().zip(QpCounters::HELP.iter().copied())
}

fn nth(counters: &QpCounters, index: usize) -> u64 {
    counters.iter().nth(index).map_or(0, |(_, value)| value)
}

fn qpn(qp: &QpReport) -> [(&'static str, String); 1] {
    [("qpn", qp.qpn.to_string())]
}

fn labels(qp: &QpReport) -> [(&'static str, String); 6] {
    [
        ("qpn", qp.qpn.to_string()),
        ("type", qp.qp_type.to_string()),
        ("state", qp.state.to_string()),
        ("peer", qp.peer.to_string()),
        ("dest_qpn", qp.dest_qpn.to_string()),
        ("limit", qp.limit.to_string()),
    ]
}
