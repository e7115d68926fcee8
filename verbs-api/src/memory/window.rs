//! Memory windows: rights for peers to a part of a region, given and taken back without registering
//! anything.

use super::{MemoryRegion, ProtectionDomain};
use crate::error::Error;
use crate::queue_pair::QueuePair;
use crate::work_request::SendRequest;
use core::ops::RangeBounds;
use datapath::memory::{Access, Binding, MemoryKey, RegisterError, WindowType};
use datapath::queue::{SendData, SendOpcode, Sge};

/// A window on memory (`ibv_mw`); made by [`ProtectionDomain::alloc_window`]. It shows what it was
/// bound to last.
///
/// Regions that it was bound to stay registered for as long as it lives. Dropping it ends it.
pub struct MemoryWindow {
    domain: ProtectionDomain,
    key: u32,
    regions: Vec<MemoryRegion>,
}

impl Drop for MemoryWindow {
    fn drop(&mut self) {
        // Before its regions, which could not be deregistered while it is bound.
        if let Some(mut nic) = self.domain.device().nic() {
            nic.core_mut().memory_mut().deallocate_window(MemoryKey(self.key));
        }
    }
}

impl ProtectionDomain {
    /// A window that shows nothing yet.
    ///
    /// # Errors
    /// [`Error::Register`] if all entries of the device's table are in use.
    pub fn alloc_window(&self, kind: WindowType) -> Result<MemoryWindow, Error> {
        let allocated =
            self.device().nic_of(self.id())?.core_mut().memory_mut().allocate_window(self.id(), kind);
        let key = allocated.map_err(RegisterError::Full)?;
        Ok(MemoryWindow { domain: self.clone(), key: key.0, regions: Vec::new() })
    }
}

impl MemoryWindow {
    /// The present key of this window, for peers. Each binding changes it.
    #[must_use]
    pub const fn rkey(&self) -> u32 {
        self.key
    }

    /// Posts a request to `queue_pair` that lets peers do `access` to the bytes `range` of
    /// `region`: once the request has completed, those of the whole domain (type 1), or the peer of
    /// this queue pair (type 2). The request is signaled. It is carried out when everything posted
    /// before it was sent, and completes when all of that has completed. Returns the new key.
    ///
    /// A region without [`Access::MW_BIND`], a region or a window of another domain than the queue
    /// pair's, rights that make no sense, and a window of type 2 that still shows something end the
    /// queue pair with `MwBindErr`.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::SliceTooLong`], [`Error::OtherDevice`], [`Error::Post`];
    /// nothing was posted then.
    pub fn bind(
        &mut self,
        queue_pair: &mut QueuePair,
        wr_id: u64,
        region: &MemoryRegion,
        range: impl RangeBounds<usize>,
        access: Access,
    ) -> Result<u32, Error> {
        let range = region.slice(range)?;
        if !region.device().is(self.domain.device()) {
            return Err(Error::OtherDevice { what: "memory region" });
        }
        self.check_device(queue_pair)?;
        self.post(queue_pair, wr_id, range, access)?;
        if !self.regions.iter().any(|known| known.lkey() == region.lkey()) {
            self.regions.push(region.clone());
        }
        Ok(self.key)
    }

    /// Posts a request that ends what a window of type 2 shows, once everything posted before has
    /// completed.
    ///
    /// # Errors
    /// [`Error::OtherDevice`], [`Error::Post`]; nothing was posted then.
    pub fn invalidate(&self, queue_pair: &mut QueuePair, wr_id: u64) -> Result<(), Error> {
        self.check_device(queue_pair)?;
        queue_pair.post_send(
            &SendRequest::local(SendOpcode::LocalInv, 0, self.key, SendData::Gather(&[]))
                .id(wr_id)
                .signaled()
                .fenced(),
        )
    }

    /// On another device the same key may be another window's.
    fn check_device(&self, queue_pair: &QueuePair) -> Result<(), Error> {
        let same = queue_pair.device().is(self.domain.device());
        if same { Ok(()) } else { Err(Error::OtherDevice { what: "queue pair" }) }
    }

    fn post(
        &mut self,
        queue_pair: &mut QueuePair,
        wr_id: u64,
        range: Sge,
        access: Access,
    ) -> Result<(), Error> {
        let [low, ..] = self.key.to_le_bytes();
        let new_key = self.key & !0xFF | u32::from(low.wrapping_add(1).max(1));
        let binding = Binding { range, access, new_key };
        let request = SendRequest::local(SendOpcode::BindWindow, self.key, 0, SendData::Bind(&binding));
        queue_pair.post_send(&request.id(wr_id).signaled())?;
        self.key = new_key;
        Ok(())
    }
}
