//! A connection by what works: RDMA first, then TCP.

use super::moving::{Move, Targets};
use super::service::Service;
use super::tcp;
use crate::deadline;
use crate::protocol::Hello;
use crate::stream::Stream;
use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::sync::Arc;
use std::time::Instant;

/// How long RDMA is tried before TCP is, but for no more than half of the time that there is.
const RDMA_FIRST: Duration = Duration::from_secs(1);
/// How long TCP is tried at least.
const TCP_MIN: Duration = Duration::from_millis(1);

/// A stream that is being made, and may go on over TCP.
pub struct Attempt {
    service: Arc<Service>,
    pub own: Hello,
    targets: Targets,
    limit: Duration,
    end: Instant,
}

impl Attempt {
    pub fn new(service: &Arc<Service>, own: Hello, targets: Targets, limit: Duration) -> Self {
        Self { service: Arc::clone(service), own, targets, limit, end: deadline::after(limit) }
    }

    /// Whom RDMA is to connect to, and in what time, if that is to be tried.
    pub fn by_rdma(&self) -> Option<(SocketAddr, Move, Duration)> {
        let rdma = self.targets.rdma?;
        Some((rdma, Move::new(self.own.token, Some(self.targets)), RDMA_FIRST.min(self.limit / 2)))
    }

    /// Connects by TCP in the time that is left.
    pub fn by_tcp(&self) -> io::Result<Stream> {
        let Self { service, own, targets, end, .. } = self;
        let left = end.saturating_duration_since(Instant::now()).max(TCP_MIN);
        let (socket, peer) = tcp::connect(targets.tcp, own, left)?;
        let moves = Move::new(own.token, Some(*targets));
        Stream::by_tcp(service, (own, &peer), moves, (socket, targets.tcp))
    }
}

/// What became of a connection by RDMA; `None` if that does not reach the peer, which TCP may.
pub fn unless_absent<T>(made: io::Result<T>) -> Option<io::Result<T>> {
    let is_final =
        |error: &io::Error| matches!(error.kind(), io::ErrorKind::OutOfMemory | io::ErrorKind::InvalidData);
    match made {
        Err(error) if !is_final(&error) => None,
        made => Some(made),
    }
}
