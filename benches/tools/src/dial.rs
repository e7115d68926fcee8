//! Connecting to a listener of another process, which may be started a little later.

use crate::error::{Error, Result};
use crate::pump::{Drive, PEER_WAIT, wait_for, wait_past, wait_until};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use verbs_api::{
    ConnectionError, Connector, Device, Error as VerbsError, PreparedQueuePair, QueuePair, RejReason,
};

/// How soon a server is tried again that is not there yet.
const AGAIN: Duration = Duration::from_millis(10);

/// Connects to `server` as `connector` says, as soon as somebody listens there, for `patience`;
/// each try takes what `prepare` makes, and the last one's is returned.
///
/// # Errors
/// [`Error::Verbs`]: why the last try failed. Those of `prepare`, and [`Error::Interrupted`].
pub fn dial<T>(
    device: &Device,
    connector: Connector<'_>,
    server: SocketAddr,
    patience: Duration,
    mut prepare: impl FnMut() -> Result<(PreparedQueuePair, T)>,
) -> Result<(QueuePair, T)> {
    let since = Instant::now();
    let limit = patience.checked_add(PEER_WAIT);
    loop {
        let (prepared, rest) = prepare()?;
        let left = patience.saturating_sub(since.elapsed());
        // A single try takes what it needs.
        let connector = if left.is_zero() { connector } else { connector.patience(left) };
        let mut connecting = connector.connect(prepared, server)?;
        match wait_until(device, "the server does not answer", limit, || Ok(connecting.poll()?)) {
            Err(Error::Verbs(error)) if may_come(&error) && since.elapsed() < patience => {
                let tried = Instant::now();
                wait_for(device, "time stands still", || Ok((tried.elapsed() > AGAIN).then_some(())))?;
            }
            connected => return connected.map(|pair| (pair, rest)),
        }
    }
}

/// Connects by TCP as soon as somebody listens at `address`; `missing` says what is not there if
/// nobody does, and `remedy` what to do. A host that does not answer at all is waited for like one
/// that refuses, with an eye on Ctrl-C.
///
/// # Errors
/// [`Error::Channel`], [`Error::Late`], [`Error::Interrupted`].
pub(crate) fn tcp(
    engine: &impl Drive,
    address: SocketAddr,
    missing: &'static str,
    remedy: &str,
) -> Result<TcpStream> {
    let mut trying = None;
    let nobody = || format!("nobody answers at {address} by TCP: {remedy}");
    let obstacle = || engine.link_down().or_else(|| Some(nobody()));
    wait_past(engine, missing, Some(PEER_WAIT), obstacle, || {
        let stream = match trying.take() {
            Some(stream) => Ok(stream),
            None => begin(address),
        };
        match stream.and_then(|stream| Ok((is_decided(&stream)?, stream))) {
            Ok((true, stream)) => Ok(Some(stream)),
            Ok((false, stream)) => {
                trying = Some(stream);
                Ok(None)
            }
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(None),
            Err(source) => Err(Error::Channel { address, doing: "connect", source }),
        }
    })
}

/// A connection that may still be under way. It never blocks.
fn begin(address: SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket.into()),
        Err(errno) => Err(errno.into()),
    }
}

/// Returns `true` if the socket is connected, `false` if it may still be, and the error if it will
/// not be.
fn is_decided(stream: &TcpStream) -> io::Result<bool> {
    let mut ready = [PollFd::new(stream, PollFlags::OUT)];
    match poll(&mut ready, Some(&Timespec::default())) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    if ready[0].revents().is_empty() {
        return Ok(false);
    }
    stream.take_error()?.map_or(Ok(true), Err)
}

/// Returns `true` for an error that also comes up when the server has not been started yet.
fn may_come(error: &VerbsError) -> bool {
    matches!(
        error,
        VerbsError::Connection(
            ConnectionError::Unreachable(_)
                | ConnectionError::TimedOut
                | ConnectionError::Rejected { reason: RejReason::INVALID_SERVICE_ID, .. }
        )
    )
}
