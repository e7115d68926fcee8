//! Tenants of an engine, and what belongs to them.

use crate::engine::{Core, CreateError};
use crate::memory::{MemoryBudget, MemoryKey, ProtectionDomainId};
use crate::queue::CompletionQueue;
use crate::sched::{
    TENANT_WEIGHT_MAX, TENANTS_MAX, TenantAttr, TenantCaps, TenantClass, TenantCounters, TenantId,
    TenantQuota,
};
use crate::time::Time;
use std::collections::HashMap;
use std::sync::Arc;

/// What belongs to tenants other than the default one, which there are no quotas for.
#[derive(Default)]
pub(in crate::engine) struct TenantTable {
    domains: HashMap<ProtectionDomainId, TenantId>,
    completion_queues: HashMap<u32, TenantId>,
    holdings: HashMap<TenantId, Holdings>,
}

/// What a tenant has.
struct Holdings {
    quota: TenantQuota,
    queue_pairs: u32,
    completion_queues: u32,
    memory: Arc<MemoryBudget>,
    /// It is destroyed with its last queue pair.
    ends: bool,
}

/// A tenant as it is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TenantReport {
    /// Its number.
    pub id: TenantId,
    /// What it may do.
    pub attr: TenantAttr,
    /// The class that it is treated as: [`TenantClass::Auto`] is none.
    pub class: TenantClass,
    /// What it did.
    pub counters: TenantCounters,
    /// Queue pairs that it has.
    pub queue_pairs: u32,
    /// Completion queues that were made of it; of the default tenant, all others.
    pub completion_queues: u32,
    /// Memory regions of its protection domains; of the default tenant, all others, and windows.
    pub memory_regions: u64,
    /// Bytes of them; not known of the default tenant, and 0.
    pub memory_bytes: u64,
}

impl Core {
    /// A new tenant. From the first one on the engine shares its turns among tenants, and what was
    /// made before belongs to [`TenantId::DEFAULT`].
    ///
    /// # Errors
    /// [`CreateError`] if an attribute is out of range, if there are [`TENANTS_MAX`], or if the
    /// engine was made with another scheduler than round robin.
    pub fn create_tenant(&mut self, attr: TenantAttr) -> Result<TenantId, CreateError> {
        check(&attr)?;
        let tenants = self.units.mux.begin_tenants(&self.config.costs).ok_or(CreateError::OtherScheduler)?;
        let exhausted = CreateError::Exhausted { what: "tenants", capacity: TENANTS_MAX };
        let id = tenants.create(attr).ok_or(exhausted)?;
        self.tenants.holdings.insert(id, Holdings::new(attr.quota));
        self.units.has_governors = true;
        self.units.begin_shares(self.config.recovery_contexts);
        self.units.note_inbound_caps();
        Ok(id)
    }

    /// Gives a tenant other attributes. Its weight and class count from its next round on, caps at
    /// once, and quotas for what is made from now on.
    ///
    /// # Errors
    /// [`CreateError`] if it does not exist, if an attribute is out of range, or if the default
    /// tenant is to have a quota; nothing has changed then.
    pub fn modify_tenant(&mut self, tenant: TenantId, attr: TenantAttr) -> Result<(), CreateError> {
        check(&attr)?;
        if tenant == TenantId::DEFAULT && attr.quota != TenantQuota::default() {
            return Err(CreateError::DefaultQuota);
        }
        let tenants = self.units.mux.tenants_mut().ok_or(CreateError::NoTenants)?;
        if !tenants.set(tenant, attr) {
            return Err(CreateError::UnknownTenant(tenant.0));
        }
        self.units.note_inbound_caps();
        if let Some(holdings) = self.tenants.holdings.get_mut(&tenant) {
            holdings.quota = attr.quota;
            holdings.memory.limit(attr.quota.memory_regions, attr.quota.memory_bytes);
        }
        Ok(())
    }

    /// Destroys a tenant, at once or with its last queue pair. What else it has belongs to
    /// [`TenantId::DEFAULT`] then. False if it does not exist, or is the default one.
    pub fn destroy_tenant(&mut self, tenant: TenantId) -> bool {
        let Some(holdings) = self.tenants.holdings.get_mut(&tenant) else { return false };
        holdings.ends = true;
        self.end_tenant(tenant);
        true
    }

