//! An endpoint: a device, and what all its streams share.

mod attempt;
mod blocks;
pub(crate) mod link;
mod metrics;
pub(crate) mod moving;
mod patience;
mod sending;
mod service;
mod state;
pub(crate) mod tcp;
mod waiters;

pub(crate) use attempt::{Attempt, unless_absent};
pub(crate) use link::Borrowed;
pub(crate) use service::Service;
pub(crate) use waiters::{On, Waiters};

use crate::config::Config;
use crate::error::Setup;
use crate::listener::Listener;
use crate::protocol::{Hello, Violation};
use crate::stream::Stream;
use core::net::SocketAddr;
use core::time::Duration;
use moving::{Move, Targets};
use std::io;
use std::sync::Arc;
use verbs_api::{Connector, Device, Driver, PreparedQueuePair, QueuePair};

/// What an endpoint has, and what it has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Connections that have memory here: streams, and those whose last bytes are on their way.
    pub streams: usize,
    /// Bytes of registered memory.
    pub memory: usize,
    /// Regions of memory registered since the beginning.
    pub registrations: u64,
    /// Requests for a connection that were rejected, for their Hello or for want of memory.
    pub rejected: u64,
    /// Streams closed because the peer broke a rule, in the order of [`Violation::ALL`].
    pub violations: [u64; Violation::ALL.len()],
    /// Messages with bytes of streams that were sent, in the order of [`Way::ALL`].
    pub sent: [u64; Way::ALL.len()],
    /// Bytes that programs have written to streams.
    pub bytes_written: u64,
    /// Bytes that programs have read from streams.
    pub bytes_read: u64,
    /// Of [`bytes_written`](Self::bytes_written), those that were sent from a
    /// [`Buffer`](crate::Buffer) where they lay.
    pub bytes_written_in_place: u64,
    /// Of [`bytes_read`](Self::bytes_read), those that a program has [`Received`](crate::Received)
    /// where they had come to.
    pub bytes_read_in_place: u64,
    /// Streams that were made, by this end or by the peer.
    pub made: u64,
    /// Streams that TCP carries now.
    pub over_tcp: usize,
    /// How often a stream went over to TCP because RDMA had failed.
    pub moved_to_tcp: u64,
    /// How often a stream came back to RDMA.
    pub returned_to_rdma: u64,
    /// Completions that were passed over, as their queue pair carries no stream any more: receives
    /// of a stream that is over, or what a carrier that was given up still had under way, which the
    /// next one sends again.
    pub stale_completions: u64,
}

/// How the bytes of a message get to the peer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Way {
    /// A SEND into a receive of the peer's.
    Send,
    /// An RDMA WRITE into memory that the peer has granted.
    Write,
    /// A SEND of their descriptor, and an RDMA READ of the peer's.
    Read,
}

impl Way {
    /// All of them, in the order of their counters.
    pub const ALL: [Self; 3] = [Self::Send, Self::Write, Self::Read];
}

impl core::fmt::Display for Way {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Send => "send",
            Self::Write => "write",
            Self::Read => "read",
        })
    }
}

impl Stats {
    /// Streams closed because the peer broke this rule.
    #[must_use]
    pub fn violations(&self, of: Violation) -> u64 {
        let counts = Violation::ALL.iter().zip(self.violations);
        counts.filter(|(violation, _)| **violation == of).map(|(_, count)| count).sum()
    }

    /// Messages that were sent this way.
    #[must_use]
    pub fn sent(&self, by: Way) -> u64 {
        let counts = Way::ALL.iter().zip(self.sent);
        counts.filter(|(way, _)| **way == by).map(|(_, count)| count).sum()
    }
}

/// A device whose streams share memory and one completion queue. Clones name the same one. It goes
/// when the last of its streams, listeners, buffers and received bytes has gone; who drops that
/// waits until what was written has arrived, for 5 seconds at most.
#[derive(Clone)]
pub struct Endpoint {
    service: Arc<Service>,
}

impl Endpoint {
    /// Opens a device, such as `memif:/run/srnic.sock,role=client`, with a thread of its own.
    ///
    /// # Errors
    /// A size of `config` that is out of bounds; the error of [`Device::open`] is inside.
    pub fn open(device: &str, config: Config) -> io::Result<Self> {
        let device = Device::builder().driver(Driver::THREAD).open(device).map_err(Setup::from)?;
        Self::new(&device, config)
    }

    /// Takes a device that is open. One without a thread ([`Driver::Inline`]) is driven by whoever
    /// waits for a stream, and else by the endpoint's thread, which then never sleeps.
    ///
    /// # Errors
    /// A size of `config` that is out of bounds; what the device refuses.
    pub fn new(device: &Device, config: Config) -> io::Result<Self> {
        config.validate()?;
        Ok(Self { service: Service::start(device, &config)? })
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.service.device()
    }

    /// Listens to a port of the device's address; 0: to a free one.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] if somebody listens to it.
    pub fn listen(&self, port: u16) -> io::Result<Listener> {
        Listener::bind(&self.service, port)
    }

    /// Listens to a port of the device's address and to one of TCP: streams that are made with
    /// [`Transport::Auto`] go on over TCP when RDMA fails, and return. They can do so for as long
    /// as the listener is there.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] if somebody listens to either.
    pub fn listen_with_tcp(&self, port: u16, tcp: SocketAddr) -> io::Result<Listener> {
        self.service.keep()?;
        Listener::bind_with_tcp(&self.service, port, tcp)
    }

