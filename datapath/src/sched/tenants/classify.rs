//! The class of a tenant that nobody has set, by what it sends: the classifier of PeRF.

use super::{TenantClass, TenantCounters};
use crate::time::Time;

/// A class is looked at again after so long: 10 ms.
const PERIOD_NS: u64 = 10_000_000;
/// Operations of so many bytes on average are bulk.
const BULK_BYTES: u64 = 1024;
/// Who has more operations than this to send at once waits for the rate, and not for each of them.
const AT_ONCE: u64 = 5;

/// What a tenant has sent in this period.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    since: Time,
    bytes_before: u64,
    operations_before: u64,
    /// Operations when nothing of it was left to send.
    emptied_at: u64,
    /// Most operations between two such moments.
    most_at_once: u64,
}

impl Traffic {
    /// What is sent from now on.
    pub const fn since(counters: &TenantCounters, now: Time) -> Self {
        Self {
            since: now,
            bytes_before: counters.tx_bytes,
            operations_before: counters.tx_operations,
            emptied_at: counters.tx_operations,
            most_at_once: 0,
        }
    }

    /// A tenant has no turn now: nothing of it is left to send (`is_empty`), or its share is used
    /// up. Once a period is over, what it is.
    pub fn note(&mut self, counters: &TenantCounters, is_empty: bool, now: Time) -> Option<TenantClass> {
        let at_once = counters.tx_operations.saturating_sub(self.emptied_at);
        self.most_at_once = self.most_at_once.max(at_once);
        if is_empty {
            self.emptied_at = counters.tx_operations;
        }
        if now.since(self.since) < PERIOD_NS {
            return None;
        }
        let bytes = counters.tx_bytes.saturating_sub(self.bytes_before);
        let operations = counters.tx_operations.saturating_sub(self.operations_before);
        let at_once = self.most_at_once;
        *self = Self {
            since: now,
            bytes_before: counters.tx_bytes,
            operations_before: counters.tx_operations,
            most_at_once: 0,
            ..*self
        };
        // Responses are bytes without an operation of its own.
        match (bytes, operations) {
            (0, 0) => None,
            _ if bytes >= BULK_BYTES * operations.max(1) => Some(TenantClass::Bulk),
            _ if at_once > AT_ONCE => Some(TenantClass::Normal),
            _ => Some(TenantClass::Latency),
        }
    }
}
