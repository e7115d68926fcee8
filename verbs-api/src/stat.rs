//! A window into a running device: whoever connects reads its counters, and what each queue pair
//! waits for.
//!
//! A thread of its own answers, so that the answer comes whatever the program does, and the engine
//! pays for it only while somebody asks. It speaks HTTP, as Prometheus does, over TCP or a UNIX
//! socket. It waits for nobody alone: visitors are served side by side, each within a limit.

mod added;
mod address;
mod facts;
mod families;
mod hosts;
mod latency;
mod metrics;
mod names;
mod tenants;
mod visitor;

pub(crate) use added::Sources;
pub use added::{Metric, MetricKind, MetricSource};
pub use address::StatAddress;
pub(crate) use facts::Facts;

use crate::error::Error;
use address::StatListener;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use visitor::Visitor;

/// Visitors that are served at once; further ones wait until one has gone.
const VISITORS_MAX: usize = 16;
/// How long the thread waits when the system refuses it something, such as a descriptor for a
/// visitor.
const REST: Duration = Duration::from_millis(100);

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
        // What a source drops may be the last of the device: then this is the thread itself.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // A panic of it has shown itself; there is nothing to add.
            let _ = thread.join();
        }
    }
}

/// Serves who comes, until the bell rings.
fn serve(listener: &StatListener, stop: &OwnedFd, facts: &Facts) {
    let mut reception = Reception { listener, visitors: Vec::with_capacity(VISITORS_MAX), rests_until: None };
    loop {
        match reception.wait(stop) {
            Ok(Woken::Stop) => return,
            Ok(Woken::Go) => {}
            // Out of memory, perhaps.
            Err(_) => thread::sleep(REST),
        }
        reception.serve(facts, Instant::now());
    }
}

/// Why the thread goes on.
enum Woken {
    Stop,
    Go,
}

/// The listener, and the visitors that are being served.
struct Reception<'a> {
    listener: &'a StatListener,
    visitors: Vec<Visitor>,
    /// Until when nobody is let in, since the system refused it.
    rests_until: Option<Instant>,
}

impl Reception<'_> {
    /// Returns `true` if somebody could be let in.
    fn is_open(&self) -> bool {
        self.rests_until.is_none() && self.visitors.len() < VISITORS_MAX
    }

    /// Waits until there is something to do.
    fn wait(&self, stop: &OwnedFd) -> io::Result<Woken> {
        let due = self.visitors.iter().map(Visitor::due).chain(self.rests_until).min();
        let limit = due.map(|due| due.saturating_duration_since(Instant::now()));
        // One that is out of range is longer than anybody waits.
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let accepts = if self.is_open() { PollFlags::IN } else { PollFlags::empty() };
        let mut ready = vec![PollFd::new(stop, PollFlags::IN), PollFd::new(self.listener, accepts)];
        ready.extend(self.visitors.iter().map(|visitor| PollFd::new(visitor, visitor.waits_for())));
        match poll(&mut ready, limit.as_ref()) {
            Ok(_) if !ready[0].revents().is_empty() => Ok(Woken::Stop),
            Ok(_) | Err(Errno::INTR) => Ok(Woken::Go),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Lets in who waits, and goes on with who is in, without waiting for anybody.
    fn serve(&mut self, facts: &Facts, now: Instant) {
        self.rests_until = self.rests_until.filter(|until| *until > now);
        while self.is_open() {
            match self.listener.accept() {
                Ok(stream) => self.visitors.push(Visitor::new(stream, now)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                // No descriptor is left, for example: the visitor waits.
                Err(_) => self.rests_until = Some(now + REST),
            }
        }
        self.visitors.retain_mut(|visitor| visitor.go_on(facts, now));
    }
}
