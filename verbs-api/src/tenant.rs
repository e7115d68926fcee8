//! Tenants: shares of a device for those that use it together.

use crate::completion::{CompletionChannel, CompletionQueue};
use crate::device::Device;
use crate::error::Error;
use crate::memory::ProtectionDomain;
use datapath::engine::{CreateError, TenantReport};
use datapath::sched::{TenantAttr, TenantId};
use std::sync::Arc;

/// A tenant of a device: a share of it by weight and class, caps and quotas (docs/tenants.md).
///
/// Queue pairs and memory regions belong to the tenant of their protection domain, completion
/// queues to the tenant that made them. What was made of the [`Device`] itself belongs to the
/// default tenant, which has weight 1 and no caps unless [`Device::set_default_tenant`] says
/// otherwise.
///
/// Clones name the same tenant. It ends when the last of them, its last protection domain and its
/// last queue pair are gone.
///
/// ```
/// use verbs_api::{Device, TenantAttr, TenantClass, TenantQuota};
///
/// # fn main() -> Result<(), verbs_api::Error> {
/// let device = Device::open("sim:tenants")?;
/// let quota = TenantQuota { queue_pairs: Some(1), ..TenantQuota::default() };
/// let tenant = device.create_tenant(TenantAttr {
///     weight: 3,
///     class: TenantClass::Latency,
///     quota,
///     ..TenantAttr::default()
/// })?;
/// let (pd, cq) = (tenant.alloc_pd()?, tenant.create_cq(16)?);
/// let first = pd.queue_pair(&cq, &cq).build()?;
/// let second = pd.queue_pair(&cq, &cq).build();
/// assert!(second.is_err_and(|error| error.to_string().contains("quota of 1 queue pairs")));
/// assert_eq!(tenant.report()?.queue_pairs, 1);
/// # drop(first);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Tenant {
    inner: Arc<Inner>,
}

struct Inner {
    device: Device,
    id: TenantId,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(mut nic) = self.device.nic() {
            nic.core_mut().destroy_tenant(self.id);
        }
    }
}

impl Tenant {
    /// Its number, as [`Device::tenants`] and metrics name it.
    #[must_use]
    pub fn id(&self) -> TenantId {
        self.inner.id
    }

    /// A new protection domain of this tenant.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn alloc_pd(&self) -> Result<ProtectionDomain, Error> {
        let Inner { device, id } = &*self.inner;
        let pd = device.own_nic()?.core_mut().allocate_pd_of(*id)?;
        Ok(ProtectionDomain::of_tenant(device.clone(), pd, self.clone()))
    }

    /// As [`Device::create_cq`], of this tenant.
    ///
    /// # Errors
    /// [`Error::Create`], also if the tenant's quota is used up.
    pub fn create_cq(&self, entries: u32) -> Result<CompletionQueue, Error> {
        let Inner { device, id } = &*self.inner;
        device.create_cq_of(*id, None, entries)
    }

    /// As [`Device::create_cq_on`], of this tenant.
    ///
    /// # Errors
    /// [`Error::Create`], also if the tenant's quota is used up; [`Error::OtherDevice`].
    pub fn create_cq_on(&self, channel: &CompletionChannel, entries: u32) -> Result<CompletionQueue, Error> {
        let Inner { device, id } = &*self.inner;
        device.create_cq_of(*id, Some(channel), entries)
    }

    /// Gives it other attributes: weight and class count from its next round on, caps at once, and
    /// quotas for what is made from now on.
    ///
    /// # Errors
    /// [`Error::Create`] if one is out of range; nothing has changed then.
    pub fn set(&self, attr: TenantAttr) -> Result<(), Error> {
        Ok(self.inner.device.own_nic()?.core_mut().modify_tenant(self.inner.id, attr)?)
    }

    /// What it may do, did, and has.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn report(&self) -> Result<TenantReport, Error> {
        let reports = self.inner.device.own_nic()?.core().tenants();
        let unknown = CreateError::UnknownTenant(self.inner.id.0);
        Ok(reports.into_iter().find(|report| report.id == self.inner.id).ok_or(unknown)?)
    }
}

impl Device {
    /// A new tenant of this device (docs/tenants.md). From the first one on the engine shares its
    /// turns among tenants; without any, tenants cost nothing.
    ///
    /// # Errors
    /// [`Error::Create`] if an attribute is out of range, if there are
    /// [`TENANTS_MAX`](datapath::sched::TENANTS_MAX), or if the device has another scheduler than
    /// round robin.
    pub fn create_tenant(&self, attr: TenantAttr) -> Result<Tenant, Error> {
        let id = self.own_nic()?.core_mut().create_tenant(attr)?;
        Ok(Tenant { inner: Arc::new(Inner { device: self.clone(), id }) })
    }

    /// Gives the default tenant other attributes: that of everything that was made of the device
    /// itself. It has no quotas, and another tenant must have been created first.
    ///
    /// # Errors
    /// [`Error::Create`] if an attribute is out of range, with [`CreateError::DefaultQuota`] if
    /// there is a quota, and with [`CreateError::NoTenants`] if no tenant was ever created.
    pub fn set_default_tenant(&self, attr: TenantAttr) -> Result<(), Error> {
        Ok(self.own_nic()?.core_mut().modify_tenant(TenantId::DEFAULT, attr)?)
    }

    /// Every tenant, the default one first; none if none was ever created.
    #[must_use]
    pub fn tenants(&self) -> Vec<TenantReport> {
        self.nic().map(|nic| nic.core().tenants()).unwrap_or_default()
    }
}
