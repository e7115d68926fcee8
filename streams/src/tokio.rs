//! Streams for tasks (feature `tokio`).

use crate::buffer::Buffer;
use crate::endpoint::moving::Move;
use crate::endpoint::{Attempt, Endpoint, Pending, Transport, unless_absent};
use crate::error::Setup;
use crate::listener::Listener;
use crate::protocol::Hello;
use crate::received::Received;
use crate::stream::Stream;
use ::tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use ::tokio::sync::oneshot;
use core::future::poll_fn;
use core::net::SocketAddr;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use core::time::Duration;
use std::io::{self, IoSlice};
use std::thread;
use verbs_api::Connector;

/// A [`Stream`] for tasks. No call of it blocks.
///
/// Whoever drops a future of a read or write has read or written nothing by it, or all that it
/// returned. Dropping the stream is as with [`Stream`].
pub struct AsyncStream {
    inner: Stream,
}

impl AsyncStream {
    /// Whom it is connected to.
    ///
    /// # Errors
    /// As [`Stream::peer_addr`].
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.inner.peer_addr()
    }

    /// Returns `true` if TCP carries it now, as [`Stream::is_over_tcp`].
    #[must_use]
    pub fn is_over_tcp(&self) -> bool {
        self.inner.is_over_tcp()
    }

    /// Gives the stream up, as [`Stream::reset`].
    pub fn reset(&self) {
        self.inner.reset();
    }

    /// Registered memory to write at most `len` bytes in place, as [`Stream::buffer`].
    ///
    /// # Errors
    /// As a write.
    pub async fn buffer(&self, len: usize) -> io::Result<Buffer> {
        poll_fn(|context| self.inner.poll_buffer(context.waker(), len)).await
    }

    /// Writes all bytes of a buffer, as [`Stream::write_buffer`]. What was not written when the
    /// future is dropped is still in the buffer.
    ///
    /// # Errors
    /// As [`Stream::write_buffer`].
    pub async fn write_buffer(&self, buffer: &mut Buffer) -> io::Result<()> {
        poll_fn(|context| self.inner.poll_write_buffer(context.waker(), buffer)).await
    }

    /// Reads the bytes that come next where they lie, as [`Stream::read_buffer`]. Dropping the
    /// future loses none.
    ///
    /// # Errors
    /// As a read.
    pub async fn read_buffer(&self) -> io::Result<Received> {
        poll_fn(|context| self.inner.poll_read_buffer(context.waker())).await
    }
}

impl From<Stream> for AsyncStream {
    fn from(inner: Stream) -> Self {
        Self { inner }
    }
}

impl From<AsyncStream> for Stream {
    fn from(stream: AsyncStream) -> Self {
        stream.inner
    }
}

impl AsyncRead for AsyncStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.inner.poll_read(context.waker(), buffer.initialize_unfilled()).map_ok(|len| buffer.advance(len))
    }
}

impl AsyncWrite for AsyncStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        self.inner.poll_write(context.waker(), &[IoSlice::new(buffer)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.inner.poll_write(context.waker(), parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A write has posted it.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.inner.shutdown_write())
    }
}

/// A [`Listener`] for tasks.
pub struct AsyncListener {
    inner: Listener,
}

impl From<Listener> for AsyncListener {
    fn from(inner: Listener) -> Self {
        Self { inner }
    }
}

impl AsyncListener {
    /// The address that peers connect to.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }

    /// Waits for a stream. Dropping the future loses none.
    ///
    /// # Errors
    /// As [`Listener::accept`]; [`io::ErrorKind::Other`] on a device without a thread of its own.
    pub async fn accept(&self) -> io::Result<AsyncStream> {
        if self.inner.has_tcp() {
            return poll_fn(|context| self.inner.poll_queue(context)).await.map(AsyncStream::from);
        }
        loop {
            let mut request = pin!(self.inner.request());
            let event = poll_fn(|context| {
                if let Some(stream) = self.inner.poll_ready(context) {
                    return Poll::Ready(Ok(Event::Stream(stream)));
                }
                request.as_mut().poll(context).map_ok(Event::Request)
            });
            match event.await.map_err(Setup::from)? {
                Event::Stream(stream) => return Ok(stream.into()),
                Event::Request(request) => self.inner.admit(request)?,
            }
        }
    }
}

/// What who accepts waits for.
enum Event {
    Stream(Stream),
    Request(verbs_api::ConnectionRequest),
}

impl Endpoint {
    /// Connects as [`connect`](Self::connect) does, for tasks. Dropping the future takes the
    /// connection back.
    ///
    /// # Errors
    /// As [`connect`](Self::connect); [`io::ErrorKind::Other`] on a device without a thread of its
    /// own.
    pub async fn connect_async(&self, to: SocketAddr, limit: Duration) -> io::Result<AsyncStream> {
        let own = self.new_hello()?;
        self.connect_by_rdma_async(to, &own, None, limit).await
    }

    /// Connects as [`connect_over`](Self::connect_over) does, for tasks. Dropping the future takes
    /// the connection back.
    ///
    /// # Errors
    /// As [`connect_over`](Self::connect_over) and [`connect_async`](Self::connect_async).
    pub async fn connect_over_async(&self, transport: Transport, limit: Duration) -> io::Result<AsyncStream> {
        let attempt = match transport.targets() {
            Ok(targets) => self.attempt(targets, limit)?,
            Err(rdma) => return self.connect_async(rdma, limit).await,
        };
        if let Some((rdma, moves, limit)) = attempt.by_rdma() {
            let made = self.connect_by_rdma_async(rdma, &attempt.own, Some(moves), limit).await;
            if let Some(made) = unless_absent(made) {
                return made;
            }
        }
        by_tcp_async(attempt).await
    }

    async fn connect_by_rdma_async(
        &self,
        to: SocketAddr,
        own: &Hello,
        moves: Option<Move>,
        limit: Duration,
    ) -> io::Result<AsyncStream> {
        let (pair, pending) = Pending::prepare(self.service(), own, moves)?;
        let hello = own.to_bytes();
        let connecting = Connector::new().private_data(&hello).patience(limit).connect(pair, to);
        let pair = connecting.map_err(Setup::from)?.await.map_err(Setup::from)?;
        let peer = Hello::from_bytes(pair.private_data()).map_err(Setup::from)?;
        Ok(pending.connected(pair, &peer).into())
    }
}

/// Connects by TCP on a thread of its own. What it makes goes if nobody waits for it any more.
async fn by_tcp_async(attempt: Attempt) -> io::Result<AsyncStream> {
    let (done, made) = oneshot::channel();
    let connects = move || drop(done.send(attempt.by_tcp()));
    thread::Builder::new().name("srnic-connect".to_owned()).spawn(connects)?;
    let ended = |_| io::Error::other("the thread that connects panicked");
    made.await.map_err(ended)?.map(AsyncStream::from)
}
