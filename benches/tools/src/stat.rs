//! What a device tells ([`StatAddress`](verbs_api::StatAddress)), as a table for people.

pub mod tool;

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What a queue pair has at a moment; whatever else it tells is counted.
const GAUGES: [&str; 10] = [
    "requests",
    "receives",
    "outstanding_packets",
    "window_packets",
    "cwnd_packets",
    "retry_packets",
    "repairing_tx",
    "repairing_rx",
    "srtt_seconds",
    "silent_seconds",
];

/// A device at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Snapshot {
    /// Counters of the device and its port.
    counters: BTreeMap<String, f64>,
    /// What does not change: labels of `srnic_device_info`.
    device: BTreeMap<String, String>,
    /// Why there is no link, if a peer was there and it came to nothing.
    link_error: Option<String>,
    /// By number.
    queue_pairs: BTreeMap<u32, QueuePair>,
}

#[derive(Clone, PartialEq, Debug, Default)]
struct QueuePair {
    /// Those of `srnic_qp_info`.
    labels: BTreeMap<String, String>,
    gauges: BTreeMap<String, f64>,
    counters: BTreeMap<String, f64>,
}

impl Snapshot {
    /// Reads the text format of Prometheus; lines that are not ours are passed over.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut snapshot = Self::default();
        for line in text.lines().filter_map(|line| line.strip_prefix("srnic_")) {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse() else { continue };
            let (name, labels) =
                name.split_once('{').map_or((name, BTreeMap::new()), |(name, rest)| (name, labels(rest)));
            snapshot.take(name, labels, value);
        }
        snapshot
    }

    fn take(&mut self, name: &str, mut labels: BTreeMap<String, String>, value: f64) {
        let qpn = labels.get("qpn").and_then(|qpn| qpn.parse::<u32>().ok());
        match (name.strip_prefix("qp_"), qpn) {
            (Some("info"), Some(qpn)) => self.queue_pairs.entry(qpn).or_default().labels = labels,
            (Some(name), Some(qpn)) => {
                let pair = self.queue_pairs.entry(qpn).or_default();
                let those = if GAUGES.contains(&name) { &mut pair.gauges } else { &mut pair.counters };
                those.insert(name.to_owned(), value);
            }
            _ if name == "device_info" => self.device = labels,
            _ if name == "link_error" => self.link_error = labels.remove("reason"),
            _ => drop(self.counters.insert(name.to_owned(), value)),
        }
    }

    /// The device, its queue pairs, and what has been counted since `before`, or since the device
    /// was opened. At most `most` queue pairs are shown: first those that have something to do and
    /// are held up.
    #[must_use]
    pub fn table(&self, before: Option<&Self>, most: usize) -> String {
        let device = |key| self.device.get(key).map_or("?", String::as_str);
        let link = match (self.counters.get("link_up"), &self.link_error) {
            (Some(1.0), _) => "up".to_owned(),
            (_, None) => "down".to_owned(),
            (_, Some(reason)) => format!("down ({reason})"),
        };
        let mut text = format!(
            "device {}, driver {}, link {link}, {} queue pairs\n{:>8} {:>5} {:>15} {:>8} {:>9} {:>11} {:>6} {:>6} {:>9} {:>9}  waits for\n",
            device("ip"),
            device("driver"),
            self.queue_pairs.len(),
            "qpn",
            "state",
            "peer",
            "requests",
            "receives",
            "in flight",
            "cwnd",
            "lost",
            "srtt us",
            "silent ms",
        );
        let mut rows: Vec<_> = self.queue_pairs.iter().collect();
        rows.sort_by_key(|(qpn, pair)| (pair.label("limit") == "nothing to send", **qpn));
        for (qpn, pair) in rows.iter().take(most) {
            pair.write(**qpn, before.and_then(|before| before.queue_pairs.get(qpn)), &mut text);
        }
        if rows.len() > most {
            let _ = writeln!(text, "{:>8} and {} more", "..", rows.len() - most);
        }
        text + &self.counted(before)
    }

    fn counted(&self, before: Option<&Self>) -> String {
        let mut text = String::new();
        for (name, count) in counted(&self.counters, before.map(|before| &before.counters)) {
            let _ = writeln!(text, "{count:>16} {name}");
        }
        text
    }
}

/// What was counted since `before`, or since there is something to count.
fn counted<'a>(
    now: &'a BTreeMap<String, f64>,
    before: Option<&'a BTreeMap<String, f64>>,
) -> impl Iterator<Item = (&'a str, f64)> {
    let since = move |(name, value): (&'a String, &'a f64)| {
        (name.as_str(), value - before.and_then(|before| before.get(name)).unwrap_or(&0.0))
    };
    now.iter().map(since).filter(|(name, count)| *name != "link_up" && *count > 0.0)
}

impl QueuePair {
    fn label(&self, key: &str) -> &str {
        self.labels.get(key).map_or("?", String::as_str)
    }

    fn gauge(&self, key: &str) -> f64 {
        self.gauges.get(key).copied().unwrap_or(0.0)
    }

