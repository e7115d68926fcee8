//! Streams as programs have them.

use crate::endpoint::moving::{self, Move};
use crate::endpoint::tcp::Outbox;
use crate::endpoint::{On, Service, State};
use crate::error::{Error, Setup};
use crate::protocol::Hello;
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
    /// Waits until `call` has a result, for the time that `timeout` says.
    fn wait<T>(
        &self,
        (timeout, on): (&AtomicU64, On),
        call: impl FnMut(&mut State) -> Option<io::Result<T>>,
    ) -> io::Result<T> {
        let end = match timeout.load(Ordering::Relaxed) {
            0 => None,
            nanos => Instant::now().checked_add(Duration::from_nanos(nanos)),
        };
        self.service.wait(end, on, call).unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }

    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait((&self.read_timeout, On::Read(self.id)), |state| {
            let Some((link, pool)) = state.link(self.id) else { return Some(Err(gone())) };
            link.read(pool, buffer)
        })
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.wait((&self.write_timeout, On::Write(self.id)), |state| {
            let Some((link, pool)) = state.link(self.id) else { return Some(Err(gone())) };
            link.write(pool, parts)
        })
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
    /// [`io::ErrorKind::TimedOut`], and nothing was written.
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

    /// Reads what there is, or has the task woken when there may be more.
    #[cfg(feature = "tokio")]
    pub(crate) fn poll_read(&self, waker: &Waker, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let Inner { service, id, .. } = &*self.inner;
        service.call(|state| {
            state.process();
            let Some((link, pool)) = state.link(*id) else { return Poll::Ready(Err(gone())) };
            let read = link.read(pool, buffer);
            if read.is_none() {
                state.wake_reader(*id, waker);
            }
            read.map_or(Poll::Pending, Poll::Ready)
        })
    }

    /// Writes what there is room for, or has the task woken when there may be some.
    #[cfg(feature = "tokio")]
    pub(crate) fn poll_write(&self, waker: &Waker, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let Inner { service, id, .. } = &*self.inner;
        service.call(|state| {
            state.process();
            let Some((link, pool)) = state.link(*id) else { return Poll::Ready(Err(gone())) };
            let written = link.write(pool, parts);
            if written.is_none() {
                state.wake_writer(*id, waker);
            }
            written.map_or(Poll::Pending, Poll::Ready)
        })
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
