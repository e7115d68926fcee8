//! The passive side.

use crate::acceptor::Acceptor;
use crate::deadline;
use crate::endpoint::link::Carrier;
use crate::endpoint::moving::{self, GREETINGS, Move};
use crate::endpoint::{Pending, Service};
use crate::error::Setup;
use crate::protocol::Hello;
use crate::stream::Stream;
use core::net::SocketAddr;
use core::time::Duration;
#[cfg(feature = "tokio")]
use core::{
    pin::Pin,
    task::{Context, Poll},
};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use verbs_api::{Connecting, ConnectionRequest, PreparedQueuePair, QueuePair};

/// How long a request is waited for at once while nobody is connecting.
const NAP: Duration = Duration::from_millis(50);
/// How long it is waited for while somebody is.
const SHORT_NAP: Duration = Duration::from_millis(1);
/// How long a peer that was accepted may take to say that it is ready.
const PATIENCE: Duration = Duration::from_secs(10);

/// A port of a device that streams connect to. Dropping it rejects who waits; streams stay.
pub struct Listener {
    // Goes before what it serves.
    acceptor: Option<Acceptor>,
    door: Arc<Door>,
}

/// A port of a device, and who comes to it.
pub(crate) struct Door {
    // Goes before the service, which waits for streams only.
    inner: verbs_api::Listener,
    accepted: Mutex<Vec<Accepted>>,
    /// Streams may go on over TCP, too.
    moves: bool,
    pub service: Arc<Service>,
}

/// A peer that was accepted and has not said that it is ready.
struct Accepted {
    connecting: Connecting,
    coming: Coming,
    peer: Hello,
    until: Instant,
}

/// What a connection is for.
enum Coming {
    New(Pending),
    /// The next carrier of a stream that there is.
    Next(Returning),
}

/// A queue pair that may come to carry a stream. Dropping it gives back what it has of that.
struct Returning {
    service: Arc<Service>,
    id: u64,
    qpn: u32,
    is_done: bool,
}

impl Returning {
    fn finish(mut self, pair: QueuePair) {
        self.is_done = true;
        self.service.call(|state| state.resume(self.id, Carrier::Pair(Box::new(pair))));
    }
}

impl Drop for Returning {
    fn drop(&mut self) {
        if !self.is_done {
            self.service.call(|state| state.unprepare(self.id, self.qpn));
        }
    }
}

impl Listener {
    pub(crate) fn bind(service: &Arc<Service>, port: u16) -> io::Result<Self> {
        Ok(Self { acceptor: None, door: Arc::new(Door::bind(service, port, false)?) })
    }

    pub(crate) fn bind_with_tcp(service: &Arc<Service>, port: u16, tcp: SocketAddr) -> io::Result<Self> {
        let door = Arc::new(Door::bind(service, port, true)?);
        Ok(Self { acceptor: Some(Acceptor::start(&door, tcp)?), door })
    }

    /// The address that peers connect to by TCP, if there is one.
    #[must_use]
    pub fn tcp_addr(&self) -> Option<SocketAddr> {
        self.acceptor.as_ref().map(Acceptor::addr)
    }

    #[cfg(feature = "tokio")]
    pub(crate) const fn has_tcp(&self) -> bool {
        self.acceptor.is_some()
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn poll_queue(&self, context: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        self.acceptor.as_ref().map_or(Poll::Pending, |acceptor| acceptor.poll(context.waker()))
    }

    /// The next request.
    #[cfg(feature = "tokio")]
    pub(crate) fn request(
        &self,
    ) -> impl Future<Output = Result<ConnectionRequest, verbs_api::Error>> + Send + '_ {
        self.door.inner.request()
    }

    /// A stream that is ready, if there is one; else the task is woken when one may be.
    #[cfg(feature = "tokio")]
    pub(crate) fn poll_ready(&self, context: &mut Context<'_>) -> Option<Stream> {
        self.door.ready_by(|connecting| match Pin::new(connecting).poll(context) {
            Poll::Ready(result) => result.map(Some),
            Poll::Pending => Ok(None),
        })
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn admit(&self, request: ConnectionRequest) -> io::Result<()> {
        self.door.admit(request)
    }

    /// The address that peers connect to.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.door.inner.local_addr()
    }

    /// Waits for a stream.
    ///
    /// # Errors
    /// [`io::ErrorKind::OutOfMemory`] if the pool or the device has no room for one more; the peer
    /// was rejected. A peer that gives up while it is accepted is passed over.
    pub fn accept(&self) -> io::Result<Stream> {
        loop {
            if let Some(stream) = self.accept_within(NAP)? {
                return Ok(stream);
            }
        }
    }

