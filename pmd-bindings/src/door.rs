//! The door of a memif server: clients meet us first, and DPDK's driver second.
//!
//! The driver's own listener cannot be shown to the world. It greets whoever connects, and if the client is gone by
//! then (killed, or stopped again) it closes a descriptor that EAL still watches; EAL's interrupt thread finds that
//! and aborts the process. It also turns away clients that come before the port is started, or before the end of the
//! last connection was noticed, and leaves its socket file behind.
//!
//! So the driver listens at a socket without a name, and a thread of ours at the path that users know. It lets one
//! client in at a time, relays messages and the descriptors in them, and never closes the driver's end of a
//! connection before the driver has greeted. Frames do not pass here: they go through the memory that the messages
//! set up.

mod hidden;
mod relay;

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub(crate) use hidden::{Hidden, HiddenPath};
use memif::socket::Listener;
pub(crate) use relay::Terms;
use relay::{Heard, Relay};

use crate::unix;

/// How long a client waits when it could not be let in.
const RESPITE: Duration = Duration::from_millis(10);
/// How long a door that closes for good waits for the driver's greeting.
const FAREWELL: Duration = Duration::from_secs(5);

/// What the thread and its owner share.
#[derive(Debug)]
struct Control {
    /// Readable when one of the flags has changed.
    wake: OwnedFd,
    /// Clients are let in.
    open: AtomicBool,
    /// The thread is to end.
    end: AtomicBool,
    /// Clients that were turned away because they do not keep to our terms.
    refused: AtomicU64,
}

/// A running door. Closed at first; gone, with its socket file, when dropped.
#[derive(Debug)]
pub(crate) struct Door {
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
}

impl Door {
    /// Takes in clients at `listener`, on these terms, on behalf of the driver that listens at `driver`.
    pub(crate) fn install(listener: Listener, driver: Arc<Hidden>, terms: Terms) -> io::Result<Self> {
        let control = Arc::new(Control {
            wake: unix::eventfd()?,
            open: AtomicBool::new(false),
            end: AtomicBool::new(false),
            refused: AtomicU64::new(0),
        });
        let keeper = Keeper { control: Arc::clone(&control), listener, driver, terms, relay: None };
        let thread = thread::Builder::new().name("srnic-memif".into()).spawn(move || keeper.run())?;
        Ok(Self { control, thread: Some(thread) })
    }

    /// Lets clients in, or lets them wait. Who is in stays.
    pub(crate) fn set_open(&self, open: bool) {
        self.control.open.store(open, Ordering::Release);
        unix::raise(&self.control.wake);
    }

    /// Clients turned away so far because they do not keep to our terms.
    pub(crate) fn refused(&self) -> u64 {
        self.control.refused.load(Ordering::Relaxed)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.control.end.store(true, Ordering::Release);
        unix::raise(&self.control.wake);
        if let Some(thread) = self.thread.take() {
            // It does not panic, and a drop has nobody to tell.
            let _ = thread.join();
        }
    }
}

/// The thread.
struct Keeper {
    control: Arc<Control>,
    listener: Listener,
    driver: Arc<Hidden>,
    terms: Terms,
    relay: Option<Relay>,
}

impl Keeper {
    fn run(mut self) {
        while !self.control.end.load(Ordering::Acquire) {
            let timeout = self.relay.as_ref().and_then(Relay::time_left);
            let ready = self.wait(timeout);
            self.serve(ready);
            if ready.listener {
                self.let_in();
            }
        }
        self.farewell();
    }

    /// The driver's end may be closed only after its greeting.
    fn farewell(mut self) {
        let deadline = Instant::now() + FAREWELL;
        if let Some(relay) = &mut self.relay {
            relay.dismiss();
        }
        while self.relay.as_ref().is_some_and(|relay| !relay.is_over()) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // The lesser evil: one descriptor leaks, but EAL lives.
                std::mem::forget(self.relay.take());
                return;
            }
            let ready = self.wait(Some(left));
            self.serve(ready);
        }
    }

    fn wait(&self, timeout: Option<Duration>) -> Ready {
        const NOBODY: RawFd = -1;
        let open = self.relay.is_none() && self.control.open.load(Ordering::Acquire);
        let ending = self.control.end.load(Ordering::Acquire);
        let (client, driver) = self.relay.as_ref().map_or((NOBODY, NOBODY), Relay::descriptors);
        let listener = if open && !ending { self.listener.as_fd().as_raw_fd() } else { NOBODY };
        let ready = unix::poll([self.control.wake.as_raw_fd(), listener, client, driver], timeout);
        if ready[0] {
            unix::lower(&self.control.wake);
        }
        Ready { listener: ready[1], client: ready[2], driver: ready[3] }
    }

    fn serve(&mut self, ready: Ready) {
        let Some(relay) = &mut self.relay else { return };
        if ready.driver {
            relay.hear_driver();
        }
        if ready.client && relay.hear_client() == Heard::Stranger {
            self.control.refused.fetch_add(1, Ordering::Relaxed);
        }
        if relay.time_left().is_some_and(|left| left.is_zero()) {
            relay.dismiss();
        }
        if relay.is_over() {
            self.relay = None;
        }
    }

    fn let_in(&mut self) {
        let Ok(client) = self.listener.accept() else {
            // Gone already, or no descriptors are left, which is not to keep this thread busy.
            thread::sleep(RESPITE);
            return;
        };
        if unix::has_hung_up(&client) {
            return;
        }
        if let Ok(driver) = self.driver.connect() {
            self.relay = Some(Relay::new(client, driver, self.terms));
        }
    }
}

/// Who has something to say.
#[derive(Clone, Copy)]
struct Ready {
    listener: bool,
    client: bool,
    driver: bool,
}

#[cfg(test)]
mod tests;
