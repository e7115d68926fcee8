//! The parts that a queue pair of any type is created of.

use super::{Life, Owned};
use crate::completion::{CompletionQueue, CqShared};
use crate::error::Error;
use crate::memory::ProtectionDomain;
use crate::shared_receive::SrqShared;
use crate::trace;
use datapath::engine::{QpConfig, QpHandles};
use datapath::qp::state::QpType;
use datapath::queue::{QueueCaps, RecvQueue, SendQueue};
use std::sync::Arc;

/// `ibv_qp_init_attr`, and the objects that it names.
pub(super) struct Parts {
    pub qp_type: QpType,
    /// True if the queue pair is to have QPN 1.
    pub gsi: bool,
    pub domain: ProtectionDomain,
    pub cqs: [Arc<CqShared>; 2],
    pub srq: Option<Arc<SrqShared>>,
    pub caps: QueueCaps,
    pub window: u16,
}

impl Parts {
    /// The parts of a reliable connection, with default sizes.
    pub fn new(domain: &ProtectionDomain, send_cq: &CompletionQueue, recv_cq: &CompletionQueue) -> Self {
        Self {
            qp_type: QpType::Rc,
            gsi: false,
            domain: domain.clone(),
            cqs: [Arc::clone(send_cq.shared()), Arc::clone(recv_cq.shared())],
            srq: None,
            caps: QueueCaps::default(),
            window: domain.device().window_max(),
        }
    }

    /// The queue pair, in RESET.
    ///
    /// # Errors
    /// [`Error::Create`], [`Error::OtherDevice`].
    pub fn create(self) -> Result<Owned, Error> {
        let (send, recv, life) = self.create_apart()?;
        Ok(Owned { send, device: life.device().clone(), recv, life })
    }

    /// The queue pair, in RESET, and its queues, for who keeps them apart.
    ///
    /// # Errors
    /// As [`Parts::create`].
    pub fn create_apart(self) -> Result<(SendQueue, RecvQueue, Life), Error> {
        let device = self.domain.device();
        if !self.cqs.iter().all(|cq| cq.device.is(device)) {
            return Err(Error::OtherDevice { what: "completion queue" });
        }
        if self.srq.as_ref().is_some_and(|srq| !srq.device.is(device)) {
            return Err(Error::OtherDevice { what: "shared receive queue" });
        }
        let [send_cq, recv_cq] = [self.cqs[0].number, self.cqs[1].number];
        let config = QpConfig {
            qp_type: self.qp_type,
            gsi: self.gsi,
            pd: self.domain.id(),
            send_cq,
            recv_cq,
            srq: self.srq.as_ref().map(|srq| srq.number),
            caps: self.caps,
            window: self.window,
        };
        let QpHandles { qpn, send, recv, .. } = device.nic_of(config.pd)?.core_mut().create_qp(&config)?;
        trace::created(qpn, self.qp_type);
        let device = device.clone();
        Ok((send, recv, Life { device, qpn, caps: self.caps, cqs: self.cqs, srq: self.srq }))
    }
}
