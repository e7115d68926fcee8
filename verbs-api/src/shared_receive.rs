//! Shared receive queues: receives that many queue pairs share.

use crate::device::Device;
use crate::error::Error;
use datapath::engine::SrqAttr;
use datapath::queue::{RecvRequest, SharedRecvQueue};
use std::sync::Arc;

/// A shared receive queue (`ibv_create_srq`): queue pairs take from it the receives that their
/// peers' messages need. It is made by
/// [`ProtectionDomain::create_srq`](crate::ProtectionDomain::create_srq), and used by
/// [`QueuePairBuilder::srq`](crate::QueuePairBuilder::srq).
///
/// A receive completes at the queue pair that took it, with that queue pair's number. What a queue
/// pair took and did not fill completes with `WrFlushErr` when it fails or is dropped. The queue
/// lives as long as this or a queue pair that uses it.
pub struct SharedReceiveQueue {
    ring: SharedRecvQueue,
    shared: Arc<SrqShared>,
}

/// The engine's side of a shared receive queue.
pub(crate) struct SrqShared {
    pub device: Device,
    pub number: u32,
}

impl Drop for SrqShared {
    fn drop(&mut self) {
        if let Some(mut nic) = self.device.nic() {
            nic.core_mut().destroy_srq(self.number);
        }
    }
}

impl SharedReceiveQueue {
    pub(crate) fn new(device: Device, number: u32, ring: SharedRecvQueue) -> Self {
        Self { ring, shared: Arc::new(SrqShared { device, number }) }
    }

    pub(crate) const fn shared(&self) -> &Arc<SrqShared> {
        &self.shared
    }

    /// Posts a receive request, for one SEND, or one WRITE with immediate, of any queue pair's
    /// peer.
    ///
    /// # Errors
    /// [`Error::Post`]; nothing was posted then. A full queue has room again when a receive has
    /// completed.
    pub fn post_recv(&mut self, request: &RecvRequest<'_>) -> Result<(), Error> {
        self.shared.device.check_process()?;
        self.shared.device.settle();
        Ok(self.ring.post(request)?)
    }

    /// Asks for [`AsyncEvent::SrqLimit`](crate::AsyncEvent::SrqLimit), once, as soon as fewer than
    /// `limit` receives are left, at once if that is so already; 0 asks for none.
    ///
    /// # Errors
    /// [`Error::Connect`] if `limit` is more than the receives that it has room for.
    pub fn arm_limit(&self, limit: u32) -> Result<(), Error> {
        Ok(self.shared.device.own_nic()?.core_mut().arm_srq_limit(self.shared.number, limit)?)
    }

    /// The sizes of this queue, its limit, and the receives that are left.
    #[must_use]
    pub fn query(&self) -> SrqAttr {
        let queried = self.shared.device.nic().and_then(|nic| nic.core().query_srq(self.shared.number));
        // It exists as long as `shared` does, but in a process that was forked.
        queried.unwrap_or_else(|| SrqAttr { caps: self.ring.caps(), limit: 0, available: 0 })
    }

    /// The number of this queue, as [`AsyncEvent::SrqLimit`](crate::AsyncEvent::SrqLimit) names it.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.shared.number
    }
}
