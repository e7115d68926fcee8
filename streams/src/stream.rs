//! Streams as programs have them.

use crate::buffer::Buffer;
use crate::endpoint::link::Link;
use crate::endpoint::moving::{self, Move};
use crate::endpoint::tcp::Outbox;
use crate::endpoint::{On, Service};
use crate::error::{Error, Setup};
use crate::pool::Pool;
use crate::protocol::Hello;
use crate::received::Received;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(feature = "tokio")]
use core::task::{Poll, Waker};
use core::time::Duration;
use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

/// Bytes in order, both ways, between two endpoints.
///
/// As with `TcpStream`, a reference is enough to read and write, so that two threads may share one;
/// [`split`](Self::split) gives each a half. Dropping it sends what was written, and the peer's
/// writes fail unless it had shut that direction before.
///
/// A write returns when the bytes are copied into registered memory. They arrive unless the
/// connection fails.
pub struct Stream {
    inner: Arc<Inner>,
}

struct Inner {
    service: Arc<Service>,
    id: u64,
    /// In nanoseconds; 0: none.
    read_timeout: AtomicU64,
    write_timeout: AtomicU64,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.service.call(|state| {
            if let Some((link, _)) = state.link(self.id) {
                link.drop_stream();
            }
            state.reap_one(self.id);
        });
    }
}

impl Inner {
    /// Waits until `call` has a result, as long as the timeout for what it waits `on` says.
    fn wait<T>(
        &self,
        on: fn(u64) -> On,
        mut call: impl FnMut(&mut Link, &mut Pool) -> Option<io::Result<T>>,
    ) -> io::Result<T> {
        let on = on(self.id);
        let timeout = if matches!(on, On::Read(_)) { &self.read_timeout } else { &self.write_timeout };
        let end = match timeout.load(Ordering::Relaxed) {
            0 => None,
            nanos => Instant::now().checked_add(Duration::from_nanos(nanos)),
        };
        let result = self
            .service
            .wait(end, on, |state| state.with_link(self.id, &mut call).unwrap_or_else(|| Some(Err(gone()))));
        result.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }

    /// The result of `call`, or the task is woken when something has happened to what it waits
    /// `on`.
    #[cfg(feature = "tokio")]
    fn poll<T>(
        &self,
        on: fn(u64) -> On,
        waker: &Waker,
        call: impl FnOnce(&mut Link, &mut Pool) -> Option<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        self.service.call(|state| {
            state.process();
            let result = state.with_link(self.id, call).unwrap_or_else(|| Some(Err(gone())));
            if result.is_none() {
                state.wake_task(on(self.id), waker);
            }
            result.map_or(Poll::Pending, Poll::Ready)
        })
    }

    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait(On::Read, |link, pool| link.read(pool, buffer))
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.wait(On::Write, |link, pool| link.write(pool, parts))
    }

    fn buffer(&self, len: usize) -> io::Result<Buffer> {
        let space = self.wait(On::Write, |link, pool| link.space(pool, len))?;
        Ok(Buffer::new(&self.service, space))
    }

    fn write_buffer(&self, buffer: &mut Buffer) -> io::Result<()> {
        let filled = buffer.filled(&self.service)?;
        while filled.len > 0 {
            self.wait(On::Write, |link, pool| link.write_filled(pool, filled))?;
        }
        buffer.give_back();
        Ok(())
    }

    fn read_buffer(&self) -> io::Result<Received> {
        let borrowed = self.wait(On::Read, Link::borrow)?;
        Ok(Received::new(&self.service, self.id, borrowed))
    }

    fn peer_addr(&self) -> io::Result<SocketAddr> {
        let mut state = self.service.lock();
        let peer = state.link(self.id).and_then(|(link, _)| link.peer_addr());
        peer.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn shut(&self) -> io::Result<()> {
        self.service.call(|state| {
            state.link(self.id).ok_or_else(gone)?.0.shut();
            state.rouse(self.id);
            Ok(())
        })
    }
}

/// A connection lives as long as its stream.
fn gone() -> io::Error {
    Error::Disconnected.into()
}

impl Stream {
    pub(crate) fn new(service: &Arc<Service>, id: u64) -> Self {
        let service = Arc::clone(service);
        let (read_timeout, write_timeout) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { inner: Arc::new(Inner { service, id, read_timeout, write_timeout }) }
    }

    /// A new stream over a TCP connection on which both ends have said hello.
    pub(crate) fn by_tcp(
        service: &Arc<Service>,
        (own, peer): (&Hello, &Hello),
        moves: Move,
        (socket, addr): (TcpStream, SocketAddr),
    ) -> io::Result<Self> {
        let out = Outbox::start(&socket)?;
        let (id, generation) = service.call(|state| -> Result<_, Setup> {
            let id = state.add_link(own, Some(moves))?;
            state.connected_by_tcp(id, Arc::clone(&out), addr, peer);
            Ok((id, state.generation(id)))
        })?;
        let stream = Self::new(service, id);
        moving::listen(service.shared(), (id, generation), socket, service.config())?;
        Ok(stream)
    }

