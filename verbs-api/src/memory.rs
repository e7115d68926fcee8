//! Protection domains and memory regions.

mod bytes;
mod file;
mod huge;
mod remote;
mod reregister;
#[cfg(test)]
mod tests;
mod window;
mod words;

pub(crate) use bytes::Bytes;
pub use file::FileBacking;
pub use huge::{HugeBacking, HugepagePolicy};
pub use remote::{RemoteRegion, RemoteRegionError};
pub use window::MemoryWindow;

use crate::completion::CompletionQueue;
use crate::device::Device;
use crate::error::Error;
use crate::queue_pair::{QueuePairBuilder, UdQueuePairBuilder};
use crate::shared_receive::SharedReceiveQueue;
use crate::tenant::Tenant;
use bytes::{bounds, check};
use core::ops::RangeBounds;
use datapath::memory::{Access, Backing, HeapBacking, MemoryKey, ProtectionDomainId, RegisterError};
use datapath::queue::{Sge, SrqCaps};
use std::sync::Arc;

/// Regions and queue pairs of different protection domains never meet.
#[derive(Clone)]
pub struct ProtectionDomain {
    device: Device,
    id: ProtectionDomainId,
    /// Lives as long as this does; `None`: the default one.
    _tenant: Option<Tenant>,
}

impl ProtectionDomain {
    pub(crate) const fn new(device: Device, id: ProtectionDomainId) -> Self {
        Self { device, id, _tenant: None }
    }

    pub(crate) const fn of_tenant(device: Device, id: ProtectionDomainId, tenant: Tenant) -> Self {
        Self { device, id, _tenant: Some(tenant) }
    }

    pub(crate) const fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) const fn id(&self) -> ProtectionDomainId {
        self.id
    }

    /// Registers `len` zeroed bytes of the heap, 64-byte aligned.
    ///
    /// # Errors
    /// [`Error::Register`].
    pub fn register(&self, len: usize, access: Access) -> Result<MemoryRegion, Error> {
        let bytes = HeapBacking::try_new(len).ok_or(RegisterError::OutOfMemory { len })?;
        self.register_backing(Arc::new(bytes), access)
    }

    /// Registers `len` zeroed bytes in hugepages: large buffers move about a tenth faster in them.
    ///
    /// # Errors
    /// [`Error::Hugepages`] if the policy requires them and there are none; [`Error::Register`].
    pub fn register_huge(
        &self,
        len: usize,
        policy: HugepagePolicy,
        access: Access,
    ) -> Result<MemoryRegion, Error> {
        self.register_backing(Arc::new(HugeBacking::new(len, policy)?), access)
    }

    /// Registers a mapped file.
    ///
    /// # Errors
    /// [`Error::Register`].
    pub fn register_file(&self, file: FileBacking, access: Access) -> Result<MemoryRegion, Error> {
        self.register_backing(Arc::new(file), access)
    }

    /// Registers memory of the caller's own kind. Its address for work requests and peers is where
    /// it is.
    ///
    /// # Errors
    /// [`Error::Register`].
    pub fn register_backing(&self, backing: Arc<dyn Backing>, access: Access) -> Result<MemoryRegion, Error> {
        let bytes = Bytes::new(backing);
        let backing = Arc::clone(bytes.backing());
        let mut nic = self.device.nic_of(self.id)?;
        let key = nic.core_mut().memory_mut().register(self.id, backing, bytes.addr(), access)?;
        Ok(MemoryRegion { inner: Arc::new(Registered { device: self.device.clone(), key, bytes }) })
    }

    /// A shared receive queue, whose receives name memory of this domain.
    ///
    /// # Errors
    /// [`Error::Create`].
    pub fn create_srq(&self, caps: SrqCaps) -> Result<SharedReceiveQueue, Error> {
        let (number, ring) = self.device.nic_of(self.id)?.core_mut().create_srq(self.id, caps)?;
        Ok(SharedReceiveQueue::new(self.device.clone(), number, ring))
    }

    /// Begins a reliable connection whose sends and receives complete on these queues.
    pub fn queue_pair(&self, send_cq: &CompletionQueue, recv_cq: &CompletionQueue) -> QueuePairBuilder {
        QueuePairBuilder::new(self, send_cq, recv_cq)
    }

    /// Begins an unreliable datagram queue pair whose sends and receives complete on these queues.
    pub fn ud_queue_pair(&self, send_cq: &CompletionQueue, recv_cq: &CompletionQueue) -> UdQueuePairBuilder {
        UdQueuePairBuilder::new(self, send_cq, recv_cq)
    }
}