    /// Connects to a listener, and waits `limit` at most: the peer may be started later.
    ///
    /// # Errors
    /// [`io::ErrorKind::ConnectionRefused`], [`io::ErrorKind::TimedOut`] and others as TCP has
    /// them; [`io::ErrorKind::OutOfMemory`] if the pool has no room for a stream.
    pub fn connect(&self, to: SocketAddr, limit: Duration) -> io::Result<Stream> {
        let own = self.new_hello()?;
        self.connect_by_rdma(to, &own, None, limit)
    }

    /// Connects by RDMA, by TCP, or by what works, and waits `limit` at most.
    /// [`Transport::Auto`] tries RDMA for a second, or for half of `limit` if that is less, and
    /// TCP for the rest.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), and those of TCP.
    pub fn connect_over(&self, transport: Transport, limit: Duration) -> io::Result<Stream> {
        let attempt = match transport.targets() {
            Ok(targets) => self.attempt(targets, limit)?,
            Err(rdma) => return self.connect(rdma, limit),
        };
        if let Some((rdma, moves, limit)) = attempt.by_rdma() {
            let made = self.connect_by_rdma(rdma, &attempt.own, Some(moves), limit);
            if let Some(made) = unless_absent(made) {
                return made;
            }
        }
        attempt.by_tcp()
    }

    /// A stream that may go on over TCP is to be made.
    pub(crate) fn attempt(&self, targets: Targets, limit: Duration) -> io::Result<Attempt> {
        self.service.keep()?;
        let own = moving::hello(self.service.config(), self.new_hello()?.token, false);
        Ok(Attempt::new(&self.service, own, targets, limit))
    }

    fn connect_by_rdma(
        &self,
        to: SocketAddr,
        own: &Hello,
        moves: Option<Move>,
        limit: Duration,
    ) -> io::Result<Stream> {
        let (pair, pending) = Pending::prepare(&self.service, own, moves)?;
        let hello = own.to_bytes();
        let connecting = Connector::new().private_data(&hello).connect(pair, to);
        let pair = connecting.and_then(|connecting| connecting.wait(limit)).map_err(Setup::from)?;
        let peer = Hello::from_bytes(pair.private_data()).map_err(Setup::from)?;
        Ok(pending.connected(pair, &peer))
    }

    /// What this end says of itself, with the token of a new stream.
    pub(crate) fn new_hello(&self) -> io::Result<Hello> {
        let mut token = [0; 16];
        getrandom::fill(&mut token).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(self.service.hello(token))
    }

    #[cfg(feature = "tokio")]
    pub(crate) const fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// What it has, and what it has counted.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.service.lock().stats()
    }
}

/// What carries the bytes of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Transport {
    /// RDMA to this address of a device, and nothing else: the stream ends when that fails.
    Rdma(SocketAddr),
    /// TCP to this address of a host.
    Tcp(SocketAddr),
    /// RDMA, as long as it works, and TCP otherwise. The peer has
    /// [`Endpoint::listen_with_tcp`].
    Auto {
        /// The address of the peer's device.
        rdma: SocketAddr,
        /// The address that the peer listens to by TCP.
        tcp: SocketAddr,
    },
}

impl Transport {
    /// Where the peer can be had, or the address of its device if by RDMA alone.
    pub(crate) const fn targets(self) -> Result<Targets, SocketAddr> {
        match self {
            Self::Rdma(rdma) => Err(rdma),
            Self::Tcp(tcp) => Ok(Targets { rdma: None, tcp }),
            Self::Auto { rdma, tcp } => Ok(Targets { rdma: Some(rdma), tcp }),
        }
    }
}

/// A connection that is being made, and has memory. Dropping it gives that back.
pub(crate) struct Pending {
    service: Arc<Service>,
    /// The number of its link, until a stream has it.
    id: Option<u64>,
    /// The number of its queue pair, if it was made.
    qpn: Option<u32>,
}

impl Pending {
    /// A queue pair with its receives posted.
    pub fn prepare(
        service: &Arc<Service>,
        own: &Hello,
        moves: Option<Move>,
    ) -> Result<(PreparedQueuePair, Self), Setup> {
        let (id, prepared) = service.call(|state| -> Result<_, Setup> {
            let id = state.add_link(own, moves)?;
            Ok((id, state.prepare(id, usize::MAX)))
        })?;
        let mut pending = Self { service: Arc::clone(service), id: Some(id), qpn: None };
        let pair = prepared?;
        pending.qpn = Some(pair.qpn());
        Ok((pair, pending))
    }

    /// The stream, now that the connection is there.
    pub fn connected(mut self, pair: QueuePair, peer: &Hello) -> Stream {
        let id = self.id.take().unwrap_or_default();
        self.service.call(|state| state.connected(id, pair, peer));
        Stream::new(&self.service, id)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // Whoever has its queue pair drops that first.
        if let Some(id) = self.id {
            self.service.call(|state| {
                if let Some(qpn) = self.qpn {
                    state.unprepare(id, qpn);
                }
                state.forget(id);
            });
        }
    }
}