    /// Ends a tenant that is to end and has no queue pair any more.
    fn end_tenant(&mut self, tenant: TenantId) {
        let may_end = |holdings: &Holdings| holdings.ends && holdings.queue_pairs == 0;
        if !self.tenants.holdings.get(&tenant).is_some_and(may_end) {
            return;
        }
        self.tenants.holdings.remove(&tenant);
        self.tenants.completion_queues.retain(|_, owner| *owner != tenant);
        let memory = &mut self.units.memory;
        self.tenants.domains.retain(|pd, owner| {
            if *owner == tenant {
                memory.end_budget(*pd);
            }
            *owner != tenant
        });
        if let Some(tenants) = self.units.mux.tenants_mut() {
            tenants.destroy(tenant);
        }
        self.units.note_inbound_caps();
    }

    /// A new protection domain of a tenant.
    ///
    /// # Errors
    /// [`CreateError::UnknownTenant`].
    pub fn allocate_pd_of(&mut self, tenant: TenantId) -> Result<ProtectionDomainId, CreateError> {
        let Some(holdings) = self.tenants.holdings.get(&tenant) else {
            let unknown = Err(CreateError::UnknownTenant(tenant.0));
            return if tenant == TenantId::DEFAULT { Ok(self.allocate_pd()) } else { unknown };
        };
        let memory = Arc::clone(&holdings.memory);
        let pd = self.allocate_pd();
        self.tenants.domains.insert(pd, tenant);
        self.units.memory.set_budget(pd, memory);
        Ok(pd)
    }

    /// As [`Core::create_cq`], of a tenant.
    ///
    /// # Errors
    /// [`CreateError`]; [`CreateError::Quota`] if the tenant may have no more.
    pub fn create_cq_of(
        &mut self,
        tenant: TenantId,
        entries: u32,
    ) -> Result<(u32, CompletionQueue), CreateError> {
        if tenant == TenantId::DEFAULT {
            return self.create_cq(entries);
        }
        let unknown = CreateError::UnknownTenant(tenant.0);
        let holdings = self.tenants.holdings.get(&tenant).ok_or(unknown)?;
        within("completion queues", holdings.completion_queues, holdings.quota.completion_queues)?;
        let (number, queue) = self.create_cq(entries)?;
        self.tenants.completion_queues.insert(number, tenant);
        if let Some(holdings) = self.tenants.holdings.get_mut(&tenant) {
            holdings.completion_queues += 1;
        }
        Ok((number, queue))
    }

    /// A call of a tenant that creates, registers or changes something begins at `now`: ask before
    /// it. What ends something need not ask, as something began it.
    ///
    /// # Errors
    /// [`CreateError::ControlRate`] if the tenant has used up its cap; the call is to wait.
    pub fn admit_call(&mut self, tenant: TenantId, now: Time) -> Result<(), CreateError> {
        let Some(tenants) = self.units.mux.tenants_mut().filter(|tenants| tenants.has(tenant)) else {
            return Ok(());
        };
        match tenants.admit_call(tenant, now) {
            None => Ok(()),
            Some(wait_ns) => {
                let per_s = tenants.get(tenant).map_or(0, |(attr, _)| attr.control_per_s);
                Err(CreateError::ControlRate { per_s, wait_ns })
            }
        }
    }

    /// The tenant that a protection domain belongs to.
    #[must_use]
    pub fn tenant_of(&self, pd: ProtectionDomainId) -> TenantId {
        self.tenants.domains.get(&pd).copied().unwrap_or_default()
    }

    /// The tenant that a memory region or window belongs to; the default one if it does not exist.
    #[must_use]
    pub fn tenant_of_memory(&self, key: MemoryKey) -> TenantId {
        self.memory().domain_of(key).map(|pd| self.tenant_of(pd)).unwrap_or_default()
    }

    /// The tenant that a queue pair belongs to; the default one if it does not exist.
    #[must_use]
    pub fn tenant_of_qp(&self, qpn: u32) -> TenantId {
        self.qps.find(qpn).map(|slot| self.units.tenant_of(slot)).unwrap_or_default()
    }

