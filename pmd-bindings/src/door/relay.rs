//! One client's connection to the driver.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use crate::unix::{self, Message};

/// How long a client may take from connecting to the end of its handshake.
const HANDSHAKE: Duration = Duration::from_secs(2);
/// memif's message that ends the handshake, from the server.
const CONNECTED: u16 = 7;

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
    greeted: bool,
    driver_gone: bool,
    /// `None` once connected.
    deadline: Option<Instant>,
}

impl Relay {
    pub(super) fn new(client: OwnedFd, driver: OwnedFd) -> Self {
        let deadline = Some(Instant::now() + HANDSHAKE);
        Self { client: Some(client), driver, greeted: false, driver_gone: false, deadline }
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
    pub(super) fn hear_client(&mut self) {
        let Some(client) = &self.client else { return };
        let heard: Result<Option<Message>, _> = unix::receive(client);
        match heard {
            Ok(Some(message)) => {
                // A driver that does not listen any more says so by closing its end.
                let _ = unix::send(&self.driver, &message);
            }
            Ok(None) => {}
            Err(_) => self.dismiss(),
        }
    }
}
