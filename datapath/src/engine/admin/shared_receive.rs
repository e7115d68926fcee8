//! Shared receive queues: creating, arming the limit, inspecting and destroying them.

use crate::engine::{AsyncEvent, Core, CreateError, ModifyError};
use crate::memory::ProtectionDomainId;
use crate::qp::Srq;
use crate::queue::{QueueCaps, SharedRecvQueue, SrqCaps, shared_recv_queue};

/// What a shared receive queue is and holds (`ibv_query_srq`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SrqAttr {
    /// Its sizes.
    pub caps: SrqCaps,
    /// The limit, if the event is armed; else 0.
    pub limit: u32,
    /// Receives that are posted and that no message has taken.
    pub available: u32,
}

impl Core {
    /// Creates a shared receive queue. Returns its number and the application's end. Its receives
    /// name memory of `pd`, whatever the domain of the queue pair that takes them.
    ///
    /// # Errors
    /// [`CreateError`] if there are too many, or a size is out of range.
    pub fn create_srq(
        &mut self,
        pd: ProtectionDomainId,
        caps: SrqCaps,
    ) -> Result<(u32, SharedRecvQueue), CreateError> {
        CreateError::check("max_wr", caps.max_wr, 1, SrqCaps::WR_LIMIT)?;
        CreateError::check("max_sge", caps.max_sge, 1, QueueCaps::SGE_LIMIT)?;
        let capacity = self.config.max_srqs;
        let exhausted = CreateError::Exhausted { what: "shared receive queues", capacity };
        let number = self.units.srqs.free_number(capacity).ok_or(exhausted)?;
        let (writer, reader) = shared_recv_queue(&caps);
        self.units.srqs.insert(number, Srq::new(reader, pd, caps));
        Ok((number, writer))
    }

    /// Arms the limit event of a shared receive queue: [`AsyncEvent::SrqLimit`] comes once, as soon
    /// as fewer than `limit` receives are left, at once if that is so already. 0 disarms it.
    ///
    /// # Errors
    /// [`ModifyError::UnknownSrq`], [`ModifyError::SrqLimit`].
    pub fn arm_srq_limit(&mut self, number: u32, limit: u32) -> Result<(), ModifyError> {
        let srq = self.units.srqs.get_mut(number).ok_or(ModifyError::UnknownSrq(number))?;
        let max_wr = srq.caps.max_wr;
        if limit > max_wr {
            return Err(ModifyError::SrqLimit { given: limit, max_wr });
        }
        srq.limit = limit;
        if srq.is_below_limit() {
            self.units.events.push(AsyncEvent::SrqLimit { srq: number });
        }
        Ok(())
    }

    /// What a shared receive queue is and holds.
    #[must_use]
    pub fn query_srq(&self, number: u32) -> Option<SrqAttr> {
        let srq = self.units.srqs.get(number)?;
        Some(SrqAttr { caps: srq.caps, limit: srq.limit, available: srq.available() })
    }

    /// Destroys a shared receive queue; the receives that are left in it end without completions.
    /// False if it does not exist or a queue pair still uses it.
    pub fn destroy_srq(&mut self, number: u32) -> bool {
        !self.srq_users.has(number) && self.units.srqs.remove(number)
    }
}