    fn write(&self, qpn: u32, before: Option<&Self>, text: &mut String) {
        let receives = self.gauges.get("receives").map_or_else(|| "shared".to_owned(), f64::to_string);
        let flight = format!("{}/{}", self.gauge("outstanding_packets"), self.gauge("window_packets"));
        let repairs = if self.gauge("repairing_rx") > 0.0 { ", repairs what it receives" } else { "" };
        let _ = write!(
            text,
            "{qpn:>8} {:>5} {:>15} {:>8} {receives:>9} {flight:>11} {:>6} {:>6} {:>9.1} {:>9.0}  {}{repairs}",
            self.label("state"),
            self.label("peer"),
            self.gauge("requests"),
            self.gauge("cwnd_packets"),
            self.gauge("retry_packets"),
            self.gauge("srtt_seconds") * 1e6,
            self.gauge("silent_seconds") * 1e3,
            self.label("limit"),
        );
        for (name, count) in counted(&self.counters, before.map(|before| &before.counters)) {
            let _ = write!(text, ", {count} {name}");
        }
        text.push('\n');
    }
}

/// `key="value"` pairs with commas between, up to the closing brace. In a value, a backslash stands
/// before what would end it.
fn labels(text: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let mut rest = text;
    while let Some((key, behind)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut chars = behind.chars();
        loop {
            match chars.next() {
                None | Some('"') => break,
                Some('\\') => value.extend(chars.next().map(|char| if char == 'n' { '\n' } else { char })),
                Some(char) => value.push(char),
            }
        }
        labels.insert(key.trim_start_matches(',').to_owned(), value);
        rest = chars.as_str();
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# TYPE srnic_device_info gauge\nsrnic_device_info{ip=\"10.77.0.1\",driver=\"thread\"} 1\n\
        srnic_link_up 1\nsrnic_rx_acks 7\nsrnic_port_rx_packets 9\nnot ours 3\nsrnic_odd\n\
        srnic_qp_info{qpn=\"18\",type=\"RC\",state=\"RTS\",peer=\"10.77.0.2\",dest_qpn=\"5\",limit=\"nothing to send\"} 1\n\
        srnic_qp_info{qpn=\"19\",type=\"RC\",state=\"RTS\",peer=\"10.77.0.3\",dest_qpn=\"6\",limit=\"peer silent\"} 1\n\
        srnic_qp_silent_seconds{qpn=\"19\"} 0.25\nsrnic_qp_outstanding_packets{qpn=\"19\"} 4\n\
        srnic_qp_tx_retransmits{qpn=\"19\"} 0\nsrnic_qp_packet_seq_err{qpn=\"18\"} 2\n\
        srnic_qp_window_packets{qpn=\"19\"} 512\nsrnic_qp_receives{qpn=\"18\"} 3\n";

    #[test]
    fn who_is_held_up_comes_first() {
        let table = Snapshot::parse(TEXT).table(None, 10);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[0], "device 10.77.0.1, driver thread, link up, 2 queue pairs");
        let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            cells(lines[2]),
            ["19", "RTS", "10.77.0.3", "0", "shared", "4/512", "0", "0", "0.0", "250", "peer", "silent"]
        );
        assert_eq!(cells(lines[3])[..5], ["18", "RTS", "10.77.0.2", "0", "3"]);
        assert!(lines[3].ends_with("nothing to send, 2 packet_seq_err"), "{table}");
        assert_eq!(
            lines[4..].iter().map(|line| line.trim()).collect::<Vec<_>>(),
            ["9 port_rx_packets", "7 rx_acks"]
        );
    }

    #[test]
    fn only_what_has_been_counted_since_is_shown() {
        let before = Snapshot::parse(TEXT);
        let text = TEXT
            .replace("rx_acks 7", "rx_acks 12")
            .replace("retransmits{qpn=\"19\"} 0", "retransmits{qpn=\"19\"} 4");
        let now = Snapshot::parse(&text);
        let table = now.table(Some(&before), 1);
        assert!(table.contains("peer silent, 4 tx_retransmits\n"), "{table}");
        assert!(table.ends_with("      .. and 1 more\n               5 rx_acks\n"), "{table}");
    }

    #[test]
    fn why_there_is_no_link_is_said() {
        let reason = r#"the peer says \"mtu=9000\", C:\\a\nb"#;
        let down = TEXT.replace(
            "srnic_link_up 1",
            &format!("srnic_link_up 0\nsrnic_link_error{{reason=\"{reason}\"}} 1"),
        );
        let table = Snapshot::parse(&down).table(None, 10);
        let first = "device 10.77.0.1, driver thread, link down (the peer says \"mtu=9000\", C:\\a\nb), 2 queue pairs\n";
        assert!(table.starts_with(first), "{table}");
        let down = TEXT.replace("srnic_link_up 1", "srnic_link_up 0");
        assert!(Snapshot::parse(&down).table(None, 10).contains(", link down, "));
    }
}
