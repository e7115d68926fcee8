//! The handshake proxy of a memif server: it speaks with clients in the place of DPDK's driver.
//!
//! The driver's own listener cannot be shown to the world. It greets whoever connects, and if the
//! client is gone by then (killed, or stopped again) it closes a descriptor that EAL still watches;
//! EAL's interrupt thread finds that and aborts the process. It also turns away clients that come
//! before the port is started, or before the end of the last connection was noticed, and leaves its
//! socket file behind.
//!
//! Nor can clients be shown to the driver. It follows rings to wherever they are said to be, and
//! when a client leaves between telling of its memory and having it mapped, the descriptor of that
//! memory stays open for ever.
//!
//! So the driver listens at a socket without a name, and a thread of ours at the path that users
//! know. It lets one client in at a time, tells the driver of a client's memory when all of it is
//! there and can be what it is said to be, and does not close the driver's end of a connection
//! before the driver has greeted, or has made up its mind about the memory. Frames do not pass
//! here: they go through the memory that the messages set up.

mod hidden;
mod offer;
mod relay;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub(crate) use hidden::{PrivateSocketPath, UnnamedListener};
use memif::socket::{self, Listener};
use memif::{NoLink, Refusal};
use relay::Relay;
pub(crate) use relay::Terms;

use crate::unix;

/// How long a client waits when it could not be let in.
const RETRY_DELAY: Duration = Duration::from_millis(10);
/// How long a proxy that closes waits for the driver to answer.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// What the thread and its owner share.
#[derive(Debug)]
struct Control {
    /// Readable when something is to be looked at.
    wake: OwnedFd,
    state: Mutex<ProxyState>,
    /// Signalled when the last client has left.
    empty: Condvar,
    /// The thread is to end.
    end: AtomicBool,
    /// Clients that were turned away because they do not keep to memif's rules, or to our terms.
    refused: AtomicU64,
    /// What became of the last client, until there is another one with a link.
    ended: Mutex<Option<NoLink>>,
    path: PathBuf,
}

#[derive(Debug, Default)]
struct ProxyState {
    /// Clients are let in.
    open: bool,
    /// One is in, or the driver has not done with it.
    occupied: bool,
}

