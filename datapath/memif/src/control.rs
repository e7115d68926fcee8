//! The connection of an end to its peer: waits for it or looks for it, for ever, and has the links
//! of all queues.

use crate::client::Client;
use crate::endpoint::{Config, Role, Shape};
use crate::error::{Error, NoLink, Refusal};
use crate::link::{Connection, Link};
use crate::server::Server;
use crate::socket::{self, Listener};
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Between two looks for a server that is not there, and after a peer that went away.
const RETRY: Duration = Duration::from_millis(5);
/// How long a handshake may take.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
enum State {
    /// Nobody is there; a client looks again at this time.
    Apart(Instant),
    /// A client has until then.
    Greeting(Client, Instant),
    /// So has a client of ours.
    Greeted(Server, Instant),
    Linked(Connection),
}

/// What the queues of an end have in common.
#[derive(Debug)]
pub(crate) struct Control {
    shape: Shape,
    path: PathBuf,
    /// Of a server.
    listener: Option<Listener>,
    state: State,
    /// Connections so far, so that a queue finds out that its link is of an old one.
    life: u64,
    /// How the last meeting or connection ended, until there is another connection.
    ended: Option<Ended>,
    /// Of a client: what its last attempt to connect found, if that was no server.
    missing: Option<Arc<io::Error>>,
}

#[derive(Clone, Debug)]
struct Ended {
    why: Arc<Refusal>,
    /// There was a link.
    stood: bool,
}

impl Control {
    pub(crate) fn open(config: &Config, shape: Shape) -> Result<Arc<Mutex<Self>>, Error> {
        let listener = match config.role {
            Role::Server => Some(Listener::bind(&config.path)?),
            Role::Client => {
                socket::check_length(&config.path)
                    .map_err(|problem| Error::Socket { path: config.path.clone(), problem })?;
                None
            }
        };
        let (path, state) = (config.path.clone(), State::Apart(Instant::now()));
        let new = Self { shape, path, listener, state, life: 0, ended: None, missing: None };
        Ok(Arc::new(Mutex::new(new)))
    }

    /// The number of the connection, if there is one.
    pub(crate) const fn current(&self) -> Option<u64> {
        if matches!(self.state, State::Linked(_)) { Some(self.life) } else { None }
    }

    /// Returns `true` if a peer is there and the handshake goes on.
    pub(crate) const fn is_meeting(&self) -> bool {
        matches!(self.state, State::Greeting(..) | State::Greeted(..))
    }

    #[cfg(test)]
    pub(crate) fn refused(&self) -> Option<Arc<Refusal>> {
        self.ended.as_ref().map(|ended| Arc::clone(&ended.why))
    }

    /// Why a queue of this end has no link. What is wrong stays said while the next attempt is
    /// under way.
    pub(crate) fn no_link(&self) -> NoLink {
        let path = self.path.clone();
        if self.current().is_some() {
            return NoLink::NotTended { path };
        }
        if let Some(error) = &self.missing {
            return no_server(path, error);
        }
        match (&self.ended, &self.listener) {
            (Some(Ended { why, stood: false }), None) if matches!(**why, Refusal::Late) => {
                NoLink::NoAnswer { path }
            }
            (Some(Ended { why, stood }), _) => NoLink::after(path, Arc::clone(why), *stood),
            (None, Some(_)) => NoLink::NoClient { path },
            (None, None) if self.is_meeting() => NoLink::NoAnswer { path },
            (None, None) => NoLink::NoServer { path },
        }
    }

    /// The part of a queue, if there is a connection and nobody has it yet.
    pub(crate) fn take(&mut self, queue: usize) -> Option<Link> {
        match &mut self.state {
            State::Linked(connection) => connection.take(queue),
            _ => None,
        }
    }

    /// Ends the connection, and says why: to the peer as well.
    pub(crate) fn end(&mut self, refusal: Refusal, now: Instant) {
        if let State::Linked(connection) = &self.state {
            connection.turn_away(&refusal);
        }
        self.ended(refusal, true, now);
    }

    fn ended(&mut self, why: Refusal, stood: bool, now: Instant) {
        self.state = State::Apart(now + RETRY);
        // Who asked a server whether it is there and went again, as DPDK's driver does, tells
        // nothing.
        if stood || self.listener.is_none() || !why.is_departure() {
            self.ended = Some(Ended { why: Arc::new(why), stood });
        }
    }

    pub(crate) fn tend(&mut self, now: Instant) {
        let before = self.current();
        let state = std::mem::replace(&mut self.state, State::Apart(now + RETRY));
        match self.advance(state, now) {
            Ok(state) => self.state = state,
            Err(refusal) => self.ended(refusal, before.is_some(), now),
        }
        if before.is_none() && self.current().is_some() {
            self.life += 1;
            self.ended = None;
        }
    }

    fn advance(&mut self, state: State, now: Instant) -> Result<State, Refusal> {
        match state {
            State::Apart(due) => self.meet(due, now),
            State::Greeting(client, deadline) => match client.step(&self.shape)? {
                Ok(connection) => Ok(State::Linked(connection)),
                Err(client) => in_time(now, deadline).map(|()| State::Greeting(client, deadline)),
            },
            State::Greeted(server, deadline) => match server.step(&self.shape)? {
                Ok(connection) => Ok(State::Linked(connection)),
                Err(server) => in_time(now, deadline).map(|()| State::Greeted(server, deadline)),
            },
            State::Linked(connection) => {
                connection.check().inspect_err(|refusal| connection.turn_away(refusal))?;
                // A third process hears why it waits in vain.
                if let Some(Ok(stranger)) = self.listener.as_ref().map(Listener::accept) {
                    socket::turn_away(&stranger, &Refusal::Taken);
                }
                Ok(State::Linked(connection))
            }
        }
    }

    /// Lets a client in, or goes to the server.
    fn meet(&mut self, due: Instant, now: Instant) -> Result<State, Refusal> {
        if let Some(listener) = &self.listener {
            return match listener.accept() {
                Ok(socket) => Ok(State::Greeted(Server::new(socket, &self.shape)?, now + PATIENCE)),
                // Nobody is there, or gone already.
                Err(_) => Ok(State::Apart(due)),
            };
        }
        if now < due {
            return Ok(State::Apart(due));
        }
        match socket::connect(&self.path) {
            Ok(socket) => {
                self.missing = None;
                Ok(State::Greeting(Client::new(socket, &self.shape)?, now + PATIENCE))
            }
            // Nobody listens yet.
            Err(error) => {
                self.missing = Some(Arc::new(error));
                Ok(State::Apart(now + RETRY))
            }
        }
    }
}

/// Why a client at `path` has no server, by what the system said to its attempt.
pub(crate) fn no_server(path: PathBuf, error: &Arc<io::Error>) -> NoLink {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => NoLink::NoServer { path },
        // So many wait that no more may.
        ErrorKind::WouldBlock => NoLink::NoAnswer { path },
        _ => NoLink::Unreachable { path, source: Arc::clone(error) },
    }
}

fn in_time(now: Instant, deadline: Instant) -> Result<(), Refusal> {
    if now < deadline { Ok(()) } else { Err(Refusal::Late) }
}
