//! Who comes to a listener that has a port of TCP as well: a thread takes both in, and goes on with
//! streams that come by another carrier whether the program accepts or not.

use crate::deadline;
use crate::endpoint::moving::{self, Move};
use crate::endpoint::{Waiters, tcp};
use crate::listener::Door;
use crate::protocol::Hello;
use crate::stream::Stream;
use core::net::SocketAddr;
#[cfg(feature = "tokio")]
use core::task::Poll;
use core::task::Waker;
use core::time::Duration;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// How long one side is waited for before the other is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// Streams that wait to be accepted at most; others are turned away.
const BACKLOG: usize = 1024;
/// How long a peer may take to say hello.
const PATIENCE: Duration = Duration::from_secs(5);
/// Peers that have not said hello at most; for others the first of them are turned away.
const GUESTS: usize = 256;
/// Peers that are taken in before others are heard.
const AT_ONCE: usize = 64;

/// Streams that wait to be accepted, and who waits for them.
#[derive(Default)]
struct Queue {
    streams: VecDeque<io::Result<Stream>>,
    waiters: Waiters,
}

/// A peer that has come by TCP and has not said all of its hello.
struct Guest {
    socket: TcpStream,
    from: SocketAddr,
    greeting: tcp::Greeting,
    until: Instant,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    stopping: AtomicBool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more, or what stood in its way; gives back what there is no room for.
    fn push(&self, stream: io::Result<Stream>) -> Result<(), io::Result<Stream>> {
        let mut queue = self.lock();
        if queue.streams.len() == BACKLOG {
            return Err(stream);
        }
        queue.streams.push_back(stream);
        let wakers: Vec<Waker> = queue.waiters.take().collect();
        drop(queue);
        self.changed.notify_one();
        wakers.into_iter().for_each(Waker::wake);
        Ok(())
    }
}

/// The thread that takes in who comes. It ends when this is dropped.
pub struct Acceptor {
    shared: Arc<Shared>,
    addr: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    pub fn start(door: &Arc<Door>, tcp: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(tcp)?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let shared: Arc<Shared> = Arc::default();
        let (served, door) = (Arc::clone(&shared), Arc::clone(door));
        let thread = thread::Builder::new().name("srnic-accept".to_owned());
        let thread = thread.spawn(move || serve(&served, &door, &listener))?;
        Ok(Self { shared, addr, thread: Some(thread) })
    }

    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The next stream; `None` if none comes in time.
    pub fn next(&self, limit: Duration) -> io::Result<Option<Stream>> {
        let end = deadline::after(limit);
        let mut queue = self.shared.lock();
        loop {
            if let Some(stream) = queue.streams.pop_front() {
                return stream.map(Some);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let waited = self.shared.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The next stream, or has the task woken when there is one.
    #[cfg(feature = "tokio")]
    pub fn poll(&self, waker: &Waker) -> Poll<io::Result<Stream>> {
        let mut queue = self.shared.lock();
        if let Some(stream) = queue.streams.pop_front() {
            return Poll::Ready(stream);
        }
        let mut others = Vec::new();
        queue.waiters.add(waker, &mut others);
        drop(queue);
        others.into_iter().for_each(Waker::wake);
        Poll::Pending
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of it has shown itself.
            let _ = thread.join();
        }
    }
}

fn serve(shared: &Shared, door: &Door, listener: &TcpListener) {
    let mut guests = VecDeque::new();
    while !shared.stopping.load(Ordering::Relaxed) {
        match door.accept_within(LOOK) {
            Ok(Some(stream)) => take_in(shared, door, Ok(stream)),
            Ok(None) => {}
            Err(error) => take_in(shared, door, Err(error)),
        }
        for _ in 0..AT_ONCE {
            // Nobody is there, or who was there is gone again.
            let Ok((socket, from)) = listener.accept() else { break };
            match Guest::new(socket, from) {
                Ok(guest) => guests.push_back(guest),
                Err(_) => door.service.lock().reject(),
            }
        }
        for _ in 0..guests.len() {
            let Some(mut guest) = guests.pop_front() else { break };
            match guest.hear() {
                Ok(Some(peer)) => match greet(door, guest, &peer) {
                    Ok(Some(stream)) => take_in(shared, door, Ok(stream)),
                    Ok(None) => {}
                    Err(_) => door.service.lock().reject(),
                },
                Ok(None) => guests.push_back(guest),
                Err(_) => door.service.lock().reject(),
            }
        }
        while guests.len() > GUESTS {
            guests.pop_front();
            door.service.lock().reject();
        }
    }
}

/// Has a stream, or what stood in its way, wait to be accepted.
fn take_in(shared: &Shared, door: &Door, stream: io::Result<Stream>) {
    if let Err(stream) = shared.push(stream) {
        door.service.lock().reject();
        drop(stream);
    }
}

impl Guest {
    fn new(socket: TcpStream, from: SocketAddr) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let until = Instant::now() + PATIENCE;
        Ok(Self { socket, from, greeting: tcp::Greeting::default(), until })
    }

    /// Its hello, if all of it is there.
    fn hear(&mut self) -> io::Result<Option<Hello>> {
        loop {
            match self.greeting.read(&mut self.socket) {
                Ok(None) => {}
                Ok(hello) => return Ok(hello),
                Err(error) if tcp::is_early(&error) && Instant::now() < self.until => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Does what a peer wants: a new stream, or to go on with one.
fn greet(door: &Door, guest: Guest, peer: &Hello) -> io::Result<Option<Stream>> {
    let Guest { mut socket, from, .. } = guest;
    socket.set_nonblocking(false)?;
    socket.set_nodelay(true)?;
    let service = &door.service;
    let own = moving::hello(service.config(), peer.token, peer.features.resumes);
    if !peer.features.resumes {
        // There is room for it: it is the first that is written.
        socket.write_all(&own.to_bytes())?;
        let moves = Move::new(peer.token, None);
        return Stream::by_tcp(service, (&own, peer), moves, (socket, from)).map(Some);
    }
    let found = service.lock().by_token(&peer.token);
    let id = found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    socket.write_all(&own.to_bytes())?;
    moving::attach(service.shared(), id, socket, from, service.config())?;
    Ok(None)
}