impl Control {
    /// A client was turned away or went, from a link or before it had one.
    fn note(&self, refusal: Refusal, stood: bool) {
        if matches!(refusal, Refusal::Protocol(_) | Refusal::Mismatch(_) | Refusal::Different(_)) {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        if stood || !refusal.is_departure() {
            *self.ended() = Some(NoLink::after(self.path.clone(), Arc::new(refusal), stood));
        }
    }

    fn ended(&self) -> MutexGuard<'_, Option<NoLink>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, ProxyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running proxy. It is closed at first. Dropping it ends its thread and removes its socket file.
#[derive(Debug)]
pub(crate) struct HandshakeProxy {
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
}

impl HandshakeProxy {
    /// Takes in clients at `listener`, on these terms, on behalf of the driver that listens at
    /// `driver`.
    pub(crate) fn install(
        listener: Listener,
        driver: Arc<UnnamedListener>,
        terms: Terms,
    ) -> io::Result<Self> {
        let control = Arc::new(Control {
            wake: unix::eventfd()?,
            state: Mutex::default(),
            empty: Condvar::new(),
            end: AtomicBool::new(false),
            refused: AtomicU64::new(0),
            ended: Mutex::new(None),
            path: listener.path().to_owned(),
        });
        let proxy_thread =
            ProxyThread { control: Arc::clone(&control), listener, driver, terms, relay: None };
        let thread = thread::Builder::new().name("srnic-memif".into()).spawn(move || proxy_thread.run())?;
        Ok(Self { control, thread: Some(thread) })
    }

    /// Lets clients in.
    pub(crate) fn open(&self) {
        self.control.state().open = true;
        unix::raise(&self.control.wake);
    }

    /// Lets clients wait. Who is in must leave; returns when the driver has done with it, but in
    /// [`CLOSE_TIMEOUT`].
    pub(crate) fn close(&self) {
        let mut state = self.control.state();
        state.open = false;
        unix::raise(&self.control.wake);
        // A proxy that cannot be emptied is closed all the same, and a poisoned one says no more
        // than a sound one.
        let _ = self.control.empty.wait_timeout_while(state, CLOSE_TIMEOUT, |state| state.occupied);
    }

    /// Clients turned away so far because they do not keep to memif's rules, or to our terms.
    pub(crate) fn refused(&self) -> u64 {
        self.control.refused.load(Ordering::Relaxed)
    }
}

impl HandshakeProxy {
    /// Why nobody who came here has a link.
    pub(crate) fn no_link(&self) -> NoLink {
        let path = || self.control.path.clone();
        self.control.ended().clone().unwrap_or_else(|| NoLink::NoClient { path: path() })
    }
}

impl Drop for HandshakeProxy {
    fn drop(&mut self) {
        self.close();
        self.control.end.store(true, Ordering::Release);
        unix::raise(&self.control.wake);
        if let Some(thread) = self.thread.take() {
            // It does not panic, and a drop has nobody to tell.
            let _ = thread.join();
        }
    }
}

/// The thread.
struct ProxyThread {
    control: Arc<Control>,
    listener: Listener,
    driver: Arc<UnnamedListener>,
    terms: Terms,
    relay: Option<Relay>,
}

impl ProxyThread {
    fn run(mut self) {
        while !self.control.end.load(Ordering::Acquire) {
            let ready = self.wait(self.relay.as_ref().and_then(Relay::time_left));
            self.serve(ready);
            if ready.listener {
                self.let_in();
            }
        }
        // The lesser evil, if the driver has not answered in all that time: a descriptor leaks, but
        // EAL lives.
        std::mem::forget(self.relay.take());
    }

    fn wait(&self, timeout: Option<Duration>) -> Ready {
        // While one has a link, others only hear that.
        let lets_in = self.relay.as_ref().is_none_or(Relay::is_connected);
        let open = lets_in && self.control.state().open;
        let (client, driver) = self.relay.as_ref().map(Relay::descriptors).unzip();
        let listener = open.then(|| self.listener.as_fd());
        let wake = Some(self.control.wake.as_fd());
        let ready = unix::poll([wake, listener, client.flatten(), driver], timeout);
        if ready[0] {
            unix::lower(&self.control.wake);
        }
        Ready { listener: ready[1], client: ready[2], driver: ready[3] }
    }

    fn serve(&mut self, ready: Ready) {
        let Some(relay) = &mut self.relay else { return };
        if ready.driver {
            relay.hear_driver();
            if relay.is_connected() {
                *self.control.ended() = None;
            }
        }
        if ready.client
            && let Err(refusal) = relay.hear_client()
        {
            self.control.note(refusal, relay.is_connected());
        }
        let is_late = relay.time_left().is_some_and(|left| left.is_zero());
        if is_late {
            self.control.note(Refusal::Late, false);
        }
        let mut state = self.control.state();
        if !state.open || is_late {
            relay.dismiss();
        }
        if relay.is_over() {
            state.occupied = false;
            self.control.empty.notify_all();
            drop(state);
            // Closing what a client handed over may take as long as it likes.
            self.relay = None;
        }
    }

    fn let_in(&mut self) {
        let Ok(client) = self.listener.accept() else {
            // Gone already, or no descriptors are left, which is not to keep this thread busy.
            thread::sleep(RETRY_DELAY);
            return;
        };
        if unix::has_hung_up(&client) {
            return;
        }
        if self.relay.is_some() {
            return socket::turn_away(&client, &Refusal::Taken);
        }
        let mut state = self.control.state();
        if state.open
            && let Ok(driver) = self.driver.connect()
        {
            self.relay = Some(Relay::new(client, driver, self.terms));
            state.occupied = true;
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
