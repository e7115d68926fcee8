//! Tenants of an engine, and what belongs to them.

use crate::engine::{Core, CreateError};
use crate::memory::ProtectionDomainId;
use crate::sched::{TENANT_WEIGHT_MAX, TENANTS_MAX, TenantAttr, TenantCaps, TenantCounters, TenantId};
use std::collections::HashMap;

/// What belongs to tenants other than the default one.
#[derive(Default)]
pub(in crate::engine) struct TenantTable {
    domains: HashMap<ProtectionDomainId, TenantId>,
    /// Queue pairs, by the number of the tenant.
    queue_pairs: HashMap<TenantId, usize>,
}

/// A tenant as it is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TenantReport {
    /// Its number.
    pub id: TenantId,
    /// What it may do.
    pub attr: TenantAttr,
    /// What it did.
    pub counters: TenantCounters,
    /// Queue pairs that it has.
    pub queue_pairs: usize,
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
        tenants.create(attr).ok_or(exhausted)
    }

    /// Gives a tenant other attributes. Its weight and class count from its next round on, caps at
    /// once.
    ///
    /// # Errors
    /// [`CreateError`] if it does not exist, or an attribute is out of range; nothing has changed
    /// then.
    pub fn modify_tenant(&mut self, tenant: TenantId, attr: TenantAttr) -> Result<(), CreateError> {
        check(&attr)?;
        let known = self.units.mux.tenants_mut().is_some_and(|tenants| tenants.set(tenant, attr));
        if known { Ok(()) } else { Err(CreateError::UnknownTenant(tenant.0)) }
    }

    /// Destroys a tenant. Its protection domains belong to [`TenantId::DEFAULT`] from now on. False
    /// if it does not exist, is the default one, or has a queue pair.
    pub fn destroy_tenant(&mut self, tenant: TenantId) -> bool {
        let Some(tenants) = self.units.mux.tenants_mut() else { return false };
        if tenant == TenantId::DEFAULT || !tenants.has(tenant) || self.tenants.queue_pairs_of(tenant) > 0 {
            return false;
        }
        tenants.destroy(tenant);
        self.tenants.domains.retain(|_, owner| *owner != tenant);
        true
    }

    /// A new protection domain of a tenant.
    ///
    /// # Errors
    /// [`CreateError::UnknownTenant`].
    pub fn allocate_pd_of(&mut self, tenant: TenantId) -> Result<ProtectionDomainId, CreateError> {
        let exists = self.units.mux.tenants().is_some_and(|tenants| tenants.has(tenant));
        if !exists && tenant != TenantId::DEFAULT {
            return Err(CreateError::UnknownTenant(tenant.0));
        }
        let pd = self.allocate_pd();
        if tenant != TenantId::DEFAULT {
            self.tenants.domains.insert(pd, tenant);
        }
        Ok(pd)
    }

    /// The tenant that a protection domain belongs to.
    #[must_use]
    pub fn tenant_of(&self, pd: ProtectionDomainId) -> TenantId {
        self.tenants.domains.get(&pd).copied().unwrap_or_default()
    }

    /// Every tenant, the default one first; none if none was ever created.
    #[must_use]
    pub fn tenants(&self) -> Vec<TenantReport> {
        let Some(tenants) = self.units.mux.tenants() else { return Vec::new() };
        let others: usize = self.tenants.queue_pairs.values().sum();
        let queue_pairs = |id| match id {
            TenantId::DEFAULT => self.qps.len() - others,
            _ => self.tenants.queue_pairs_of(id),
        };
        let report = |id| {
            let (attr, counters) = tenants.get(id)?;
            Some(TenantReport { id, attr: *attr, counters: *counters, queue_pairs: queue_pairs(id) })
        };
        tenants.ids().filter_map(report).collect()
    }

    /// A queue pair of a protection domain was made in that slot.
    pub(super) fn note_tenant(&mut self, slot: u32, pd: ProtectionDomainId) {
        let tenant = self.tenant_of(pd);
        if tenant != TenantId::DEFAULT {
            *self.tenants.queue_pairs.entry(tenant).or_default() += 1;
        }
        self.units.assign(slot, tenant);
    }

    /// The queue pair in that slot is gone.
    pub(super) fn forget_tenant(&mut self, slot: u32) {
        if let Some(count) = self.tenants.queue_pairs.get_mut(&self.units.tenant_of(slot)) {
            *count = count.saturating_sub(1);
        }
    }
}

impl TenantTable {
    fn queue_pairs_of(&self, tenant: TenantId) -> usize {
        self.queue_pairs.get(&tenant).copied().unwrap_or_default()
    }
}

fn check(attr: &TenantAttr) -> Result<(), CreateError> {
    CreateError::check("weight", attr.weight.into(), 1, TENANT_WEIGHT_MAX.into())?;
    let cap = |what, given, min| {
        if given == 0 || given >= min { Ok(()) } else { Err(CreateError::CapTooLow { what, given, min }) }
    };
    cap("bytes_per_s", attr.tx.bytes_per_s, TenantCaps::BYTES_MIN)?;
    cap("operations_per_s", attr.tx.operations_per_s, TenantCaps::OPERATIONS_MIN)
}
