//! A device that loses packets, as it would tell of itself once a second.

use crate::stat::history::History;
use crate::stat::snapshot::Snapshot;
use std::fmt::Write as _;

/// Seconds for which it was looked at.
const SECONDS: u32 = 60;
/// Rates by the second, as parts of the highest: what is sent, and what of it is lost.
const SENT: [f64; 13] = [0.7, 0.8, 0.9, 0.9, 1.0, 0.95, 1.0, 0.4, 0.55, 0.7, 0.85, 1.0, 0.9];
const LOST: [f64; 13] = [0.0, 0.0, 0.0, 0.1, 0.0, 0.0, 0.2, 1.0, 0.6, 0.3, 0.1, 0.0, 0.0];

struct Pair {
    qpn: u32,
    peer: &'static str,
    limit: &'static str,
    /// Requests completed, and packets sent again, each second at most.
    rates: (f64, f64),
    window: [u32; 3],
    srtt: f64,
}

const PAIRS: [Pair; 5] = [
    pair(5_309_808, "10.77.0.1", "recovery", (24_100.0, 890.0), [219, 512, 498], 0.000_031),
    pair(5_309_809, "10.77.0.1", "congestion window", (18_400.0, 12.0), [64, 512, 64], 0.000_022_4),
    pair(5_309_810, "10.77.0.3", "peer silent", (0.0, 0.0), [4, 512, 512], 0.000_012),
    pair(5_309_811, "10.77.0.4", "its turn", (31_000.0, 0.0), [24, 512, 512], 0.000_011_9),
    pair(5_309_812, "10.77.0.4", "nothing to send", (0.0, 0.0), [0, 512, 512], 0.0),
];

const fn pair(
    qpn: u32,
    peer: &'static str,
    limit: &'static str,
    rates: (f64, f64),
    window: [u32; 3],
    srtt: f64,
) -> Pair {
    Pair { qpn, peer, limit, rates, window, srtt }
}

/// Looks at `devices` such devices, once a second.
pub fn history(devices: u8) -> History {
    let mut history = History::new((0..devices).map(|device| format!("/run/{device}.stat")));
    for device in 0..devices {
        let (mut sent, mut lost) = (0.0, 0.0);
        for (second, (more_sent, more_lost)) in (0..SECONDS).zip(SENT.iter().zip(LOST).cycle()) {
            let text = metrics(device, sent, lost);
            history.note(device.into(), f64::from(second), Ok(Snapshot::parse(&text)));
            (sent, lost) = (sent + more_sent, lost + more_lost);
        }
    }
    history
}

/// What it tells when so many parts of the highest rates of a second have passed.
fn metrics(device: u8, sent: f64, lost: f64) -> String {
    let again: f64 = PAIRS.iter().map(|pair| pair.rates.1).sum();
    let mut text = format!(
        "srnic_device_info{{ip=\"10.77.0.{}\",driver=\"inline\"}} 1\nsrnic_link_up 1\n\
         srnic_port_tx_bytes_total {}\nsrnic_port_rx_bytes_total {}\nsrnic_tx_retransmits_total {}\n\
         srnic_port_rx_missed_errors_total {}\nsrnic_drop_stale_ack_total {}\n",
        device + 2,
        (4.1e9 * sent).round(),
        (3.1e7 * sent).round(),
        (again * lost).round(),
        (31.0 * lost).round(),
        (2.0 * lost).round(),
    );
    PAIRS.iter().for_each(|pair| pair.write(&mut text, sent, lost));
    TENANTS.iter().for_each(|tenant| tenant.write(&mut text, sent));
    text
}

/// A tenant, and what it does in a second at most: operations, packets, bytes, waits for its caps.
struct Tenant {
    number: u16,
    class: &'static str,
    weight: u16,
    queue_pairs: u32,
    rates: [f64; 4],
}

const TENANTS: [Tenant; 2] = [
    Tenant { number: 0, class: "normal", weight: 1, queue_pairs: 3, rates: [42_500.0, 9e5, 3.6e9, 0.0] },
    Tenant {
        number: 1,
        class: "latency",
        weight: 4,
        queue_pairs: 2,
        rates: [31_000.0, 31_000.0, 2e6, 120.0],
    },
];

impl Tenant {
    fn write(&self, text: &mut String, sent: f64) {
        let Self { number, class, weight, queue_pairs, rates } = self;
        let _ = write!(
            text,
            "srnic_tenant_info{{tenant=\"{number}\",class=\"{class}\"}} 1\n\
             srnic_tenant_weight{{tenant=\"{number}\"}} {weight}\n\
             srnic_tenant_queue_pairs{{tenant=\"{number}\"}} {queue_pairs}\n"
        );
        for (name, rate) in ["tx_operations", "tx_packets", "tx_bytes", "parked"].iter().zip(rates) {
            let _ =
                writeln!(text, "srnic_tenant_{name}_total{{tenant=\"{number}\"}} {}", (rate * sent).round());
        }
    }
}

impl Pair {
    fn write(&self, text: &mut String, sent: f64, lost: f64) {
        let Self { qpn, peer, limit, rates, window: [outstanding, window, cwnd], srtt } = self;
        let _ = writeln!(
            text,
            "srnic_qp_info{{qpn=\"{qpn}\",type=\"RC\",state=\"RTS\",peer=\"{peer}\",dest_qpn=\"77\",limit=\"{limit}\"}} 1"
        );
        let silent = if *limit == "peer silent" { 3.25 } else { 0.0 };
        let gauges = [
            ("requests", f64::from(*outstanding)),
            ("outstanding_packets", f64::from(*outstanding)),
            ("window_packets", f64::from(*window)),
            ("cwnd_packets", f64::from(*cwnd)),
            ("srtt_seconds", *srtt),
            ("silent_seconds", silent),
            ("completed_requests_total", (rates.0 * sent).round()),
            ("tx_retransmits_total", (rates.1 * lost).round()),
        ];
        for (name, value) in gauges {
            let _ = writeln!(text, "srnic_qp_{name}{{qpn=\"{qpn}\"}} {value}");
        }
    }
}
