//! Metrics that a program adds to those of its device.

use super::families::Families;
use core::fmt;
use prometheus_client::registry::Unit;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError, Weak};

/// What a [`Metric`] does over time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricKind {
    /// It only grows.
    Counter,
    /// It is what it is now.
    Gauge,
}

/// A number that a program tells of itself, in the place where its device tells what it does
/// (`stat=`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metric {
    /// Its name without `srnic_` and without `_total`. One that ends in `_bytes` or `_seconds` has
    /// that unit.
    pub name: &'static str,
    /// What it is, as a sentence. Metrics of one name have one.
    pub help: &'static str,
    /// What it does over time. Metrics of one name have one kind.
    pub kind: MetricKind,
    /// Names and values of its labels. What several sources tell under one name and the same labels
    /// is added up.
    pub labels: Vec<(&'static str, String)>,
    /// The number.
    pub value: u64,
}

/// Who has metrics to tell ([`Device::add_metrics`](crate::Device::add_metrics)).
pub trait MetricSource: Send + Sync {
    /// All of them as they are now, in any order. It is called by the thread that answers who
    /// asks, which waits for it.
    fn metrics(&self) -> Vec<Metric>;
}

/// The sources of a device.
#[derive(Default)]
pub(crate) struct Sources(Mutex<Vec<Weak<dyn MetricSource>>>);

impl Sources {
    /// Adds one, and forgets those that are gone: without `stat=` nobody asks for metrics.
    pub fn add(&self, source: Weak<dyn MetricSource>) {
        let mut sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sources.retain(|source| source.strong_count() > 0);
        sources.push(source);
    }

    /// What all that still exist tell.
    pub fn metrics(&self) -> Vec<Metric> {
        let mut sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = Vec::new();
        sources.retain(|source| {
            let source = source.upgrade();
            let exists = source.is_some();
            found.extend(source);
            exists
        });
        // They are asked, and may go, without the lock.
        drop(sources);
        found.iter().flat_map(|source| source.metrics()).collect()
    }
}

/// Values by labels.
type Values<'a> = BTreeMap<&'a [(&'static str, String)], u64>;

/// All of them, a family of each name.
pub fn encode_added(added: &[Metric], families: &mut Families<'_>) -> fmt::Result {
    let mut by_name: BTreeMap<&str, (&Metric, Values<'_>)> = BTreeMap::new();
    for metric in added {
        let (_, values) = by_name.entry(metric.name).or_insert_with(|| (metric, Values::new()));
        *values.entry(&metric.labels).or_default() += metric.value;
    }
    by_name.into_values().try_for_each(|(metric, values)| encode(metric, values, families))
}

fn encode(
    Metric { name, help, kind, .. }: &Metric,
    values: Values<'_>,
    families: &mut Families<'_>,
) -> fmt::Result {
    let units = [("_bytes", Unit::Bytes), ("_seconds", Unit::Seconds)];
    let unit = units.iter().find_map(|(end, unit)| Some((name.strip_suffix(end)?, unit)));
    let (name, unit) = unit.map_or((*name, None), |(name, unit)| (name, Some(unit)));
    let values = values.into_iter().map(|(labels, value)| (labels.to_vec(), value));
    match kind {
        MetricKind::Counter => families.counters(name, help, unit, values),
        MetricKind::Gauge => {
            families.gauges(name, help, unit, values.map(|(labels, value)| (labels, value as f64)))
        }
    }
}
