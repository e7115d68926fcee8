//! A device at one moment, read from its metrics.

use super::dropped::is_drop;
use std::collections::BTreeMap;

/// Above the number of completed requests, which is told modulo this.
const COMPLETED_END: f64 = 4_294_967_296.0;
/// Begins the names of metrics of sampled operations.
const SAMPLED: [&str; 3] = ["operation", "slow_operation", "sampled_"];

/// A device at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Snapshot {
    /// What does not change: labels of `srnic_device_info`.
    pub device: BTreeMap<String, String>,
    pub link_up: bool,
    /// Why there is no link, if a peer was there and it came to nothing.
    pub link_error: Option<String>,
    /// Counters of the device and its port, without `srnic_` and `_total`.
    pub counters: BTreeMap<String, f64>,
    /// By number.
    pub queue_pairs: BTreeMap<u32, QueuePair>,
    /// By number; none if the device has none.
    pub tenants: BTreeMap<u32, Tenant>,
}

/// A tenant at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tenant {
    /// The class of its traffic.
    pub class: String,
    /// Without `srnic_tenant_`.
    pub gauges: BTreeMap<String, f64>,
    /// Without `srnic_tenant_` and `_total`.
    pub counters: BTreeMap<String, f64>,
}

/// A queue pair at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct QueuePair {
    /// Those of `srnic_qp_info`.
    pub labels: BTreeMap<String, String>,
    /// Without `srnic_qp_`.
    pub gauges: BTreeMap<String, f64>,
    /// What is no everyday event, without `srnic_qp_` and `_total`.
    pub counters: BTreeMap<String, f64>,
    /// Seconds that each limit has held it back, if the device samples.
    pub limit_seconds: BTreeMap<String, f64>,
    /// Send requests completed, modulo 2^32.
    completed: f64,
}

impl Snapshot {
    /// Reads the text format of OpenMetrics.
    pub fn parse(text: &str) -> Self {
        let mut snapshot = Self::default();
        for (name, labels, value) in metrics(text) {
            snapshot.take(name, labels, value);
        }
        snapshot
    }

    fn take(&mut self, name: &str, mut labels: BTreeMap<String, String>, value: f64) {
        let number = |key| labels.get(key).and_then(|number: &String| number.parse::<u32>().ok());
        let (qpn, tenant) = (number("qpn"), number("tenant"));
        if let (Some(name), Some(tenant)) = (name.strip_prefix("tenant_"), tenant) {
            return self.tenants.entry(tenant).or_default().take(name, &mut labels, value);
        }
        match (name.strip_prefix("qp_"), qpn) {
            (Some(name), Some(qpn)) => {
                self.queue_pairs.entry(qpn).or_default().take(name, labels, value);
            }
            // `srnic latency` has those.
            _ if SAMPLED.iter().any(|prefix| name.starts_with(prefix)) => {}
            _ if name == "device_info" => self.device = labels,
            _ if name == "link_up" => self.link_up = value > 0.0,
            _ if name == "link_error" => self.link_error = labels.remove("reason"),
            _ => {
                let name = name.strip_suffix("_total").unwrap_or(name);
                self.counters.insert(name.to_owned(), value);
            }
        }
    }

    /// A label of the device; `?` if it has none of that name.
    pub fn label(&self, key: &str) -> &str {
        self.device.get(key).map_or("?", String::as_str)
    }

    /// `up`, `down`, or `down` and why.
    pub fn link(&self) -> String {
        match (self.link_up, &self.link_error) {
            (true, _) => "up".to_owned(),
            (false, None) => "down".to_owned(),
            (false, Some(reason)) => format!("down ({reason})"),
        }
    }

    /// A counter; `None` if the device has none of that name.
    pub fn counter(&self, name: &str) -> Option<f64> {
        self.counters.get(name).copied()
    }

    /// Frames that did not get through, at the port or in the engine.
    pub fn dropped(&self) -> f64 {
        self.counters.iter().filter(|(name, _)| is_drop(name)).map(|(_, value)| value).sum()
    }
}