    /// Returns `true` if TCP carries it now: it was made so, or RDMA has failed.
    #[must_use]
    pub fn is_over_tcp(&self) -> bool {
        let mut state = self.inner.service.lock();
        state.link(self.inner.id).is_some_and(|(link, _)| link.is_by_tcp())
    }

    /// Whom it is connected to: the address and port that the peer listens to or, at the peer, that
    /// of who connected.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`].
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.inner.peer_addr()
    }

    /// Ends the direction that this end writes: the peer reads what was written, and then the end.
    ///
    /// # Errors
    /// None so far; a stream that has ended is shut already.
    pub fn shutdown_write(&self) -> io::Result<()> {
        self.inner.shut()
    }

    /// Gives the stream up: what was written may be lost, and both ends fail from now on.
    pub fn reset(&self) {
        self.inner.service.call(|state| {
            if let Some((link, _)) = state.link(self.inner.id) {
                link.abort();
            }
            state.rouse(self.inner.id);
        });
    }

    /// Sets how long a read waits, `None`: for ever. It then fails with
    /// [`io::ErrorKind::TimedOut`], and nothing was read.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a time of zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        set(&self.inner.read_timeout, timeout)
    }

    /// Sets how long a write waits for room, `None`: for ever. It then fails with
    /// [`io::ErrorKind::TimedOut`], and nothing was written; [`write_buffer`](Self::write_buffer)
    /// waits as long for each message, and may have written some.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a time of zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        set(&self.inner.write_timeout, timeout)
    }

    /// How long a read waits; `None`: for ever.
    #[must_use]
    pub fn read_timeout(&self) -> Option<Duration> {
        get(&self.inner.read_timeout)
    }

    /// How long a write waits for room; `None`: for ever.
    #[must_use]
    pub fn write_timeout(&self) -> Option<Duration> {
        get(&self.inner.write_timeout)
    }

    /// Registered memory to write in place: bytes that are put there and given to
    /// [`write_buffer`](Self::write_buffer) are not copied. It has room for as many bytes as one
    /// message may have: `Config::block_bytes` less 32 for more than a chunk, and for fewer `len`,
    /// or where all blocks are in use, `Config::chunk_bytes` less 32. Waits while the pool is full,
    /// as long as a write does.
    ///
    /// # Errors
    /// As a write.
    pub fn buffer(&self, len: usize) -> io::Result<Buffer> {
        self.inner.buffer(len)
    }

    /// Writes all bytes of a buffer of the endpoint, which is empty then, and has no memory any
    /// more. They are not copied, but for what goes over TCP.
    ///
    /// # Errors
    /// As a write, and [`io::ErrorKind::InvalidInput`] for a buffer of another endpoint. What was
    /// not written is still in the buffer.
    pub fn write_buffer(&self, buffer: &mut Buffer) -> io::Result<()> {
        self.inner.write_buffer(buffer)
    }

    /// Reads the bytes that come next, up to the end of one message, where they lie: they are not
    /// copied. Waits as a read does. No bytes are the end of the stream.
    ///
    /// The memory is the program's until it drops them, and the peer may send as much less.
    ///
    /// # Errors
    /// As a read.
    pub fn read_buffer(&self) -> io::Result<Received> {
        self.inner.read_buffer()
    }

    /// Reads what there is, or has the task woken when there may be more.
    #[cfg(feature = "tokio")]
    pub(crate) fn poll_read(&self, waker: &Waker, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.inner.poll(On::Read, waker, |link, pool| link.read(pool, buffer))
    }

    /// Writes what there is room for, or has the task woken when there may be some.
    #[cfg(feature = "tokio")]
    pub(crate) fn poll_write(&self, waker: &Waker, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.inner.poll(On::Write, waker, |link, pool| link.write(pool, parts))
    }

    /// Memory to write in place, or has the task woken when there may be some.
    #[cfg(feature = "tokio")]
    pub(crate) fn poll_buffer(&self, waker: &Waker, len: usize) -> Poll<io::Result<Buffer>> {
        let space = self.inner.poll(On::Write, waker, |link, pool| link.space(pool, len));
        space.map_ok(|space| Buffer::new(&self.inner.service, space))
    }

    /// Writes what there is room for, or has the task woken when there may be some; ready when all
    /// is written.
    #[cfg(feature = "tokio")]
    pub(crate) fn poll_write_buffer(&self, waker: &Waker, buffer: &mut Buffer) -> Poll<io::Result<()>> {
        let filled = buffer.filled(&self.inner.service)?;
        while filled.len > 0 {
            let written = self.inner.poll(On::Write, waker, |link, pool| link.write_filled(pool, filled));
            if !matches!(written, Poll::Ready(Ok(()))) {
                return written;
            }
        }
        buffer.give_back();
        Poll::Ready(Ok(()))
    }

    /// Reads the bytes that come next where they lie, or has the task woken when there may be some.
    #[cfg(feature = "tokio")]
    pub(crate) fn poll_read_buffer(&self, waker: &Waker) -> Poll<io::Result<Received>> {
        let borrowed = self.inner.poll(On::Read, waker, Link::borrow);
        borrowed.map_ok(|borrowed| Received::new(&self.inner.service, self.inner.id, borrowed))
    }

    /// Two halves, which may be of two threads. Dropping the half that writes shuts its direction.
    #[must_use]
    pub fn split(self) -> (ReadHalf, WriteHalf) {
        (ReadHalf { inner: Arc::clone(&self.inner) }, WriteHalf { inner: self.inner })
    }
}

