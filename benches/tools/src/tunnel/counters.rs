//! What a tunnel counts, for the `stat=` of its device.

use std::sync::atomic::{AtomicU64, Ordering};
use verbs_api::{Metric, MetricKind, MetricSource};

/// Connections and their bytes. All numbers stand alone, so no order is asked of them.
#[derive(Default)]
pub struct Counters {
    /// Connections that are carried now.
    open: AtomicU64,
    /// Connections that both sides were made of.
    carried: AtomicU64,
    /// Those of which the other side could not be made.
    refused: AtomicU64,
    /// Those that ended by an error.
    broken: AtomicU64,
    /// Bytes from TCP to streams.
    pub sent: AtomicU64,
    /// Bytes from streams to TCP.
    pub received: AtomicU64,
}

impl Counters {
    /// A connection begins.
    pub fn begin(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.carried.fetch_add(1, Ordering::Relaxed);
    }

    /// One has ended, by an error if it is `broken`.
    pub fn end(&self, broken: bool) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.broken.fetch_add(u64::from(broken), Ordering::Relaxed);
    }

    /// The other side of one could not be made.
    pub fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

impl MetricSource for Counters {
    fn metrics(&self) -> Vec<Metric> {
        use MetricKind::{Counter, Gauge};
        [
            ("tunnel_open", "Connections that the tunnel carries now.", Gauge, &self.open),
            ("tunnel_connections", "Connections that the tunnel has carried.", Counter, &self.carried),
            ("tunnel_refused", "Connections whose other side could not be made.", Counter, &self.refused),
            ("tunnel_broken", "Connections that ended by an error.", Counter, &self.broken),
            ("tunnel_sent_bytes", "Bytes that came by TCP and went into streams.", Counter, &self.sent),
            ("tunnel_received_bytes", "Bytes that came by streams and went to TCP.", Counter, &self.received),
        ]
        .map(|(name, help, kind, value)| Metric {
            name,
            help,
            kind,
            labels: Vec::new(),
            value: value.load(Ordering::Relaxed),
        })
        .to_vec()
    }
}
