//! A window into a running device: whoever connects reads its counters, and what each queue pair waits for.
//!
//! A thread of its own answers, so that the answer comes whatever the program does, and the engine pays for it only while
//! somebody asks. It speaks HTTP, as Prometheus does, over TCP or a UNIX socket.

mod address;
mod text;

pub use address::StatAddress;
pub(crate) use text::Facts;

use crate::error::Error;
use address::{StatListener, Stream};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long somebody who connects may take to ask, and to listen.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longest request that is read.
const REQUEST_MAX: usize = 8192;

/// The thread that answers; it ends when this is dropped.
pub(crate) struct StatServer {
    bell: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl StatServer {
    /// Listens at `address`.
    pub fn start(address: &StatAddress, facts: Facts) -> Result<Self, Error> {
        let fails = |source| Error::Stat { address: address.to_string(), source };
        let bell = eventfd(0, EventfdFlags::CLOEXEC).map_err(|errno| fails(errno.into()))?;
        let bell = Arc::new(bell);
        let listener = StatListener::bind(address).map_err(fails)?;
        let stop = Arc::clone(&bell);
        let thread = thread::Builder::new().name("srnic-stat".to_owned());
        let thread = thread.spawn(move || serve(&listener, &stop, &facts)).map_err(fails)?;
        Ok(Self { bell, thread: Some(thread) })
    }
}

impl Drop for StatServer {
    fn drop(&mut self) {
        // Fails only if the counter is at its end, far above the one that it is raised to.
        let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A panic of it has shown itself; there is nothing to add.
            let _ = thread.join();
        }
    }
}

/// One visitor after the other, until the bell rings.
fn serve(listener: &StatListener, stop: &OwnedFd, facts: &Facts) {
    loop {
        let mut ready =
            [PollFd::new(stop, PollFlags::IN), PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)];
        if poll(&mut ready, None).is_err() {
            continue;
        }
        if !ready[0].revents().is_empty() {
            return;
        }
        if let Ok(visitor) = listener.accept() {
            // One that goes away, or says nothing, is no loss.
            let _ = answer(visitor, facts);
        }
    }
}

fn answer(mut visitor: Stream, facts: &Facts) -> io::Result<()> {
    let end = Instant::now() + PATIENCE;
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut block = [0; 1024];
        // All of it, however the bytes come; no time at all is no limit to the system.
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        visitor.set_patience(left)?;
        let count = visitor.read(&mut block)?;
        request.extend_from_slice(&block[..count]);
        if count == 0 || request.len() > REQUEST_MAX {
            return Ok(());
        }
    }
    visitor.set_patience(PATIENCE)?;
    let (status, body) = match request.starts_with(b"GET ") {
        true => ("200 OK", facts.text()),
        false => ("405 Method Not Allowed", "only GET\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    visitor.write_all(head.as_bytes())?;
    visitor.write_all(body.as_bytes())
}