/// Registered memory.
///
/// It is never lent as a slice ([`as_ptr`](Self::as_ptr) is for those who know better), and after
/// deregistration there is nothing left to use:
///
/// ```compile_fail,E0382
/// # use verbs_api::{Error, MemoryRegion, Sge};
/// fn after(region: MemoryRegion) -> Result<Sge, Error> {
///     drop(region);
///     region.slice(..)
/// }
/// ```
///
/// Inline data are copied by the post. Bytes that a request could outlive are not accepted:
///
/// ```compile_fail,E0597
/// # use verbs_api::{SendData, SendRequest};
/// fn dangling() -> SendRequest<'static> {
///     let buffer = vec![0; 64];
///     SendRequest::send(SendData::Inline(&buffer))
/// }
/// ```
///
/// Clones name the same region; dropping the last one deregisters it, and work requests of ours or
/// of peers that still name it then fail with a protection error.
///
/// Peers with its rkey may write to it at any time, so all access is by copies or atomic loads
/// (docs/adr/0009). A copy that meets a write sees some bytes old and some new; wait for a
/// completion first, or poll a word that was written last.
#[derive(Clone)]
pub struct MemoryRegion {
    inner: Arc<Registered>,
}

struct Registered {
    device: Device,
    key: MemoryKey,
    bytes: Bytes,
}

impl Drop for Registered {
    fn drop(&mut self) {
        if let Some(mut nic) = self.device.nic() {
            nic.core_mut().memory_mut().deregister(self.key);
        }
    }
}

impl MemoryRegion {
    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.bytes.len()
    }

    /// True if there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Address of its first byte, as work requests and peers name it.
    #[must_use]
    pub fn addr(&self) -> u64 {
        self.inner.bytes.addr()
    }

    /// Where its first byte is, for a program that reads or writes in place. The bytes are there as
    /// long as a clone of the region.
    ///
    /// Who follows the pointer makes sure that nobody else has the bytes meanwhile: that no peer
    /// may reach them by a key of the region or of a window, and that no work request which has not
    /// completed names them. Otherwise copy them ([`read`](Self::read), [`write`](Self::write)).
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.inner.bytes.as_ptr()
    }

    /// Key for our own work requests.
    #[must_use]
    pub fn lkey(&self) -> u32 {
        self.inner.key.0
    }

    /// Key for peers.
    #[must_use]
    pub fn rkey(&self) -> u32 {
        self.inner.key.0
    }

    /// The device that it is registered with.
    pub(crate) fn device(&self) -> &Device {
        &self.inner.device
    }

    /// The description of this region that a peer needs to access it.
    #[must_use]
    pub fn remote(&self) -> RemoteRegion {
        RemoteRegion { addr: self.addr(), len: self.len() as u64, rkey: self.rkey() }
    }

    /// A scatter-gather element: a range of bytes, by offset.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::SliceTooLong`].
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Sge, Error> {
        let (start, end) = bounds(range, self.len());
        let len = check(start, end, self.len())?;
        let length = u32::try_from(len).map_err(|_| Error::SliceTooLong { len: len as u64 })?;
        Ok(Sge { addr: self.addr() + start as u64, length, lkey: self.lkey() })
    }

    /// Copies bytes from `offset` on into `target`.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]; nothing was copied then.
    pub fn read(&self, offset: usize, target: &mut [u8]) -> Result<(), Error> {
        self.inner.bytes.read(offset, target)
    }

    /// Copies `source` to the bytes from `offset` on.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]; nothing was copied then.
    pub fn write(&self, offset: usize, source: &[u8]) -> Result<(), Error> {
        self.inner.bytes.write(offset, source)
    }
}
