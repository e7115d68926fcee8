//! The passive side.

use super::connecting::Connecting;
use super::error::{ConnectionError, without_padding};
use super::link::Link;
use super::service::{Awaited, Service, State};
use crate::device::Device;
use crate::error::Error;
use crate::queue_pair::PreparedQueuePair;
use crate::trace;
#[cfg(feature = "async")]
use crate::wakers::Place;
use core::net::SocketAddr;
use core::time::Duration;
#[cfg(feature = "async")]
use core::{
    pin::Pin,
    task::{Context, Poll},
};
use rdma_cm::{CmError, CommId, Dialect};
use std::sync::Arc;
use std::time::Instant;
use wire::cm::RejReason;

/// Ports of which a listener takes one that says that any will do: the dynamic ones (RFC 6335).
const ANY_PORT: core::ops::RangeInclusive<u16> = 49_152..=u16::MAX;

/// A port of a device's address that peers connect to (`rdma_listen`).
///
/// Dropping it rejects who waits; connections that were accepted stay.
pub struct Listener {
    device: Device,
    service: Arc<Service>,
    port: u16,
}

impl Listener {
    /// Requests that wait for the program, unless told otherwise.
    pub const BACKLOG: usize = 128;

    /// Listens to a port of the device's address, 0: to one that nobody listens to
    /// ([`local_addr`](Self::local_addr) says which), with room for [`Listener::BACKLOG`] requests.
    ///
    /// # Errors
    /// [`Error::Connection`] if somebody listens to it, [`Error::Create`] if the device's queue
    /// pair 1 is in use.
    pub fn bind(device: &Device, port: u16) -> Result<Self, Error> {
        Self::with_backlog(device, port, Self::BACKLOG)
    }

    /// Listens at `port`, with room for `backlog` requests that wait for the program. Requests
    /// beyond those are dropped, and their senders repeat them.
    ///
    /// # Errors
    /// As [`Listener::bind`].
    pub fn with_backlog(device: &Device, port: u16, backlog: usize) -> Result<Self, Error> {
        let service = device.connections()?;
        let bound = service.call(device, |state, _| {
            let port = if port == 0 {
                let mut free = ANY_PORT.filter(|port| state.manager.listen(*port, backlog).is_ok());
                free.next().ok_or(CmError::PortInUse(0))?
            } else {
                state.manager.listen(port, backlog)?;
                port
            };
            state.open_port(port);
            Ok::<_, CmError>(port)
        });
        let port = bound.map_err(ConnectionError::from)?;
        Ok(Self { device: device.clone(), service, port })
    }

    /// The address that peers connect to.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        SocketAddr::new(self.device.ip(), self.port)
    }

    /// The oldest request that waits, if there is one; never waits. Runs a turn of the engine.
    pub fn poll(&self) -> Option<ConnectionRequest> {
        self.device.progress();
        self.service.look(|state| self.take(state))
    }

    /// Waits for a request (`rdma_get_request`), `limit` at most.
    ///
    /// # Errors
    /// [`ConnectionError::Deadline`]; [`ConnectionError::Late`] if there is no link.
    pub fn get_request(&self, limit: Duration) -> Result<ConnectionRequest, Error> {
        self.device.check_process()?;
        let end = Instant::now().checked_add(limit);
        let request =
            self.service.wait(&self.device, end, Awaited::Port(self.port), |state| self.take(state));
        Ok(request.ok_or_else(|| ConnectionError::late(limit, &self.device))?)
    }

    /// Waits for the next request as a future, on a device with a thread of its own.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a device that nobody drives while tasks wait.
    #[cfg(feature = "async")]
    pub async fn request(&self) -> Result<ConnectionRequest, Error> {
        self.device.needs_thread()?;
        Ok(NextRequest { listener: self, place: Place::new() }.await)
    }

    fn take(&self, state: &mut State) -> Option<ConnectionRequest> {
        loop {
            let id = state.next_request(self.port)?;
            // The peer may have taken it back.
            let Some(request) = state.manager.request(id) else { continue };
            return Some(ConnectionRequest {
                peer: request.peer,
                speaks_srnic: request.offer.is_some(),
                private_data: without_padding(&request.private_data),
                answer: Some(Answer { device: self.device.clone(), service: Arc::clone(&self.service), id }),
                reply: Vec::new(),
                dialect: None,
            });
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        drop(self.service.call(&self.device, |state, now| state.close_port(now, self.port)));
        self.device.progress();
    }
}

/// The next request of a listener comes.
#[cfg(feature = "async")]
struct NextRequest<'a> {
    listener: &'a Listener,
    place: Place,
}

#[cfg(feature = "async")]
impl Future for NextRequest<'_> {
    type Output = ConnectionRequest;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { listener, place } = &mut *self;
        // The waker before goes without the lock.
        let (request, _before) = listener.service.look(|state| match listener.take(state) {
            None => (None, state.wake_for_request(listener.port, place, context.waker())),
            request => (request, None),
        });
        request.map_or(Poll::Pending, Poll::Ready)
    }
}

#[cfg(feature = "async")]
impl Drop for NextRequest<'_> {
    fn drop(&mut self) {
        let Listener { service, port, .. } = self.listener;
        drop(service.look(|state| state.forget_request(*port, self.place)));
    }
}

