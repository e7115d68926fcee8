//! Keeps the client of a shared-memory pair at the door.

use std::time::{Duration, Instant};

use crate::error::PortError;
use crate::ethdev::EthPort;

/// Between two attempts while nobody listens.
const RETRY: Duration = Duration::from_millis(5);
/// How long a handshake may take at first; doubled for each that did not come to an end.
const PATIENCE: Duration = Duration::from_millis(100);
const PATIENCE_MAX: Duration = Duration::from_secs(2);

/// Starts the port of a client of memif or vhost-user again until its link is up, and whenever it goes down.
///
/// The driver connects once, when the port starts: it fails if nobody listens, and stays without link for ever if
/// the server was not ready. Only another start tries again.
#[derive(Debug)]
pub struct Reconnect {
    next: Option<Instant>,
    patience: Duration,
    /// As last seen.
    up: bool,
}

impl Default for Reconnect {
    fn default() -> Self {
        Self { next: None, patience: PATIENCE, up: false }
    }
}

impl Reconnect {
    /// Does what is due at `now`, and returns whether the link is up. Cheap when nothing is due.
    ///
    /// # Errors
    /// [`PortError`] when the port cannot be stopped. That it cannot be started is what this is for.
    pub fn tend(&mut self, port: &mut EthPort, now: Instant) -> Result<bool, PortError> {
        if port.link_up() {
            *self = Self { up: true, ..Self::default() };
            return Ok(true);
        }
        if std::mem::take(&mut self.up) {
            // What the driver does about it in EAL's interrupt thread comes first: that of vhost-user is told now.
            self.next = Some(now + RETRY);
        }
        if self.next.is_some_and(|next| now < next) {
            return Ok(false);
        }
        port.stop()?;
        let wait = if port.start().is_ok() {
            let patience = self.patience;
            self.patience = (patience * 2).min(PATIENCE_MAX);
            patience
        } else {
            RETRY
        };
        self.next = Some(now + wait);
        Ok(false)
    }
}
