//! What a device tells of sampled operations, read from its metrics.

use crate::stat::metrics;
use std::collections::BTreeMap;

/// What operations have in common: queue pair, operation, status.
pub type Key = [String; 3];

/// What a device tells of sampled operations.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// One send request in so many is sampled; 0: none is.
    pub one_in: f64,
    pub operations: BTreeMap<Key, Operations>,
    /// Of each part, in seconds by quantile, over all operations of the last minute or two.
    pub parts: BTreeMap<String, BTreeMap<String, f64>>,
    /// Operations that were to be sampled, and were not.
    pub unsampled: f64,
    /// Slow operations.
    pub slow_count: f64,
    /// The last ones since the device was opened, by what is told of each.
    pub slow: Vec<BTreeMap<String, String>>,
}

/// Operations of one key.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Operations {
    pub count: f64,
    /// Seconds of each part, of all of them together.
    pub parts: BTreeMap<String, f64>,
    /// Seconds from post to poll by quantile, over the last minute or two.
    pub quantiles: BTreeMap<String, f64>,
}

impl Operations {
    /// Seconds of all parts together.
    pub fn total(&self) -> f64 {
        self.parts.values().sum()
    }

    /// Those since `before`.
    pub fn since(&self, before: &Self) -> Self {
        let since = |(part, seconds): (&String, &f64)| {
            (part.clone(), (seconds - before.parts.get(part).unwrap_or(&0.0)).max(0.0))
        };
        Self {
            count: self.count - before.count,
            parts: self.parts.iter().map(since).collect(),
            quantiles: self.quantiles.clone(),
        }
    }
}

impl Report {
    /// Reads the text format of OpenMetrics; what is not of sampled operations is passed over.
    pub fn parse(text: &str) -> Self {
        let mut report = Self::default();
        for (name, labels, value) in metrics(text) {
            report.take(name, labels, value);
        }
        report
    }

    fn take(&mut self, name: &str, mut labels: BTreeMap<String, String>, value: f64) {
        let mut label = |key: &str| labels.remove(key).unwrap_or_default();
        match name {
            "sampled_one_in" => self.one_in = value,
            "operations_unsampled_total" => self.unsampled = value,
            "slow_operations_total" => self.slow_count = value,
            "slow_operation_info" => self.slow.push(labels),
            "operation_part_quantile_seconds" => {
                self.parts.entry(label("part")).or_default().insert(label("quantile"), value);
            }
            "operations_sampled_total" => self.of(&mut label).count = value,
            "operation_seconds" => {
                let quantile = label("quantile");
                self.of(&mut label).quantiles.insert(quantile, value);
            }
            "operation_part_seconds_total" => {
                let part = label("part");
                self.of(&mut label).parts.insert(part, value);
            }
            _ => {}
        }
    }

    fn of(&mut self, label: &mut impl FnMut(&str) -> String) -> &mut Operations {
        self.operations.entry(["qpn", "opcode", "status"].map(label)).or_default()
    }

    /// What was sampled since `before`, and how many of it were slow. What counts from 0 again was
    /// given up in between, or the device was opened again.
    pub fn since(&self, before: &Self) -> Self {
        let since = |(key, now): (&Key, &Operations)| {
            let before = before.operations.get(key).filter(|before| before.count <= now.count);
            (key.clone(), before.map_or_else(|| now.clone(), |before| now.since(before)))
        };
        let counted = |now: f64, before: f64| if before <= now { now - before } else { now };
        Self {
            operations: self.operations.iter().map(since).collect(),
            unsampled: counted(self.unsampled, before.unsampled),
            slow_count: counted(self.slow_count, before.slow_count),
            ..self.clone()
        }
    }
}
