//! One client's connection to the driver.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use memif::Told;

use crate::unix::{self, Message};

/// How long a client may take from connecting to the end of its handshake.
const HANDSHAKE: Duration = Duration::from_secs(2);
/// memif's message that says which interface the client wants.
const INIT: u16 = 3;
/// That which says where a ring is.
const ADD_RING: u16 = 5;
/// That which asks for the connection, and says what the client calls its end.
const CONNECT: u16 = 6;
/// That which ends the handshake, from the server.
const CONNECTED: u16 = 7;

/// What a client meets here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Number of the driver's interface: one socket of the driver's serves them all, so the door says it in the
    /// client's place.
    pub interface: u32,
    /// What the server's own name tells. A client that says that its longest frame is another is turned away: the driver
    /// would spread a long frame over several of its buffers, and then corrupt later ones. So is one with another number
    /// of queues, or with fewer rings: the driver would take the first ring for that of a queue that has none.
    pub told: Told,
}

/// What came of a client's message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Heard {
    /// Nothing to speak of.
    Well,
    /// Its frames have another length, or it has another number of queues: it is dismissed.
    Stranger,
}

/// A pair of sockets, and what has been said.
///
/// ```text
/// Ungreeted ── driver's first message ──▶ Greeted ── CONNECTED ──▶ Connected
///     │ client gone, or late                 │ client gone, or late    │ client gone
///     ▼                                      ▼                         ▼
/// Dismissed ── driver's first message ──▶  over: both ends are closed
/// ```
/// The driver closing its end ends each of them.
#[derive(Debug)]
pub(super) struct Relay {
    /// `None` once the client is gone or dismissed.
    client: Option<OwnedFd>,
    driver: OwnedFd,
    terms: Terms,
    /// Rings that the client has made.
    rings: usize,
    greeted: bool,
    driver_gone: bool,
    /// `None` once connected.
    deadline: Option<Instant>,
}

impl Relay {
    pub(super) fn new(client: OwnedFd, driver: OwnedFd, terms: Terms) -> Self {
        let deadline = Some(Instant::now() + HANDSHAKE);
        Self { client: Some(client), driver, terms, rings: 0, greeted: false, driver_gone: false, deadline }
    }

    /// The client's socket and the driver's; -1 for one that is gone.
    pub(super) fn descriptors(&self) -> (RawFd, RawFd) {
        (self.client.as_ref().map_or(-1, AsRawFd::as_raw_fd), self.driver.as_raw_fd())
    }

    /// How long the client has for its handshake, if it has not done with it.
    pub(super) fn time_left(&self) -> Option<Duration> {
        self.client.as_ref()?;
        Some(self.deadline?.saturating_duration_since(Instant::now()))
    }

    /// Whether both ends can be closed.
    pub(super) fn is_over(&self) -> bool {
        self.driver_gone || (self.client.is_none() && self.greeted)
    }

    /// Lets the client go.
    pub(super) fn dismiss(&mut self) {
        self.client = None;
    }

    /// Passes on what the driver has said.
    pub(super) fn hear_driver(&mut self) {
        let message = match unix::receive(&self.driver) {
            Ok(Some(message)) => message,
            Ok(None) => return,
            Err(_) => {
                self.driver_gone = true;
                return;
            }
        };
        self.greeted = true;
        if message.kind() == Some(CONNECTED) {
            self.deadline = None;
        }
        if self.client.as_ref().is_some_and(|client| unix::send(client, &message).is_err()) {
            self.dismiss();
        }
    }

    /// Passes on what the client has said.
    pub(super) fn hear_client(&mut self) -> Heard {
        let Some(received) = self.client.as_ref().map(unix::receive) else { return Heard::Well };
        match received {
            Ok(Some(mut message)) => {
                if message.kind() == Some(INIT) {
                    message.set_interface(self.terms.interface);
                }
                if self.is_strange(&message) {
                    self.dismiss();
                    return Heard::Stranger;
                }
                // A driver that does not listen any more says so by closing its end.
                let _ = unix::send(&self.driver, &message);
            }
            Ok(None) => {}
            Err(_) => self.dismiss(),
        }
        Heard::Well
    }

    /// Whether the message breaks our terms.
    fn is_strange(&mut self, message: &Message) -> bool {
        let told = self.terms.told;
        let rings = 2 * usize::from(told.queues);
        match message.kind() {
            Some(ADD_RING) => {
                self.rings += 1;
                message.ring_index().is_some_and(|index| index >= told.queues.into())
            }
            Some(CONNECT) => {
                let lacks_rings = told.queues > 1 && self.rings < rings;
                lacks_rings
                    || message.interface_name().and_then(Told::by).is_some_and(|theirs| theirs != told)
            }
            _ => false,
        }
    }
}
