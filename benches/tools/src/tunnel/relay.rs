//! One connection: bytes from TCP to a stream and back, until both directions have ended.

use super::counters::Counters;
use core::fmt;
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{RecvFlags, recv};
use srnic_streams::Stream;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Bytes that are carried at once: as many as fit a block of a stream with their header.
const BUFFER: usize = (256 << 10) - 32;
/// Bytes at once from which on they are carried without a copy of their own.
const BULK: usize = 32 << 10;
/// How long one side holds bytes back until somebody looks whether the other one is still there.
const LOOK: Duration = Duration::from_millis(250);

/// The two sides of a connection.
pub struct Connection {
    pub tcp: TcpStream,
    pub stream: Stream,
}

impl Connection {
    /// Ends it: either peer sees a reset.
    pub fn give_up(&self) {
        self.stream.reset();
        reset_on_close(&self.tcp, true);
        // Wakes who reads there, and tells the peer nothing. Fails on a connection that is over.
        let _ = self.tcp.shutdown(Shutdown::Read);
    }
}

/// What became of a connection.
pub struct Outcome {
    /// From TCP to the stream.
    sent: Direction,
    /// From the stream to TCP.
    received: Direction,
}

/// Bytes that were carried, and why that ended before the end.
struct Direction {
    bytes: u64,
    error: Option<io::Error>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes out, {} bytes in", self.sent.bytes, self.received.bytes)?;
        match self.sent.error.as_ref().or(self.received.error.as_ref()) {
            Some(error) => write!(f, ", {error}"),
            None => Ok(()),
        }
    }
}

impl Outcome {
    /// Returns `true` if a direction ended before its end.
    pub const fn is_broken(&self) -> bool {
        self.sent.error.is_some() || self.received.error.is_some()
    }
}

/// Carries both directions to their ends, and counts their bytes. The end of one is passed on
/// alone; an error ends both, and either peer sees a reset.
pub fn relay(connection: &Connection, counters: &Counters) -> Outcome {
    let Connection { tcp, stream } = connection;
    // Small writes go at once, as they do on the stream. Fails on a connection that is over.
    let _ = tcp.set_nodelay(true);
    // Who reads hears of a reset. Who waits for room looks for it.
    let _ = tcp.set_write_timeout(Some(LOOK));
    let _ = stream.set_write_timeout(Some(LOOK));
    let broken = AtomicBool::new(false);
    let give_up = || {
        broken.store(true, Ordering::Relaxed);
        connection.give_up();
    };
    thread::scope(|threads| {
        let sent = threads.spawn(|| {
            let sent = send(tcp, stream, &counters.sent);
            // What looks like the end may be our own giving up.
            if sent.error.is_some() {
                give_up();
            } else if !broken.load(Ordering::Relaxed) {
                // Fails on a stream that is over.
                let _ = stream.shutdown_write();
            }
            sent
        });
        let received = receive(stream, tcp, &broken, &counters.received);
        if received.error.is_some() {
            give_up();
        } else {
            // Fails on a connection that is over.
            let _ = tcp.shutdown(Shutdown::Write);
        }
        let panicked = |_| Direction { bytes: 0, error: Some(io::Error::other("its thread panicked")) };
        Outcome { sent: sent.join().unwrap_or_else(panicked), received }
    })
}

/// Whether a connection is reset when it is closed from now on.
pub fn reset_on_close(tcp: &TcpStream, is_reset: bool) {
    // Fails on a connection that is over.
    let _ = set_socket_linger(tcp, is_reset.then_some(Duration::ZERO));
}

/// Carries one direction to its end, piece by piece; 0 is the end.
fn carry(counter: &AtomicU64, mut piece: impl FnMut() -> io::Result<usize>) -> Direction {
    let mut bytes = 0;
    loop {
        match piece() {
            Ok(0) => return Direction { bytes, error: None },
            Ok(len) => {
                bytes += len as u64;
                counter.fetch_add(len as u64, Ordering::Relaxed);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Direction { bytes, error: Some(error) },
        }
    }
}

/// From TCP to the stream. Where much comes it is read into the memory that it is sent from; nobody
/// has such memory while nothing comes.
fn send(mut tcp: &TcpStream, mut stream: &Stream, counter: &AtomicU64) -> Direction {
    let (mut copy, mut is_bulk) = (vec![0; BUFFER], false);
    carry(counter, || {
        if is_bulk {
            let mut buffer = patiently(tcp, || stream.buffer(BUFFER))?;
            match buffer.fill_with(|space| recv(tcp, space, RecvFlags::DONTWAIT).map(|(len, _)| len)) {
                Ok(len) => {
                    is_bulk = len >= BULK;
                    return patiently(tcp, || stream.write_buffer(&mut buffer)).map(|()| len);
                }
                Err(Errno::WOULDBLOCK) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let len = tcp.read(&mut copy)?;
        is_bulk = len >= BULK;
        let mut left = &copy[..len];
        while !left.is_empty() {
            let written = patiently(tcp, || stream.write(left))?;
            left = &left[written..];
        }
        Ok(len)
    })
}

/// The result of a call that waits for room in a stream, unless the program at TCP resets the
/// connection meanwhile.
fn patiently<T>(tcp: &TcpStream, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            // A connection that could not be made says why.
            Err(error) if error.kind() == io::ErrorKind::TimedOut && error.get_ref().is_none() => {
                tcp.take_error()?.map_or(Ok(()), Err)?;
            }
            result => return result,
        }
    }
}

/// From the stream to TCP. Where much comes it is written from where it came to; small messages go
/// together.
fn receive(mut stream: &Stream, tcp: &TcpStream, broken: &AtomicBool, counter: &AtomicU64) -> Direction {
    let (mut copy, mut is_bulk) = (vec![0; BUFFER], false);
    let write = |bytes: &[u8]| write(tcp, bytes, || look(stream, broken)).map(|()| bytes.len());
    carry(counter, || {
        if is_bulk {
            let received = stream.read_buffer()?;
            is_bulk = received.len() >= BULK;
            return write(&received);
        }
        let len = stream.read(&mut copy)?;
        is_bulk = len >= BULK;
        write(&copy[..len])
    })
}

/// Writes all of it, and has somebody `look` while there is no room.
fn write(mut tcp: &TcpStream, mut bytes: &[u8], look: impl Fn() -> io::Result<()>) -> io::Result<()> {
    while !bytes.is_empty() {
        match tcp.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => look()?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fails if nobody is to have more of what came by this stream.
fn look(mut stream: &Stream, broken: &AtomicBool) -> io::Result<()> {
    if broken.load(Ordering::Relaxed) {
        return Err(io::ErrorKind::ConnectionAborted.into());
    }
    match stream.write(&[]) {
        // This direction of it may have ended alone.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}
