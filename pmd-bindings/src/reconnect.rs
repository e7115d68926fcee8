//! Connects the client of a shared-memory pair again when its server comes back.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use memif::{Probe, Told};

use crate::error::PortError;
use crate::ethdev::EthPort;
use crate::no_link::NoLink;

/// Between two attempts while nobody listens.
const RETRY: Duration = Duration::from_millis(5);
/// Between two questions to a server that turned the last one away.
const RETRY_DELAY: Duration = Duration::from_millis(50);
/// How long a handshake may take at first; doubled for each that did not come to an end.
const PATIENCE: Duration = Duration::from_millis(100);
const PATIENCE_MAX: Duration = Duration::from_secs(2);

/// Starts the port of a client of memif or vhost-user again until its link is up, and whenever it
/// goes down.
///
/// The driver connects once, when the port starts: it fails if nobody listens, and stays without
/// link for ever if the server was not ready. Only another start tries again. memif's driver does
/// not tell why it has no link, so after an attempt in vain a client of memif asks the server
/// itself, and starts its port when nothing is wrong.
#[derive(Debug)]
pub struct Reconnect {
    next: Option<Instant>,
    patience: Duration,
    /// As last seen.
    up: bool,
    /// Of a memif: whom to ask.
    server: Option<Server>,
}

/// A memif server, as seen from its client.
#[derive(Debug)]
struct Server {
    path: PathBuf,
    told: Told,
    /// The last attempt was in vain.
    is_doubtful: bool,
    /// What it was asked, and until when it may answer.
    question: Option<(Probe, Instant)>,
    /// What is wrong.
    found: Option<memif::NoLink>,
}

impl Default for Reconnect {
    fn default() -> Self {
        Self { next: None, patience: PATIENCE, up: false, server: None }
    }
}

impl Reconnect {
    /// For the client of a memif whose server is at `path`, and whose own name tells this.
    pub(crate) fn memif(path: PathBuf, told: Told) -> Self {
        let server = Server { path, told, is_doubtful: false, question: None, found: None };
        Self { server: Some(server), ..Self::default() }
    }

    /// Does what is due at `now`, and returns whether the link is up. Cheap when nothing is due.
    ///
    /// # Errors
    /// [`PortError`] when the port cannot be stopped. That it cannot be started is what this is
    /// for.
    pub fn tend(&mut self, port: &mut EthPort, now: Instant) -> Result<bool, PortError> {
        if port.link_up() {
            let server = self.server.take().map(Server::found_well);
            *self = Self { up: true, server, ..Self::default() };
            return Ok(true);
        }
        if std::mem::take(&mut self.up) {
            // What the driver does about it in EAL's interrupt thread comes first: that of
            // vhost-user is told now.
            self.next = Some(now + RETRY);
        }
        if self.next.is_some_and(|next| now < next) {
            return Ok(false);
        }
        port.stop()?;
        if let Some(server) = &mut self.server
            && let Err(wait) = server.ask(now)
        {
            self.next = Some(now + wait);
            return Ok(false);
        }
        let wait = match port.start() {
            Err(PortError::Socket { .. }) => RETRY,
            // Behind a handshake that fails, vhost-user's driver leaves its descriptors open: it is
            // not tried often.
            Ok(()) | Err(_) => {
                let patience = self.patience;
                self.patience = (patience * 2).min(PATIENCE_MAX);
                patience
            }
        };
        if let Some(server) = &mut self.server {
            server.is_doubtful = true;
        }
        self.next = Some(now + wait);
        Ok(false)
    }

    /// Why the client of a memif has no link, as last found out.
    pub(crate) fn no_link(&self) -> Option<NoLink> {
        let server = self.server.as_ref()?;
        let path = || server.path.clone();
        let nobody = || {
            if server.is_doubtful {
                memif::NoLink::NoAnswer { path: path() }
            } else {
                memif::NoLink::NoServer { path: path() }
            }
        };
        Some(server.found.clone().unwrap_or_else(nobody).into())
    }
}

impl Server {
    fn found_well(self) -> Self {
        Self { is_doubtful: false, question: None, found: None, ..self }
    }

    /// `Ok` if the port is to be started now; else how long to wait before the next look.
    fn ask(&mut self, now: Instant) -> Result<(), Duration> {
        if !self.is_doubtful {
            return Ok(());
        }
        let (probe, deadline) = match self.question.take() {
            Some(question) => question,
            None => match Probe::begin(self.path.clone(), self.told) {
                Ok(probe) => (probe, now + PATIENCE_MAX),
                Err(why) => {
                    self.found = Some(why);
                    return Err(RETRY);
                }
            },
        };
        match probe.answer() {
            Some(Ok(())) => {
                self.found = None;
                Ok(())
            }
            Some(Err(why)) => {
                self.found = Some(why);
                Err(RETRY_DELAY)
            }
            None if now < deadline => {
                self.found.get_or_insert_with(|| probe.unanswered());
                self.question = Some((probe, deadline));
                Err(Duration::ZERO)
            }
            None => {
                self.found = Some(probe.unanswered());
                Err(RETRY_DELAY)
            }
        }
    }
}
