//! The passive side.

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
use verbs_api::{Connecting, ConnectionRequest, QueuePair};

/// How long a request is waited for at once while nobody is connecting.
const NAP: Duration = Duration::from_millis(50);
/// How long it is waited for while somebody is.
const SHORT_NAP: Duration = Duration::from_millis(1);
/// How long a peer that was accepted may take to say that it is ready.
const PATIENCE: Duration = Duration::from_secs(10);

/// A port of a device that streams connect to. Dropping it rejects who waits; streams stay.
pub struct Listener {
    // Goes before the service, which waits for streams only.
    inner: verbs_api::Listener,
    accepted: Mutex<Vec<Accepted>>,
    service: Arc<Service>,
}

/// A peer that was accepted and has not said that it is ready.
struct Accepted {
    connecting: Connecting,
    pending: Pending,
    peer: Hello,
    until: Instant,
}

impl Listener {
    pub(crate) fn bind(service: &Arc<Service>, port: u16) -> io::Result<Self> {
        let inner = verbs_api::Listener::bind(service.device(), port).map_err(|error| match &error {
            verbs_api::Error::Connection(verbs_api::ConnectionError::Call(
                verbs_api::CmError::PortInUse(_),
            )) => io::Error::new(io::ErrorKind::AddrInUse, Setup::Verbs(error)),
            _ => Setup::Verbs(error).into(),
        })?;
        Ok(Self { inner, accepted: Mutex::default(), service: Arc::clone(service) })
    }

    /// The address that peers connect to.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }

    /// Waits for a stream.
    ///
    /// # Errors
    /// [`io::ErrorKind::OutOfMemory`] if the pool has no room for one more; the peer was rejected.
    /// A peer that gives up while it is accepted is passed over.
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
        let end = Instant::now() + limit;
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

    /// The next request.
    #[cfg(feature = "tokio")]
    pub(crate) fn request(
        &self,
    ) -> impl Future<Output = Result<ConnectionRequest, verbs_api::Error>> + Send + '_ {
        self.inner.request()
    }

    /// A stream that is ready, if there is one; else the task is woken when one may be.
    #[cfg(feature = "tokio")]
    pub(crate) fn poll_ready(&self, context: &mut Context<'_>) -> Option<Stream> {
        self.ready_by(|connecting| match Pin::new(connecting).poll(context) {
            Poll::Ready(result) => result.map(Some),
            Poll::Pending => Ok(None),
        })
    }

    /// Accepts or rejects a request.
    pub(crate) fn admit(&self, request: ConnectionRequest) -> io::Result<()> {
        let peer = match Hello::from_bytes(request.private_data()) {
            Ok(peer) => peer,
            Err(error) => {
                self.reject(request, &error.to_string());
                return Ok(());
            }
        };
        let own = self.service.hello(peer.token);
        let (pair, pending) = match Pending::prepare(&self.service, &own) {
            Ok(prepared) => prepared,
            Err(error) => {
                self.reject(request, "the endpoint has no room for another stream");
                return Err(error.into());
            }
        };
        // Fails if the peer has given up, or does not go together with us, which it is told.
        if let Ok(connecting) = request.with_private_data(&own.to_bytes()).accept(pair) {
            let until = Instant::now() + PATIENCE;
            self.accepted().push(Accepted { connecting, pending, peer, until });
        }
        Ok(())
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
                    let Accepted { pending, peer, .. } = accepted.swap_remove(at);
                    return Some(pending.connected(pair, &peer));
                }
                Ok(None) if Instant::now() < one.until => at += 1,
                // The peer is gone.
                Ok(None) | Err(_) => drop(accepted.swap_remove(at)),
            }
        }
        None
    }
}
