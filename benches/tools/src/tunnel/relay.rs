//! One connection: bytes from TCP to a stream and back, until both directions have ended.

use super::counters::Counters;
use core::fmt;
use rustix::net::sockopt::set_socket_linger;
use srnic_streams::Stream;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Bytes that are carried at once: as many as fit a block of a stream with their header.
const BUFFER: usize = (256 << 10) - 32;

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
pub fn relay(tcp: &TcpStream, stream: &Stream, counters: &Counters) -> Outcome {
    // Small writes go at once, as they do on the stream. Fails on a connection that is over.
    let _ = tcp.set_nodelay(true);
    let broken = AtomicBool::new(false);
    let give_up = || {
        broken.store(true, Ordering::Relaxed);
        stream.reset();
        reset_on_close(tcp);
        // Wakes who reads there, and tells the peer nothing.
        let _ = tcp.shutdown(Shutdown::Read);
    };
    thread::scope(|threads| {
        let sent = threads.spawn(|| {
            let sent = carry(tcp, stream, &counters.sent);
            // What looks like the end may be our own giving up.
            if sent.error.is_some() {
                give_up();
            } else if !broken.load(Ordering::Relaxed) {
                // Fails on a stream that is over.
                let _ = stream.shutdown_write();
            }
            sent
        });
        let received = carry(stream, tcp, &counters.received);
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

/// A connection that is closed from now on is reset.
pub fn reset_on_close(tcp: &TcpStream) {
    // Fails on a connection that is over.
    let _ = set_socket_linger(tcp, Some(Duration::ZERO));
}

/// Carries one direction to its end.
fn carry(mut from: impl Read, mut to: impl Write, counter: &AtomicU64) -> Direction {
    let mut buffer = vec![0; BUFFER];
    let mut bytes = 0;
    loop {
        let moved = match from.read(&mut buffer) {
            Ok(0) => return Direction { bytes, error: None },
            Ok(len) => to.write_all(&buffer[..len]).map(|()| len),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        match moved {
            Ok(len) => {
                bytes += len as u64;
                counter.fetch_add(len as u64, Ordering::Relaxed);
            }
            Err(error) => return Direction { bytes, error: Some(error) },
        }
    }
}
