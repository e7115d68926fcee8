//! Memory that the caller owns.

use crate::device::Device;
use crate::error::Error;
use crate::memory::ProtectionDomain;
use core::ptr::NonNull;
use datapath::memory::{Access, Backing, MemoryKey, ProtectionDomainId};
use rustix::mm::{Advice, madvise};
use std::io;
use std::sync::Arc;

/// Memory of the caller's that is registered; made by [`ProtectionDomain::register_raw`].
///
/// Dropping it deregisters it, if no memory window is bound to it: call
/// [`deregister`](RawRegion::deregister) to know.
pub struct RawRegion {
    device: Device,
    key: Option<MemoryKey>,
}

/// Bytes whose owner has promised what [`ProtectionDomain::register_raw`] asks for.
struct UserMemory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the bytes are reached by raw pointers only, from whichever thread runs the engine; their
// owner has promised that they stay.
unsafe impl Send for UserMemory {}
// SAFETY: as above.
unsafe impl Sync for UserMemory {}

// SAFETY: both are fields that never change; the owner of the bytes has promised the rest.
unsafe impl Backing for UserMemory {
    fn base(&self) -> NonNull<u8> {
        self.start
    }

    fn len(&self) -> usize {
        self.len
    }
}

impl ProtectionDomain {
    /// Registers `len` bytes at `start`, which the caller owns. Work requests and peers name them
    /// by addresses from `iova` on.
    ///
    /// As a NIC would pin them, all pages are made present now, to be written if `access` has
    /// LOCAL_WRITE, else to be read.
    ///
    /// # Safety
    /// Until the region is deregistered the bytes stay mapped as they are, and no Rust reference to
    /// them exists: peers may read and write them at any time. Bytes that are unmapped before end
    /// the process when the next packet touches them.
    ///
    /// # Errors
    /// [`Error::Inaccessible`] if they are not mapped, may not be accessed like that, or belong to
    /// a device; [`Error::Register`].
    pub unsafe fn register_raw(
        &self,
        start: NonNull<u8>,
        len: usize,
        iova: u64,
        access: Access,
    ) -> Result<RawRegion, Error> {
        populate(start, len, access)?;
        let backing = Arc::new(UserMemory { start, len });
        let mut nic = self.device().nic_of(self.id())?;
        let key = nic.core_mut().memory_mut().register(self.id(), backing, iova, access)?;
        Ok(RawRegion { device: self.device().clone(), key: Some(key) })
    }
}

/// Makes the pages present, as the engine will use them.
fn populate(start: NonNull<u8>, len: usize, access: Access) -> Result<(), Error> {
    let written = access.contains(Access::LOCAL_WRITE);
    let addr = start.as_ptr().addr();
    let inaccessible = |source| Error::Inaccessible { addr: addr as u64, len, written, source };
    if len == 0 {
        return Ok(());
    }
    if addr.checked_add(len).is_none() {
        return Err(inaccessible(io::ErrorKind::InvalidInput.into()));
    }
    let skip = addr % rustix::param::page_size();
    let page = start.as_ptr().wrapping_sub(skip);
    let advice = if written { Advice::LinuxPopulateWrite } else { Advice::LinuxPopulateRead };
    // SAFETY: it changes no byte, whatever lies there.
    let populated = unsafe { madvise(page.cast(), len + skip, advice) };
    populated.map_err(|errno| inaccessible(errno.into()))
}

impl RawRegion {
    /// Key for own work requests.
    #[must_use]
    pub fn lkey(&self) -> u32 {
        self.key.map_or(0, |key| key.0)
    }

    /// Key for peers.
    #[must_use]
    pub fn rkey(&self) -> u32 {
        self.lkey()
    }

    /// Ends the region: when this returns, nobody touches its bytes any more.
    ///
    /// # Errors
    /// [`Error::RegionShared`] while memory windows are bound to it, which stays as it is then.
    pub fn deregister(mut self) -> Result<(), (Self, Error)> {
        if self.end() { Ok(()) } else { Err((self, Error::RegionShared)) }
    }

    /// Changes its domain, its bytes (`start`, `len` and `iova`), and what may be done with it,
    /// each if it is given (`ibv_rereg_mr`). The keys change.
    ///
    /// # Safety
    /// New bytes are to be as [`ProtectionDomain::register_raw`] has it. The old ones the engine
    /// does not touch any more.
    ///
    /// # Errors
    /// [`Error::OtherDevice`], [`Error::RegionShared`], [`Error::Inaccessible`],
    /// [`Error::Register`]; nothing has changed then.
    pub unsafe fn reregister(
        &mut self,
        domain: Option<&ProtectionDomain>,
        bytes: Option<(NonNull<u8>, usize, u64)>,
        access: Option<Access>,
    ) -> Result<(), Error> {
        if domain.is_some_and(|domain| !domain.device().is(&self.device)) {
            return Err(Error::OtherDevice { what: "protection domain" });
        }
        let Some(key) = self.key else { return Err(Error::RegionShared) };
        let memory = bytes.map(|(start, len, iova)| {
            populate(start, len, access.unwrap_or(Access::LOCAL_WRITE))?;
            Ok::<_, Error>((Arc::new(UserMemory { start, len }) as Arc<dyn Backing>, iova))
        });
        let domain: Option<ProtectionDomainId> = domain.map(ProtectionDomain::id);
        let mut nic = self.device.nic_for(|core| core.tenant_of_memory(key))?;
        let changed = nic.core_mut().memory_mut().reregister(key, domain, memory.transpose()?, access);
        self.key = Some(changed.map_err(|error| error.map_or(Error::RegionShared, Error::Register))?);
        Ok(())
    }

    /// Returns `false` if windows keep it registered.
    fn end(&mut self) -> bool {
        let Some(key) = self.key else { return true };
        // A process that was forked has nothing registered.
        let ended = self.device.nic().is_none_or(|mut nic| nic.core_mut().memory_mut().deregister(key));
        if ended {
            self.key = None;
        }
        ended
    }
}

impl Drop for RawRegion {
    fn drop(&mut self) {
        self.end();
    }
}