fn set(place: &AtomicU64, timeout: Option<Duration>) -> io::Result<()> {
    if timeout.is_some_and(|timeout| timeout.is_zero()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a time of zero; None is for ever"));
    }
    let nanos = timeout.map_or(0, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
    place.store(nanos, Ordering::Relaxed);
    Ok(())
}

fn get(place: &AtomicU64) -> Option<Duration> {
    let nanos = place.load(Ordering::Relaxed);
    (nanos > 0).then(|| Duration::from_nanos(nanos))
}

/// The half of a stream that reads.
pub struct ReadHalf {
    inner: Arc<Inner>,
}

/// The half of a stream that writes.
pub struct WriteHalf {
    inner: Arc<Inner>,
}

impl ReadHalf {
    /// Reads the bytes that come next where they lie, as [`Stream::read_buffer`].
    ///
    /// # Errors
    /// As a read.
    pub fn read_buffer(&self) -> io::Result<Received> {
        self.inner.read_buffer()
    }

    /// Whom the stream is connected to.
    ///
    /// # Errors
    /// As [`Stream::peer_addr`].
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.inner.peer_addr()
    }

    /// Sets how long a read waits, as [`Stream::set_read_timeout`].
    ///
    /// # Errors
    /// As [`Stream::set_read_timeout`].
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        set(&self.inner.read_timeout, timeout)
    }

    /// How long a read waits; `None`: for ever.
    #[must_use]
    pub fn read_timeout(&self) -> Option<Duration> {
        get(&self.inner.read_timeout)
    }
}

impl WriteHalf {
    /// Memory to write at most `len` bytes in place, as [`Stream::buffer`].
    ///
    /// # Errors
    /// As a write.
    pub fn buffer(&self, len: usize) -> io::Result<Buffer> {
        self.inner.buffer(len)
    }

    /// Writes all bytes of a buffer, as [`Stream::write_buffer`].
    ///
    /// # Errors
    /// As [`Stream::write_buffer`].
    pub fn write_buffer(&self, buffer: &mut Buffer) -> io::Result<()> {
        self.inner.write_buffer(buffer)
    }

    /// Ends the direction, as dropping this half does.
    ///
    /// # Errors
    /// As [`Stream::shutdown_write`].
    pub fn shutdown(&self) -> io::Result<()> {
        self.inner.shut()
    }

    /// Whom the stream is connected to.
    ///
    /// # Errors
    /// As [`Stream::peer_addr`].
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.inner.peer_addr()
    }

    /// Sets how long a write waits for room, as [`Stream::set_write_timeout`].
    ///
    /// # Errors
    /// As [`Stream::set_write_timeout`].
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        set(&self.inner.write_timeout, timeout)
    }

    /// How long a write waits for room; `None`: for ever.
    #[must_use]
    pub fn write_timeout(&self) -> Option<Duration> {
        get(&self.inner.write_timeout)
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        // Fails if it is over already.
        let _ = self.inner.shut();
    }
}

macro_rules! reads {
    ($($of:ty),*) => {$(
        impl Read for $of {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.inner.read(buffer)
            }
        }
    )*};
}

macro_rules! writes {
    ($($of:ty),*) => {$(
        impl Write for $of {
            fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
                self.inner.write(&[IoSlice::new(buffer)])
            }

            fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
                self.inner.write(parts)
            }

            fn flush(&mut self) -> io::Result<()> {
                // A write has posted it.
                Ok(())
            }
        }
    )*};
}

reads!(Stream, &Stream, ReadHalf);
writes!(Stream, &Stream, WriteHalf);
