//! Who comes to a listener that has a port of TCP as well: a thread takes both in, and goes on with
//! streams that come by another carrier whether the program accepts or not.

use crate::endpoint::moving::{self, Move};
use crate::endpoint::tcp;
use crate::listener::Door;
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

/// Streams that wait to be accepted, and who waits for them.
#[derive(Default)]
struct Queue {
    streams: VecDeque<io::Result<Stream>>,
    waker: Option<Waker>,
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

    fn push(&self, stream: io::Result<Stream>) {
        let mut queue = self.lock();
        if queue.streams.len() == BACKLOG {
            return;
        }
        queue.streams.push_back(stream);
        let waker = queue.waker.take();
        drop(queue);
        self.changed.notify_one();
        if let Some(waker) = waker {
            waker.wake();
        }
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
        let end = Instant::now() + limit;
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
        match queue.streams.pop_front() {
            Some(stream) => Poll::Ready(stream),
            None => {
                queue.waker = Some(waker.clone());
                Poll::Pending
            }
        }
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

fn serve(shared: &Arc<Shared>, door: &Arc<Door>, listener: &TcpListener) {
    while !shared.stopping.load(Ordering::Relaxed) {
        match door.accept_within(LOOK) {
            Ok(Some(stream)) => shared.push(Ok(stream)),
            Ok(None) => {}
            Err(error) => shared.push(Err(error)),
        }
        // Nobody is there, or who was there is gone again.
        while let Ok((socket, from)) = listener.accept() {
            let (shared, door) = (Arc::clone(shared), Arc::clone(door));
            // A peer may take its time to say hello.
            let greets = move || match greet(&door, socket, from) {
                Ok(Some(stream)) => shared.push(Ok(stream)),
                Ok(None) => {}
                Err(_) => door.service.lock().reject(),
            };
            let _ = thread::Builder::new().name("srnic-greet".to_owned()).spawn(greets);
        }
    }
}

/// Hears what a peer wants: a new stream, or to go on with one.
fn greet(door: &Door, mut socket: TcpStream, from: SocketAddr) -> io::Result<Option<Stream>> {
    socket.set_nonblocking(false)?;
    socket.set_nodelay(true)?;
    let peer = tcp::read_hello(&mut socket)?;
    let service = &door.service;
    let own = moving::hello(service.config(), peer.token, peer.features.resumes);
    if !peer.features.resumes {
        socket.write_all(&own.to_bytes())?;
        let moves = Move::new(peer.token, None);
        return Stream::by_tcp(service, (&own, &peer), moves, (socket, from)).map(Some);
    }
    let found = service.lock().by_token(&peer.token);
    let id = found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    socket.write_all(&own.to_bytes())?;
    moving::attach(service.shared(), id, socket, from, service.config())?;
    Ok(None)
}
