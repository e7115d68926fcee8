//! What a tenant is and may do.

use crate::sched::Usage;
use core::fmt;

/// Largest weight of a tenant.
pub const TENANT_WEIGHT_MAX: u16 = 256;
/// Tenants of an engine at most, the default one included.
pub const TENANTS_MAX: usize = 1024;

/// A tenant of an engine. Whatever was given to no other belongs to [`TenantId::DEFAULT`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TenantId(pub u16);

impl TenantId {
    /// The tenant that there always is.
    pub const DEFAULT: Self = Self(0);

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a tenant's traffic is like. In each round of the scheduler a tenant has its share, whatever
/// its class; the class says who comes first in it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum TenantClass {
    /// Small messages that somebody waits for: first, as long as its share lasts.
    Latency,
    /// Anything: behind [`TenantClass::Latency`].
    #[default]
    Normal,
    /// Large transfers: last of the round.
    Bulk,
    /// Only what no other class uses.
    Scavenger,
    /// [`Latency`](Self::Latency), [`Normal`](Self::Normal) or [`Bulk`](Self::Bulk), by what it has
    /// sent in the last 10 ms: bulk is 1 KiB an operation or more, and who never has more than five
    /// operations to send at once waits for each of them. `Normal` until that is known.
    Auto,
}

impl TenantClass {
    /// Every one.
    pub const ALL: [Self; 5] = [Self::Latency, Self::Normal, Self::Bulk, Self::Scavenger, Self::Auto];
    /// Those that come in an order within a round.
    pub(super) const RANKS: [Self; 3] = [Self::Latency, Self::Normal, Self::Bulk];

    /// As programs write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Normal => "normal",
            Self::Bulk => "bulk",
            Self::Scavenger => "scavenger",
            Self::Auto => "auto",
        }
    }

    /// Its place in [`RANKS`](Self::RANKS), if it has one for good.
    pub(super) fn rank(self) -> Option<u8> {
        let place = Self::RANKS.into_iter().position(|class| class == self)?;
        u8::try_from(place).ok()
    }
}

impl fmt::Display for TenantClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a tenant may do in a second in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TenantCaps {
    /// Bytes on the wire, counted as payload and 100 a packet; 0: no cap, else at least
    /// [`TenantCaps::BYTES_MIN`].
    pub bytes_per_s: u64,
    /// Operations, each as many as [`CostTable`] says; 0: no cap, else at least
    /// [`TenantCaps::OPERATIONS_MIN`].
    pub operations_per_s: u64,
}

impl TenantCaps {
    /// Least cap in bytes a second: a turn is paid within 17 ms.
    pub const BYTES_MIN: u64 = 1_000_000;
    /// Least cap in operations a second.
    pub const OPERATIONS_MIN: u64 = 1_000;

    /// Whether there is a cap.
    #[must_use]
    pub const fn is_some(&self) -> bool {
        self.bytes_per_s != 0 || self.operations_per_s != 0
    }
}

/// How many objects a tenant may have; `None`: as many as the device has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TenantQuota {
    /// Queue pairs.
    pub queue_pairs: Option<u32>,
    /// Completion queues that are made of it.
    pub completion_queues: Option<u32>,
    /// Memory regions of its protection domains.
    pub memory_regions: Option<u32>,
    /// Bytes of those regions.
    pub memory_bytes: Option<u64>,
}

/// How a tenant shares the engine with others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TenantAttr {
    /// Its share of the bytes beside others that have something to send, 1 to
    /// [`TENANT_WEIGHT_MAX`].
    pub weight: u16,
    /// Who comes first within a round.
    pub class: TenantClass,
    /// What its queue pairs may send: requests, and responses to peers.
    pub tx: TenantCaps,
    /// What peers may send to its queue pairs: requests, and responses. What is above it counts as
    /// marked by a switch, so that peers whose controllers listen to marks slow down.
    pub rx: TenantCaps,
    /// Calls a second that create, register or change something ([`Core::admit_call`]); 0: no cap.
    ///
    /// [`Core::admit_call`]: crate::engine::Core::admit_call
    pub control_per_s: u32,
    /// How much it may have.
    pub quota: TenantQuota,
}

impl Default for TenantAttr {
    fn default() -> Self {
        Self {
            weight: 1,
            class: TenantClass::Normal,
            tx: TenantCaps::default(),
            rx: TenantCaps::default(),
            control_per_s: 0,
            quota: TenantQuota::default(),
        }
    }
}

/// What operations cost, in hundredths of a WRITE or SEND of one packet, so that caps in operations
/// hold what they take of the host: `a + b * packets + c * KiB`, with `a` by operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CostTable {
    /// A WRITE or SEND, and every other operation that is none of those below.
    pub write: u32,
    /// A READ.
    pub read: u32,
    /// A FETCH_AND_ADD or COMPARE_AND_SWAP.
    pub atomic: u32,
    /// Each packet.
    pub packet: u32,
    /// Each 1024 bytes of payload.
    pub kibibyte: u32,
}

impl Default for CostTable {
    /// Those of Harmonic (NSDI '24): an atomic is three WRITEs, a READ 1.1.
    fn default() -> Self {
        Self { write: 100, read: 110, atomic: 300, packet: 0, kibibyte: 0 }
    }
}

impl CostTable {
    /// Every operation costs the same.
    pub const EQUAL: Self = Self { write: 100, read: 100, atomic: 100, packet: 0, kibibyte: 0 };

    /// What a turn costs.
    pub(super) fn of(&self, usage: &Usage) -> u64 {
        let others = usage.operations.saturating_sub(usage.reads + usage.atomics);
        let operations = [(others, self.write), (usage.reads, self.read), (usage.atomics, self.atomic)];
        let parts = [(usage.packets as u64, self.packet), (usage.bytes as u64 / 1024, self.kibibyte)];
        let operations = operations.map(|(count, cost)| u64::from(count) * u64::from(cost));
        let parts = parts.map(|(count, cost)| count * u64::from(cost));
        operations.iter().chain(&parts).sum()
    }
}

/// What was counted of a tenant since the engine has tenants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TenantCounters {
    /// Turns of its queue pairs.
    pub turns: u64,
    /// Packets sent but for acknowledgements: of requests, of responses, and those sent again.
    pub tx_packets: u64,
    /// Payload of them, in bytes.
    pub tx_bytes: u64,
    /// Operations begun.
    pub tx_operations: u64,
    /// Times that it was parked, as it had used up a cap.
    pub parked: u64,
    /// Packets that came for its queue pairs but for acknowledgements: of requests, of responses,
    /// and those that had come before. Counted while a tenant of the engine has a cap for what it
    /// receives.
    pub rx_packets: u64,
    /// Payload of them, in bytes.
    pub rx_bytes: u64,
    /// Operations among them, of every kind.
    pub rx_operations: u64,
    /// Those of the packets that were above its cap, and count as marked.
    pub rx_marked: u64,
    /// Packets out of order that were dropped, as what recovery they needed is other tenants'.
    pub rx_share_drops: u64,
    /// Calls that created, registered or changed something.
    pub control_calls: u64,
    /// Times that such a call was told to wait, as the tenant's cap was used up.
    pub control_waits: u64,
}
