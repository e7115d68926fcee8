//! A device as it is at one moment, for who looks into it.

use super::added::{Metric, Sources};
use super::metrics;
use crate::driver::Driver;
use crate::shared::Shared;
use core::net::IpAddr;
use datapath::counters::Counters;
use datapath::engine::{LatencyReport, QpReport, TenantReport};
use datapath::port::{LinkDown, PortStats};
use datapath::sched::HostReport;
use std::sync::Arc;

/// A device, as far as it is looked into.
pub struct Facts {
    pub shared: Arc<Shared>,
    pub ip: IpAddr,
    pub driver: Driver,
    /// Who has more to tell.
    pub sources: Arc<Sources>,
}

/// What a device has counted, and its queue pairs, at one moment.
#[derive(Debug)]
pub struct Sample {
    pub ip: IpAddr,
    /// How the engine is run: `inline`, `hybrid` or `thread`.
    pub driver: &'static str,
    pub link_up: bool,
    /// Why there is no link.
    pub link_down: Option<LinkDown>,
    pub counters: Counters,
    pub port: PortStats,
    pub queue_pairs: Vec<QpReport>,
    /// None if none was ever created.
    pub tenants: Vec<TenantReport>,
    /// None unless hosts may have rates.
    pub hosts: Vec<HostReport>,
    /// Where the time of sampled operations goes, if some are.
    pub latency: Option<LatencyReport>,
    /// What the program adds.
    pub added: Vec<Metric>,
}

impl Facts {
    /// Everything as of now, in the text format of OpenMetrics. The engine stops for as long as the
    /// facts are copied, not while they are written down.
    pub fn text(&self) -> String {
        // A process that was forked has no thread that asks.
        self.sample().map_or_else(String::new, metrics::text)
    }

    fn sample(&self) -> Option<Sample> {
        // Before the engine stops: sources may wait for who calls it.
        let added = self.sources.metrics();
        let mut nic = self.shared.call()?;
        let now = nic.now();
        Some(Sample {
            ip: self.ip,
            driver: match self.driver {
                Driver::Inline => "inline",
                Driver::Hybrid => "hybrid",
                Driver::Thread { .. } => "thread",
            },
            link_up: nic.link_up(),
            link_down: nic.link_down(),
            counters: *nic.core().counters(),
            port: nic.port_stats(),
            queue_pairs: nic.core().reports(now),
            tenants: nic.core().tenants(),
            hosts: nic.core().hosts(),
            latency: nic.core().latency(now),
            added,
        })
    }
}
