//! What a queue pair knows of the connection manager that connected it.

use super::service::{Phase, Service};
use crate::device::Device;
use core::net::SocketAddr;
use core::time::Duration;
use rdma_cm::CommId;
use std::sync::Arc;
use std::time::Instant;

/// A connection that a program holds; when this goes, the peer is told.
pub(crate) struct Link {
    pub(super) device: Device,
    pub(super) service: Arc<Service>,
    pub(super) id: CommId,
    pub(super) peer: SocketAddr,
    /// What the peer's program said.
    pub(super) private_data: Vec<u8>,
}

impl Link {
    pub const fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    /// Asks a peer that is not there for so long, at least.
    pub(super) fn persist(&self, patience: Duration) {
        self.service.look(|state| {
            let until = super::service::now(self.device.shared()).saturating_add(patience);
            state.manager.persist(self.id, until);
        });
    }

    pub fn is_over(&self) -> bool {
        self.service
            .look(|state| matches!(state.phase(self.id), Some(Phase::Disconnected | Phase::Failed(_))))
    }

    /// Tells the peer that it is over, and waits for its answer, `limit` at most. True if it is over on both sides, or the link
    /// is down: who answered and left may have taken the answer along, and nobody else is there to give another.
    pub fn disconnect(&self, limit: Duration) -> bool {
        self.service.call(&self.device, |state, now| state.manager.close(now, self.id));
        let end = Instant::now().checked_add(limit);
        let over = self.service.wait(&self.device, end, |state| {
            let over = matches!(state.phase(self.id), Some(Phase::Disconnected | Phase::Failed(_)));
            (over || !self.device.link_up()).then_some(())
        });
        // Our answer to the peer's leaves at once, if nobody else drives the engine.
        self.device.progress();
        over.is_some()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        drop(self.service.call(&self.device, |state, now| state.release(now, self.id)));
        // What that has posted leaves at once, if nobody else drives the engine.
        self.device.progress();
    }
}
