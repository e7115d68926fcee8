//! Tenants of a scenario, and what operations cost of their caps.

use super::{ScenarioError, within};
use datapath::sched::{CostTable, TENANT_WEIGHT_MAX, TENANTS_MAX, TenantAttr, TenantCaps, TenantClass};
use serde::{Deserialize, Serialize};

/// Tenants of a scenario at most: an engine has one more.
pub(super) const TENANT_ENTRIES_MAX: usize = TENANTS_MAX - 1;

/// A tenant of every host.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TenantEntry {
    /// What the workloads of it name.
    pub name: String,
    /// Its share beside others, 1 to 256.
    pub weight: u16,
    /// `latency`, `normal`, `bulk`, `scavenger` or `auto`.
    pub class: String,
    /// Cap in bytes that it may send in a second, 0: none.
    pub bytes_per_s: u64,
    /// Cap in operations of a second, by their costs, 0: none.
    pub operations_per_s: u64,
    /// Cap in bytes of a second that its peers may send to it, 0: none. What is above it counts as
    /// marked.
    pub rx_bytes_per_s: u64,
    /// As `rx_bytes_per_s`, in operations by their costs.
    pub rx_operations_per_s: u64,
    /// Cap in calls of a second that create, register or connect something, 0: none.
    pub control_per_s: u32,
}

impl Default for TenantEntry {
    fn default() -> Self {
        Self {
            name: String::new(),
            weight: 1,
            class: TenantClass::Normal.name().to_owned(),
            bytes_per_s: 0,
            operations_per_s: 0,
            rx_bytes_per_s: 0,
            rx_operations_per_s: 0,
            control_per_s: 0,
        }
    }
}

impl TenantEntry {
    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        if self.name.is_empty() {
            return Err(ScenarioError::Nameless);
        }
        within("weight", self.weight, (1.0, TENANT_WEIGHT_MAX.into()))?;
        let cap = |key, cap: u64, least: u64| match cap {
            0 => Ok(()),
            _ => within(key, rounded(cap), (rounded(least), 1e15)),
        };
        cap("bytes_per_s", self.bytes_per_s, TenantCaps::BYTES_MIN)?;
        cap("operations_per_s", self.operations_per_s, TenantCaps::OPERATIONS_MIN)?;
        cap("rx_bytes_per_s", self.rx_bytes_per_s, TenantCaps::BYTES_MIN)?;
        cap("rx_operations_per_s", self.rx_operations_per_s, TenantCaps::OPERATIONS_MIN)?;
        self.attr().map(|_| ())
    }

    /// As an engine takes it.
    ///
    /// # Errors
    /// [`ScenarioError::Word`].
    pub fn attr(&self) -> Result<TenantAttr, ScenarioError> {
        let class = TenantClass::ALL.into_iter().find(|class| class.name() == self.class);
        let choices = "latency, normal, bulk, scavenger, auto";
        Ok(TenantAttr {
            weight: self.weight,
            class: class.ok_or(ScenarioError::Word { key: "class", choices })?,
            tx: TenantCaps { bytes_per_s: self.bytes_per_s, operations_per_s: self.operations_per_s },
            rx: TenantCaps { bytes_per_s: self.rx_bytes_per_s, operations_per_s: self.rx_operations_per_s },
            control_per_s: self.control_per_s,
            ..TenantAttr::default()
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "a bound needs no last digit")]
const fn rounded(count: u64) -> f64 {
    count as f64
}

/// What operations cost of a tenant's cap in operations, in hundredths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Costs {
    /// A WRITE, a SEND, and all that is none of those below.
    pub write: u32,
    /// A READ.
    pub read: u32,
    /// An atomic.
    pub atomic: u32,
    /// Each packet.
    pub packet: u32,
    /// Each 1024 bytes of payload.
    pub kibibyte: u32,
}

impl Default for Costs {
    fn default() -> Self {
        CostTable::default().into()
    }
}

impl From<CostTable> for Costs {
    fn from(table: CostTable) -> Self {
        let CostTable { write, read, atomic, packet, kibibyte } = table;
        Self { write, read, atomic, packet, kibibyte }
    }
}

impl From<Costs> for CostTable {
    fn from(costs: Costs) -> Self {
        let Costs { write, read, atomic, packet, kibibyte } = costs;
        Self { write, read, atomic, packet, kibibyte }
    }
}