impl Tenant {
    fn take(&mut self, name: &str, labels: &mut BTreeMap<String, String>, value: f64) {
        match name.strip_suffix("_total") {
            None if name == "info" => self.class = labels.remove("class").unwrap_or_default(),
            None => drop(self.gauges.insert(name.to_owned(), value)),
            Some(name) => drop(self.counters.insert(name.to_owned(), value)),
        }
    }

    /// A gauge; 0 if it has none of that name.
    pub fn gauge(&self, key: &str) -> f64 {
        self.gauges.get(key).copied().unwrap_or(0.0)
    }

    /// How far a counter has gone since `before`, or since there is something to count.
    pub fn counted(&self, key: &str, before: Option<&Self>) -> f64 {
        let count = |tenant: &Self| tenant.counters.get(key).copied().unwrap_or(0.0);
        count(self) - before.map_or(0.0, count)
    }
}

impl QueuePair {
    fn take(&mut self, name: &str, mut labels: BTreeMap<String, String>, value: f64) {
        match name.strip_suffix("_total") {
            None if name == "info" => self.labels = labels,
            None => drop(self.gauges.insert(name.to_owned(), value)),
            Some("limit_seconds") => {
                let limit = labels.remove("limit").unwrap_or_default();
                self.limit_seconds.insert(limit, value);
            }
            Some("completed_requests") => self.completed = value,
            Some(name) => drop(self.counters.insert(name.to_owned(), value)),
        }
    }

    /// A label; `?` if it has none of that name.
    pub fn label(&self, key: &str) -> &str {
        self.labels.get(key).map_or("?", String::as_str)
    }

    /// What keeps it from sending more.
    pub fn limit(&self) -> &str {
        self.label("limit")
    }

    /// A gauge; 0 if it has none of that name.
    pub fn gauge(&self, key: &str) -> f64 {
        self.gauges.get(key).copied().unwrap_or(0.0)
    }

    /// How often it sent something again.
    pub fn resends(&self) -> f64 {
        self.counters.get("tx_retransmits").copied().unwrap_or(0.0)
    }

    /// The share of the time since `before` that each limit has held it back, the largest first;
    /// empty if the device does not sample.
    pub fn limit_shares(&self, before: &Self) -> Vec<(String, f64)> {
        let since = |(limit, seconds): (&String, &f64)| {
            (limit.clone(), seconds - before.limit_seconds.get(limit).unwrap_or(&0.0))
        };
        let mut shares: Vec<_> =
            self.limit_seconds.iter().map(since).filter(|(_, share)| *share > 0.0).collect();
        let all: f64 = shares.iter().map(|(_, share)| share).sum();
        shares.iter_mut().for_each(|(_, share)| *share /= all);
        shares.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        shares
    }

    /// Send requests completed since `before`, or since there is something to count.
    pub fn completed_since(&self, before: Option<&Self>) -> f64 {
        (self.completed - before.map_or(0.0, |before| before.completed)).rem_euclid(COMPLETED_END)
    }
}

/// What was counted since `before`, or since there is something to count.
pub fn counted<'a>(
    now: &'a BTreeMap<String, f64>,
    before: Option<&'a BTreeMap<String, f64>>,
) -> impl Iterator<Item = (&'a str, f64)> {
    let since = move |(name, value): (&'a String, &'a f64)| {
        (name.as_str(), value - before.and_then(|before| before.get(name)).unwrap_or(&0.0))
    };
    now.iter().map(since).filter(|(_, count)| *count > 0.0)
}

/// The metrics of a device in the text format of OpenMetrics, without `srnic_`; lines that are not
/// ours are passed over.
pub fn metrics(text: &str) -> impl Iterator<Item = (&str, BTreeMap<String, String>, f64)> {
    text.lines().filter_map(|line| line.strip_prefix("srnic_")).filter_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        let value = value.parse().ok()?;
        let (name, labels) =
            name.split_once('{').map_or((name, BTreeMap::new()), |(name, rest)| (name, labels(rest)));
        Some((name, labels, value))
    })
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