    /// Waits for a stream, `limit` at most; `None` if there was none.
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub fn accept_within(&self, limit: Duration) -> io::Result<Option<Stream>> {
        match &self.acceptor {
            Some(acceptor) => acceptor.next(limit),
            None => self.door.accept_within(limit),
        }
    }
}

impl Door {
    fn bind(service: &Arc<Service>, port: u16, moves: bool) -> io::Result<Self> {
        let inner = verbs_api::Listener::bind(service.device(), port).map_err(|error| match &error {
            verbs_api::Error::Connection(verbs_api::ConnectionError::Call(
                verbs_api::CmError::PortInUse(_),
            )) => io::Error::new(io::ErrorKind::AddrInUse, Setup::Verbs(error)),
            _ => Setup::Verbs(error).into(),
        })?;
        Ok(Self { inner, accepted: Mutex::default(), moves, service: Arc::clone(service) })
    }

    pub fn accept_within(&self, limit: Duration) -> io::Result<Option<Stream>> {
        let end = deadline::after(limit);
        loop {
            while let Some(request) = self.inner.poll() {
                self.admit(request)?;
            }
            if let Some(stream) = self.ready() {
                return Ok(Some(stream));
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let nap = if self.accepted().is_empty() { NAP } else { SHORT_NAP };
            if let Ok(request) = self.inner.get_request(nap.min(left)) {
                self.admit(request)?;
            }
        }
    }

    fn accepted(&self) -> std::sync::MutexGuard<'_, Vec<Accepted>> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts or rejects a request.
    fn admit(&self, request: ConnectionRequest) -> io::Result<()> {
        let peer = match Hello::from_bytes(request.private_data()) {
            Ok(peer) => peer,
            Err(error) => {
                self.reject(request, &error.to_string());
                return Ok(());
            }
        };
        let moves = self.moves && peer.features.moves;
        let own = match moves {
            true => moving::hello(self.service.config(), peer.token, peer.features.resumes),
            false => self.service.hello(peer.token),
        };
        let prepared =
            if peer.features.resumes { self.prepare_next(&peer) } else { self.prepare_new(&own, moves) };
        let (pair, coming) = match prepared {
            Ok(prepared) => prepared,
            Err(Setup::Gone) => {
                self.reject(request, "there is no such stream");
                return Ok(());
            }
            Err(error) => {
                self.reject(request, "the endpoint has no room for another stream");
                return Err(match error.is_for_want_of_room() {
                    true => io::Error::new(io::ErrorKind::OutOfMemory, error),
                    false => error.into(),
                });
            }
        };
        // Fails if the peer has given up, or does not go together with us, which it is told.
        if let Ok(connecting) = request.with_private_data(&own.to_bytes()).accept(pair) {
            let until = Instant::now() + PATIENCE;
            self.accepted().push(Accepted { connecting, coming, peer, until });
        }
        Ok(())
    }

    fn prepare_new(&self, own: &Hello, moves: bool) -> Result<(PreparedQueuePair, Coming), Setup> {
        let moves = moves.then(|| Move::new(own.token, None));
        let (pair, pending) = Pending::prepare(&self.service, own, moves)?;
        Ok((pair, Coming::New(pending)))
    }

    fn prepare_next(&self, peer: &Hello) -> Result<(PreparedQueuePair, Coming), Setup> {
        let (id, pair) = self.service.call(|state| -> Result<_, Setup> {
            let id = state.by_token(&peer.token).ok_or(Setup::Gone)?;
            Ok((id, state.prepare(id, GREETINGS)?))
        })?;
        let qpn = pair.qpn();
        Ok((pair, Coming::Next(Returning { service: Arc::clone(&self.service), id, qpn, is_done: false })))
    }

    fn reject(&self, request: ConnectionRequest, why: &str) {
        self.service.lock().reject();
        // As much of it as there is room for.
        let _ = request.reject(&why.as_bytes()[..why.len().min(148)]);
    }

    /// A peer that was accepted and is ready.
    fn ready(&self) -> Option<Stream> {
        self.ready_by(Connecting::poll)
    }

    fn ready_by(
        &self,
        mut poll: impl FnMut(&mut Connecting) -> Result<Option<QueuePair>, verbs_api::Error>,
    ) -> Option<Stream> {
        let mut accepted = self.accepted();
        let mut at = 0;
        while let Some(one) = accepted.get_mut(at) {
            match poll(&mut one.connecting) {
                Ok(Some(pair)) => {
                    let Accepted { coming, peer, .. } = accepted.swap_remove(at);
                    match coming {
                        Coming::New(pending) => return Some(pending.connected(pair, &peer)),
                        Coming::Next(returning) => returning.finish(pair),
                    }
                }
                Ok(None) if Instant::now() < one.until => at += 1,
                // The peer is gone.
                Ok(None) | Err(_) => drop(accepted.swap_remove(at)),
            }
        }
        None
    }
}
