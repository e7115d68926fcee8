//! Regions that change in place (`ibv_rereg_mr`).

use super::{Bytes, MemoryRegion, ProtectionDomain};
use crate::error::Error;
use datapath::memory::{Access, Backing, ProtectionDomainId};
use std::sync::Arc;

/// Each change ends the region's key and draws a new one: requests that carry the old one fail,
/// ours with `LocProtErr` and the peer's with `RemAccessErr`. It takes the only handle of the
/// region: clones would go on naming the old key.
impl MemoryRegion {
    /// Changes what may be done with it (`IBV_REREG_MR_CHANGE_ACCESS`).
    ///
    /// ```
    /// use verbs_api::{Access, Device};
    ///
    /// # fn main() -> Result<(), verbs_api::Error> {
    /// let device = Device::open("sim:reregister")?;
    /// let mut region = device.alloc_pd().register(4096, Access::LOCAL_WRITE)?;
    /// let old_key = region.rkey();
    /// region.change_access(Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
    /// assert_ne!(region.rkey(), old_key);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::RegionShared`] if there are clones or windows on it, [`Error::Register`]; nothing
    /// has changed then.
    pub fn change_access(&mut self, access: Access) -> Result<(), Error> {
        self.reregister(None, None, Some(access))
    }

    /// Moves it to another domain of its device (`IBV_REREG_MR_CHANGE_PD`).
    ///
    /// # Errors
    /// As [`MemoryRegion::change_access`]; [`Error::OtherDevice`].
    pub fn change_domain(&mut self, domain: &ProtectionDomain) -> Result<(), Error> {
        if !domain.device().is(self.device()) {
            return Err(Error::OtherDevice { what: "protection domain" });
        }
        self.reregister(Some(domain.id()), None, None)
    }

    /// Gives it other memory (`IBV_REREG_MR_CHANGE_TRANSLATION`), and returns that which it had:
    /// the engine does not touch it any more.
    ///
    /// # Errors
    /// As [`MemoryRegion::change_access`].
    pub fn change_backing(&mut self, backing: Arc<dyn Backing>) -> Result<Arc<dyn Backing>, Error> {
        let old = Arc::clone(self.inner.bytes.backing());
        self.reregister(None, Some(backing), None)?;
        Ok(old)
    }

    fn reregister(
        &mut self,
        domain: Option<ProtectionDomainId>,
        backing: Option<Arc<dyn Backing>>,
        access: Option<Access>,
    ) -> Result<(), Error> {
        let region = Arc::get_mut(&mut self.inner).ok_or(Error::RegionShared)?;
        let bytes = backing.map(Bytes::new);
        let memory = bytes.as_ref().map(|bytes| (Arc::clone(bytes.backing()), bytes.addr()));
        let mut nic = region.device.nic_for(|core| core.tenant_of_memory(region.key))?;
        let changed = nic.core_mut().memory_mut().reregister(region.key, domain, memory, access);
        drop(nic);
        region.key = changed.map_err(|error| error.map_or(Error::RegionShared, Error::Register))?;
        if let Some(bytes) = bytes {
            region.bytes = bytes;
        }
        Ok(())
    }
}
