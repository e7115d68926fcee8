//! What a run amounts to: how long its flows took, beside the same flows in an empty network.

use crate::clock::Ps;
use crate::fabric::{Config, Fabric, FlowRecord};
use crate::ideal;
use crate::scheme::Scheme;
use crate::switch::SwitchStats;

/// One line of a table: a scheme on a network.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// The scheme.
    pub scheme: Scheme,
    /// Hosts of the network.
    pub hosts: u32,
    /// Its flows.
    pub summary: Summary,
    /// Those of each workload, and the gigabits of payload a second that it had.
    pub workloads: Vec<(Summary, f64)>,
    /// The part of the time, from the first flow to the end of the last, in which the busiest host
    /// sent.
    pub busiest: f64,
    /// Packets of data whose arrival their senders know of, each once.
    pub packets: u64,
    /// Frames lost on links.
    pub lost: u64,
    /// All its switches together.
    pub switches: SwitchStats,
    /// A number that depends on every flow ([`Fabric::hash`]).
    pub hash: u64,
}

/// What became of a run's flows.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Summary {
    /// Flows that are counted: those that began after the warm-up.
    pub flows: usize,
    /// Of them those that have not ended.
    pub unfinished: usize,
    /// Of them those whose request ended with an error.
    pub failed: usize,
    /// Mean flow completion time, in microseconds, of those that ended well.
    pub avg_fct_us: f64,
    /// Its 99th percentile.
    pub p99_fct_us: f64,
    /// Mean of each flow's time over what it takes in an empty network.
    pub avg_slowdown: f64,
    /// Its 99th percentile.
    pub p99_slowdown: f64,
    /// Mean of each flow's payload over its time, in gigabits a second.
    pub flow_gbps: f64,
    /// Mean rate of a host over its link's while flows began: payload of flows that have ended.
    pub goodput: f64,
}

impl Summary {
    /// Of the flows that began from `warm_up` on, of one workload if it is given.
    #[must_use]
    pub fn of(fabric: &Fabric, warm_up: Ps, workload: Option<u8>) -> Self {
        let counts = |record: &&FlowRecord| {
            record.flow.at >= warm_up && workload.is_none_or(|workload| record.flow.workload == workload)
        };
        let counted: Vec<_> = fabric.flows.iter().filter(counts).collect();
        let ended = |flow: &&&FlowRecord| flow.done.is_some() && flow.failed.is_none();
        let config = fabric.config();
        let mut times: Vec<_> = counted.iter().filter(ended).map(|flow| times(config, flow)).collect();
        let avg_fct_us = mean(times.iter().map(|times| times.0));
        let avg_slowdown = mean(times.iter().map(|times| times.1));
        let rate = |record: &&FlowRecord| f64::from(record.flow.bytes) * 8000.0 / took(record).max(1.0);
        let flow_gbps = mean(counted.iter().filter(ended).map(rate));
        let bytes: f64 = counted.iter().filter(ended).map(|flow| f64::from(flow.flow.bytes)).sum();
        let last = counted.iter().map(|flow| flow.flow.at).max().unwrap_or_default();
        // Bytes that all hosts' links take in that time.
        let room: f64 = (0..config.topology.hosts())
            .map(|host| last.since(warm_up).0 as f64 / f64::from(config.topology.host_ps_per_byte(host)))
            .sum();
        Self {
            flows: counted.len(),
            unfinished: counted.iter().filter(|flow| flow.done.is_none()).count(),
            failed: counted.iter().filter(|flow| flow.failed.is_some()).count(),
            avg_fct_us,
            p99_fct_us: percentile(&mut times, |times| times.0),
            avg_slowdown,
            p99_slowdown: percentile(&mut times, |times| times.1),
            goodput: if room > 0.0 { bytes / room } else { 0.0 },
            flow_gbps,
        }
    }
}

/// Microseconds that a flow took, and how many times what it takes in an empty network.
fn times(config: &Config, record: &FlowRecord) -> (f64, f64) {
    let FlowRecord { from, flow, .. } = record;
    let path = config.topology.path(*from, flow.to);
    let alone = ideal::completion(&path, &config.host.frames(), config.host.mtu(), flow.bytes).0;
    (took(record) / 1e6, took(record) / alone as f64)
}

/// Picoseconds that a flow took.
fn took(record: &FlowRecord) -> f64 {
    record.done.unwrap_or_default().since(record.flow.at).0 as f64
}

/// 0 of nothing.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count.max(1))
}

/// The 99th percentile by nearest rank; 0 of nothing.
fn percentile(times: &mut [(f64, f64)], of: fn(&(f64, f64)) -> f64) -> f64 {
    times.sort_unstable_by(|left, right| of(left).total_cmp(&of(right)));
    let rank = (times.len() * 99).div_ceil(100);
    rank.checked_sub(1).and_then(|index| times.get(index)).map_or(0.0, of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let mut times: Vec<_> = (1..=200).rev().map(|value| (f64::from(value), 0.0)).collect();
        assert!((percentile(&mut times, |times| times.0) - 198.0).abs() < 1e-9);
        assert!(percentile(&mut [], |times| times.0).abs() < 1e-9);
    }
}
