//! TCP as a carrier of streams: messages one behind the other, each with its header.

use crate::deadline;
use crate::protocol::{Header, Hello, HelloError};
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

/// Messages that wait to be written at most: more than the credit of any peer allows.
const MESSAGES: usize = 1 << 16;

/// What is to be written, and by whom.
struct Queue {
    messages: VecDeque<Arc<[u8]>>,
    /// Nothing comes any more.
    ended: bool,
}

/// The way out of a TCP carrier: whoever posts does not wait.
pub struct Outbox {
    queue: Mutex<Queue>,
    changed: Condvar,
    socket: TcpStream,
}

impl Outbox {
    /// Begins to write to a socket, on a thread of its own.
    pub fn start(socket: &TcpStream) -> io::Result<Arc<Self>> {
        let queue = Mutex::new(Queue { messages: VecDeque::new(), ended: false });
        let outbox = Arc::new(Self { queue, changed: Condvar::new(), socket: socket.try_clone()? });
        let writes = Arc::clone(&outbox);
        thread::Builder::new().name("srnic-tcp-out".to_owned()).spawn(move || writes.write())?;
        Ok(outbox)
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A peer that has us answer without end, and reads nothing, loses the connection.
    pub fn push(&self, message: Arc<[u8]>) {
        let mut queue = self.lock();
        if queue.messages.len() == MESSAGES {
            drop(queue);
            return self.abandon();
        }
        queue.messages.push_back(message);
        drop(queue);
        self.changed.notify_one();
    }

    /// What was pushed is still written, and then the end.
    pub fn finish(&self) {
        self.lock().ended = true;
        self.changed.notify_one();
    }

    /// Nothing more is written or read.
    pub fn abandon(&self) {
        self.lock().messages.clear();
        self.finish();
        // Fails on a socket that is over.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    fn next(&self) -> Option<Arc<[u8]>> {
        let mut queue = self.lock();
        loop {
            if let Some(message) = queue.messages.pop_front() {
                return Some(message);
            }
            if queue.ended {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn write(&self) {
        let mut socket = &self.socket;
        while let Some(message) = self.next() {
            if socket.write_all(&message).is_err() {
                // Who reads the socket learns of it as well.
                self.abandon();
                return;
            }
        }
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}

/// The next message: its header and its payload of `max` bytes at most.
pub fn read_message(socket: &mut impl Read, max: usize) -> io::Result<([u8; Header::BYTES], Vec<u8>)> {
    let mut header = [0; Header::BYTES];
    socket.read_exact(&mut header)?;
    // A header that is none closes the stream, whatever follows.
    let len = Header::from_bytes(&header).map_or(0, |header| header.length as usize);
    let mut payload = vec![0; len.min(max)];
    socket.read_exact(&mut payload)?;
    Ok((header, payload))
}

/// Connects, says hello, and hears the peer's, in this time.
pub fn connect(to: SocketAddr, own: &Hello, limit: Duration) -> io::Result<(TcpStream, Hello)> {
    let end = deadline::after(limit);
    let mut socket = TcpStream::connect_timeout(&to, limit)?;
    socket.set_nodelay(true)?;
    socket.write_all(&own.to_bytes())?;
    let mut greeting = Greeting::default();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        match greeting.read(&mut socket) {
            Ok(Some(peer)) => {
                socket.set_read_timeout(None)?;
                return Ok((socket, peer));
            }
            Ok(None) => {}
            Err(error) if is_early(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Nothing has come yet, but may.
pub fn is_early(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// What a peer has said of its hello.
#[derive(Default)]
pub struct Greeting {
    bytes: [u8; Hello::BYTES],
    len: usize,
}

impl Greeting {
    /// Reads once; the hello, if that was its end.
    pub fn read(&mut self, socket: &mut impl Read) -> io::Result<Option<Hello>> {
        let read = socket.read(&mut self.bytes[self.len..])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.len += read;
        if self.len < Hello::BYTES {
            return Ok(None);
        }
        let hello = Hello::from_bytes(&self.bytes);
        hello.map(Some).map_err(|error: HelloError| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}
