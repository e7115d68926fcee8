//! The connection of a queue pair that was made by address, as the queue pair holds it.

#[cfg(feature = "async")]
use super::service::State;
use super::service::{Awaited, Service};
use crate::device::Device;
#[cfg(feature = "async")]
use crate::wakers::Place;
use core::net::SocketAddr;
use core::task::Waker;
use core::time::Duration;
#[cfg(feature = "async")]
use core::{
    pin::Pin,
    task::{Context, Poll},
};
use rdma_cm::CommId;
use std::sync::Arc;
use std::time::Instant;

/// A connection that a program holds; when this goes, the peer is told.
pub(crate) struct Link {
    pub(super) device: Device,
    pub(super) service: Arc<Service>,
    pub(super) id: CommId,
    pub(super) peer: SocketAddr,
    /// The private data of the peer's program.
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
        self.service.look(|state| state.is_over(self.id))
    }

    /// A handle that tells when the connection is over.
    #[cfg(feature = "async")]
    pub fn end(&self) -> LinkEnd {
        LinkEnd { device: self.device.clone(), service: Arc::clone(&self.service), id: self.id }
    }

    /// Tells the peer that it is over, and waits for its answer, `limit` at most. True if it is
    /// over on both sides, or the link is down: who answered and left may have taken the answer
    /// along, and nobody else is there to give another.
    pub fn disconnect(&self, limit: Duration) -> bool {
        self.service.call(&self.device, |state, now| state.manager.close(now, self.id));
        let end = Instant::now().checked_add(limit);
        let over = self.service.wait(&self.device, end, Awaited::Connection(self.id), |state| {
            let over = state.is_over(self.id);
            (over || !self.device.link_up()).then_some(())
        });
        // Our answer to the peer's leaves at once, if nobody else drives the engine.
        self.device.progress();
        over.is_some()
    }
}

/// Tells whether a connection is over, to those that do not hold the connection. It is over once
/// nobody holds it.
#[cfg(feature = "async")]
#[derive(Clone)]
pub(crate) struct LinkEnd {
    device: Device,
    service: Arc<Service>,
    id: CommId,
}

#[cfg(feature = "async")]
impl LinkEnd {
    /// Returns `true` if the peer has ended the connection, and that took its queue pair to ERR.
    pub fn was_ended_by_peer(&self) -> bool {
        self.service.look(|state| state.was_ended_by_peer(self.id))
    }

    /// Tells the peer that it is over. Wakes tasks.
    pub fn begin_disconnect(&self) {
        self.service.call(&self.device, |state, now| state.manager.close(now, self.id));
    }

    /// Ready when the peer has answered that it is over, or cannot be heard because the link is
    /// down.
    pub fn answered(self) -> Over {
        Over { end: self, needs_link: true, place: Place::new() }
    }

    /// Ready when it is over.
    pub fn over(self) -> Over {
        Over { end: self, needs_link: false, place: Place::new() }
    }
}

/// A connection ends.
#[cfg(feature = "async")]
pub(crate) struct Over {
    end: LinkEnd,
    /// A link that is down ends the wait as well.
    needs_link: bool,
    place: Place,
}

#[cfg(feature = "async")]
impl Future for Over {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { end: LinkEnd { device, service, id }, needs_link, place } = &mut *self;
        let before = service.look(|state| {
            if state.is_over(*id) || *needs_link && !device.link_up() {
                return Err(());
            }
            let wake = if *needs_link { State::wake_for_end } else { State::wake_for };
            Ok(wake(state, *id, place, context.waker()))
        });
        before.map_or(Poll::Ready(()), |_| Poll::Pending)
    }
}

#[cfg(feature = "async")]
impl Drop for Over {
    fn drop(&mut self) {
        drop(self.end.service.look(|state| state.forget(self.end.id, self.place)));
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let waiting = self.service.call(&self.device, |state, now| state.release(now, self.id));
        waiting.into_iter().for_each(Waker::wake);
        // What that has posted leaves at once, if nobody else drives the engine.
        self.device.progress();
    }
}