    /// Every tenant, the default one first; none if none was ever created.
    #[must_use]
    pub fn tenants(&self) -> Vec<TenantReport> {
        let Some(tenants) = self.units.mux.tenants() else { return Vec::new() };
        let report = |id| {
            let (attr, counters) = tenants.get(id)?;
            let (queue_pairs, completion_queues, (memory_regions, memory_bytes)) = self.held_by(id);
            Some(TenantReport {
                id,
                attr: *attr,
                class: tenants.class_of(id)?,
                counters,
                queue_pairs,
                completion_queues,
                memory_regions,
                memory_bytes,
            })
        };
        tenants.ids().filter_map(report).collect()
    }

    /// Queue pairs, completion queues, and memory regions with their bytes.
    fn held_by(&self, tenant: TenantId) -> (u32, u32, (u64, u64)) {
        if let Some(held) = self.tenants.holdings.get(&tenant) {
            return (held.queue_pairs, held.completion_queues, held.memory.used());
        }
        let usage = self.usage();
        let rest = |all: usize, others: u32| u32::try_from(all).unwrap_or(u32::MAX).saturating_sub(others);
        let others = || self.tenants.holdings.values();
        let regions: u64 = others().map(|held| held.memory.used().0).sum();
        (
            rest(usage.queue_pairs, others().map(|held| held.queue_pairs).sum()),
            rest(usage.completion_queues, others().map(|held| held.completion_queues).sum()),
            ((usage.memory_regions as u64).saturating_sub(regions), 0),
        )
    }

    /// Whether the tenant of a protection domain may have one more queue pair.
    pub(super) fn check_tenant(&self, pd: ProtectionDomainId) -> Result<(), CreateError> {
        let Some(held) = self.tenants.holdings.get(&self.tenant_of(pd)) else { return Ok(()) };
        within("queue pairs", held.queue_pairs, held.quota.queue_pairs)
    }

    /// A queue pair of a protection domain was made in that slot.
    pub(super) fn note_tenant(&mut self, slot: u32, pd: ProtectionDomainId) {
        let tenant = self.tenant_of(pd);
        if let Some(held) = self.tenants.holdings.get_mut(&tenant) {
            held.queue_pairs += 1;
        }
        self.units.assign(slot, tenant);
    }

    /// The queue pair in that slot is gone.
    pub(super) fn forget_tenant(&mut self, slot: u32) {
        let tenant = self.units.tenant_of(slot);
        if let Some(held) = self.tenants.holdings.get_mut(&tenant) {
            held.queue_pairs = held.queue_pairs.saturating_sub(1);
            self.units.assign(slot, TenantId::DEFAULT);
            self.end_tenant(tenant);
        }
    }

    /// A completion queue is gone.
    pub(super) fn forget_tenant_of_cq(&mut self, number: u32) {
        if let Some(tenant) = self.tenants.completion_queues.remove(&number)
            && let Some(held) = self.tenants.holdings.get_mut(&tenant)
        {
            held.completion_queues = held.completion_queues.saturating_sub(1);
        }
    }
}

impl Holdings {
    fn new(quota: TenantQuota) -> Self {
        let memory = Arc::new(MemoryBudget::new(quota.memory_regions, quota.memory_bytes));
        Self { quota, queue_pairs: 0, completion_queues: 0, memory, ends: false }
    }
}

fn within(what: &'static str, used: u32, quota: Option<u32>) -> Result<(), CreateError> {
    match quota {
        Some(quota) if used >= quota => Err(CreateError::Quota { what, quota }),
        _ => Ok(()),
    }
}

fn check(attr: &TenantAttr) -> Result<(), CreateError> {
    CreateError::check("weight", attr.weight.into(), 1, TENANT_WEIGHT_MAX.into())?;
    let cap = |what, given, min| {
        if given == 0 || given >= min { Ok(()) } else { Err(CreateError::CapTooLow { what, given, min }) }
    };
    for (bytes, operations, caps) in [
        ("tx.bytes_per_s", "tx.operations_per_s", &attr.tx),
        ("rx.bytes_per_s", "rx.operations_per_s", &attr.rx),
    ] {
        cap(bytes, caps.bytes_per_s, TenantCaps::BYTES_MIN)?;
        cap(operations, caps.operations_per_s, TenantCaps::OPERATIONS_MIN)?;
    }
    Ok(())
}
