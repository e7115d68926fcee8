//! The active side.

use super::connecting::Connecting;
use super::error::ConnectionError;
use super::link::Link;
use crate::error::Error;
use crate::queue_pair::{PreparedQueuePair, QueuePair};
use crate::trace;
use core::net::SocketAddr;
use core::time::Duration;
use rdma_cm::{CmError, Dialect};

/// How long a peer is asked for by default, at least. A host that another attempt has just not
/// found is looked for again, and a caller that is about to [wait](Connecting::wait) says for how
/// long.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// The options of a connection by address (`rdma_conn_param`): private data for the peer's program,
/// and the dialect.
///
/// ```
/// use std::time::Duration;
/// use verbs_api::{Connector, Device, Dialect, Driver, Listener};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (here, there) = (Device::open("sim:connector")?, Device::builder().driver(Driver::THREAD).open("sim:connector")?);
/// let listener = Listener::bind(&there, 7471)?;
/// let server = std::thread::spawn(move || -> Result<String, verbs_api::Error> {
///     let (pd, cq) = (there.alloc_pd(), there.create_cq(16)?);
///     let request = listener.get_request(Duration::from_secs(60))?;
///     let said = String::from_utf8_lossy(request.private_data()).into_owned();
///     let pair = pd.queue_pair(&cq, &cq).build()?;
///     let mut pair = request.with_private_data(b"welcome").accept(pair)?.wait(Duration::from_secs(60))?;
///     pair.disconnect(Duration::from_secs(60))?;
///     Ok(said)
/// });
///
/// let (pd, cq) = (here.alloc_pd(), here.create_cq(16)?);
/// let pair = pd.queue_pair(&cq, &cq).build()?;
/// let connector = Connector::new().private_data(b"it is me").dialect(Dialect::Require);
/// let pair = connector.connect(pair, (listener_ip(), 7471).into())?.wait(Duration::from_secs(60))?;
/// assert_eq!(pair.private_data(), b"welcome");
/// while !pair.is_disconnected() {
///     here.progress();
/// }
/// assert_eq!(server.join().expect("no panic")?, "it is me");
/// # fn listener_ip() -> std::net::IpAddr { [10, 77, 0, 2].into() }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Connector<'a> {
    private_data: &'a [u8],
    dialect: Option<Dialect>,
    patience: Option<Duration>,
    ends_if_refused: bool,
}

impl<'a> Connector<'a> {
    /// Says nothing to the peer's program, and prefers the SRNIC dialect.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the private data that the peer's program gets with the request, at most 56 bytes. The
    /// peer does not see zeros at its end.
    #[must_use]
    pub const fn private_data(self, data: &'a [u8]) -> Self {
        Self { private_data: data, ..self }
    }

    /// Sets whether to speak the SRNIC dialect: default [`Dialect::Prefer`], or [`Dialect::Off`]
    /// with a queue pair that was built for [`WireMode::Plain`](crate::WireMode::Plain).
    #[must_use]
    pub const fn dialect(self, dialect: Dialect) -> Self {
        Self { dialect: Some(dialect), ..self }
    }

    /// Sets how long a peer that is not there yet is asked for: it may be started later, or be up
    /// and not listen yet. When that time is over, the attempt fails with
    /// [`ConnectionError::Late`], or with [`ConnectionError::Rejected`] if the peer's host said
    /// that nobody listens to the port. A peer that still has a connection with the queue pair, as
    /// of a program that was killed, ends that and is asked again. This is for programs that poll
    /// the connection or await it; [`Connecting::wait`] asks for as long as it waits. Default: 2.6
    /// s if nobody has the peer's address, 12 s if its host does not answer, and 1 s if nobody
    /// listens to the port.
    #[must_use]
    pub const fn patience(self, patience: Duration) -> Self {
        Self { patience: Some(patience), ..self }
    }

    /// Sets whether a peer that is up and has no listener at the port is asked again for as long as
    /// the [patience](Self::patience) lasts: after 20 ms, and then after twice as long each time,
    /// 1 s at most. Default true. With false the attempt fails as soon as the peer says so.
    #[must_use]
    pub const fn wait_for_listener(self, wait: bool) -> Self {
        Self { ends_if_refused: !wait, ..self }
    }

    /// Begins to connect to a listener (`rdma_connect`).
    ///
    /// # Errors
    /// [`Error::Connection`], [`Error::Create`] if the device's queue pair 1 is in use. The queue
    /// pair is gone then.
    pub fn connect(self, pair: PreparedQueuePair, to: SocketAddr) -> Result<Connecting, Error> {
        let device = pair.device().clone();
        let service = device.connections()?;
        let terms = pair.terms(self.dialect)?;
        let id = service.call(&device, |state, now| -> Result<_, CmError> {
            let id = state.manager.connect(now, to.ip(), to.port(), &terms, self.private_data)?;
            match self.patience {
                Some(patience) => state.manager.ask_until(id, now.saturating_add(patience)),
                None => state.manager.persist(id, now.saturating_add(GRACE)),
            }
            if self.ends_if_refused {
                state.manager.end_if_refused(id);
            }
            state.hold(id, Some(pair.qpn()));
            Ok(id)
        });
        let id = id.map_err(ConnectionError::from)?;
        trace::connecting(id, pair.qpn(), to);
        let link = Link { device, service, id, peer: to, private_data: Vec::new() };
        Ok(Connecting::active(pair, link, self.patience))
    }
}

impl PreparedQueuePair {
    /// Connects to a listener and waits until it has accepted, `limit` at most: [`Connector`] has
    /// more to choose.
    ///
    /// # Errors
    /// As [`Connector::connect`] and [`Connecting::wait`]. The queue pair is gone then.
    pub fn connect_to(self, to: SocketAddr, limit: Duration) -> Result<QueuePair, Error> {
        Connector::new().connect(self, to)?.wait(limit)
    }
}