/// Whom a request's answer goes through.
struct Answer {
    device: Device,
    service: Arc<Service>,
    id: CommId,
}

/// A peer's wish to connect (`RDMA_CM_EVENT_CONNECT_REQUEST`): accept or reject it. Dropping it
/// rejects it.
#[must_use = "dropping it rejects the request"]
pub struct ConnectionRequest {
    peer: SocketAddr,
    speaks_srnic: bool,
    private_data: Vec<u8>,
    /// `None` once it is answered.
    answer: Option<Answer>,
    reply: Vec<u8>,
    dialect: Option<Dialect>,
}

impl ConnectionRequest {
    /// The address of the peer that wants to connect, and the port that it says it has.
    #[must_use]
    pub const fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The private data of the peer's program, without zeros at its end.
    #[must_use]
    pub fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    /// Returns `true` if the peer offers to speak the SRNIC dialect.
    #[must_use]
    pub const fn speaks_srnic(&self) -> bool {
        self.speaks_srnic
    }

    /// Sets the private data that the peer's program gets if this request is accepted, at most 196
    /// bytes. The peer does not see zeros at its end.
    pub fn with_private_data(mut self, data: &[u8]) -> Self {
        self.reply = data.to_vec();
        self
    }

    /// Sets whether to speak the SRNIC dialect: default [`Dialect::Prefer`], or [`Dialect::Off`]
    /// with a queue pair that was built for [`WireMode::Plain`](crate::WireMode::Plain).
    pub const fn with_dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = Some(dialect);
        self
    }

    /// Accepts it (`rdma_accept`): the queue pair is ready at once, and the peer is told. The
    /// connection is there when the peer has said that it is ready, too.
    ///
    /// # Errors
    /// [`Error::Connection`], also if the two ends do not go together: the peer is told so;
    /// [`Error::Connect`], [`Error::OtherDevice`]. The queue pair is gone then.
    pub fn accept(mut self, pair: PreparedQueuePair) -> Result<Connecting, Error> {
        let Some(answer) = self.answer.take() else { return Err(ConnectionError::Withdrawn.into()) };
        let accepted = self.grant(&answer, pair);
        if let Err(error) = &accepted {
            // Fails if the peer has taken it back.
            let _ = answer.reject(reason_of(error), &[]);
        }
        accepted
    }

    fn grant(&self, answer: &Answer, pair: PreparedQueuePair) -> Result<Connecting, Error> {
        let Answer { device, service, id } = answer;
        if !pair.device().is(device) {
            return Err(Error::OtherDevice { what: "queue pair" });
        }
        let terms = pair.terms(self.dialect)?;
        let agreed = service.agree(device, *id, &terms).map_err(refused)?;
        let pair = pair.connect_as(&agreed, self.peer.ip())?;
        let accepted = service.call(device, |state, now| {
            state.manager.accept(now, *id, &terms, &self.reply)?;
            state.hold(*id, Some(pair.qpn()));
            Ok(())
        });
        accepted.map_err(refused)?;
        trace::accepted(*id, pair.qpn(), self.peer);
        device.progress();
        let link = Link {
            device: device.clone(),
            service: Arc::clone(service),
            id: *id,
            peer: self.peer,
            private_data: self.private_data.clone(),
        };
        Ok(Connecting::passive(pair, link))
    }

    /// Rejects it (`rdma_reject`), with at most 148 bytes for the peer's program.
    ///
    /// # Errors
    /// [`Error::Connection`] if that is too much; it is rejected all the same. If the peer has
    /// taken its request back, this does nothing.
    pub fn reject(mut self, private_data: &[u8]) -> Result<(), Error> {
        let Some(answer) = self.answer.take() else { return Ok(()) };
        match answer.reject(RejReason::CONSUMER, private_data) {
            Ok(()) | Err(CmError::State) => Ok(()),
            Err(error) => {
                // Without words then.
                let _ = answer.reject(RejReason::CONSUMER, &[]);
                Err(ConnectionError::from(error).into())
            }
        }
    }
}

impl Drop for ConnectionRequest {
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            // Fails if the peer has taken it back.
            let _ = answer.reject(RejReason::CONSUMER, &[]);
        }
    }
}

impl Answer {
    fn reject(&self, reason: RejReason, private_data: &[u8]) -> Result<(), CmError> {
        let Self { device, service, id } = self;
        let rejected =
            service.call(device, |state, now| state.manager.reject(now, *id, reason, private_data));
        device.progress();
        rejected
    }
}

/// Why the manager did not take what the program asked for.
fn refused(error: CmError) -> Error {
    Error::Connection(match error {
        CmError::State => ConnectionError::Withdrawn,
        CmError::Disagreement(disagreement) => disagreement.into(),
        other => other.into(),
    })
}

/// The reason for which the peer is rejected after this error.
fn reason_of(error: &Error) -> RejReason {
    match error {
        Error::Connection(ConnectionError::Disagreement(disagreement)) => disagreement.reason(),
        Error::Connection(ConnectionError::PlainPair) => RejReason::VENDOR_OPTION_NOT_SUPPORTED,
        _ => RejReason::NO_RESOURCES,
    }
}
