//! The tenant that alone has something to send: it has every turn, and keeps to no share. What its
//! turns need is held here, where they find it without a look at all tenants.

use super::TenantCounters;
use super::ready::Ready;
use crate::sched::policy::Usage;

/// No tenant has this number.
const NOBODY: u16 = u16::MAX;

/// What a tenant has sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    turns: u64,
    packets: u64,
    bytes: u64,
    operations: u64,
}

impl Sent {
    #[inline]
    pub const fn begin_turn(&mut self) {
        self.turns += 1;
    }

    #[inline]
    pub fn add(&mut self, usage: &Usage) {
        self.packets += usage.packets as u64;
        self.bytes += usage.bytes as u64;
        self.operations += u64::from(usage.operations);
    }

    /// Counts it for a tenant.
    pub const fn count(&self, counters: &mut TenantCounters) {
        counters.turns += self.turns;
        counters.tx_packets += self.packets;
        counters.tx_bytes += self.bytes;
        counters.tx_operations += self.operations;
    }
}

/// The tenant that is alone, if one is.
#[derive(Debug)]
pub(super) struct Alone {
    number: u16,
    /// Its ready queue pairs: those of the tenant itself are none meanwhile.
    pub queue: Ready,
    /// What it has sent since it is alone.
    pub sent: Sent,
}

impl Alone {
    pub const fn nobody() -> Self {
        Self {
            number: NOBODY,
            queue: Ready::NONE,
            sent: Sent { turns: 0, packets: 0, bytes: 0, operations: 0 },
        }
    }

    pub const fn new(number: u16, queue: Ready) -> Self {
        Self { number, queue, ..Self::nobody() }
    }

    /// Its number.
    #[inline]
    pub const fn number(&self) -> Option<u16> {
        if self.number == NOBODY { None } else { Some(self.number) }
    }

    /// Whether it is this tenant.
    #[inline]
    pub const fn is(&self, number: u16) -> bool {
        self.number == number
    }
}
