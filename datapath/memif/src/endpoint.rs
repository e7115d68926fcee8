//! One end: waits for its peer or looks for it, for ever.

use crate::client::Client;
use crate::error::{Error, Refusal};
use crate::link::Link;
use crate::message::SECRET_LEN;
use crate::ring::SIZE_LOG2_MAX;
use crate::server::Server;
use crate::socket::{self, Listener};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Between two looks for a server that is not there, and after a peer that went away.
const RETRY: Duration = Duration::from_millis(5);
/// How long a handshake may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// What an end of ours is called: its name says how long its frames may be.
const NAME: &str = "net_memif_f";

/// Which end it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Makes the socket, and waits.
    Server,
    /// Connects, and makes the memory.
    Client,
}

/// What an end is like.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The socket, at most 107 bytes.
    pub path: PathBuf,
    /// Which end.
    pub role: Role,
    /// Longest frame, in bytes: the same at both ends.
    pub max_frame: u16,
    /// Binary logarithm of the slots of each ring, 1 to 14. The client's counts.
    pub ring_size_log2: u8,
    /// What a client must say to be let in; at most 23 bytes.
    pub secret: Option<String>,
}

/// What both handshakes must know.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub max_frame: usize,
    pub ring_size_log2: u8,
    pub secret: Option<String>,
}

impl Shape {
    pub(crate) const fn ring_size(&self) -> usize {
        1 << self.ring_size_log2
    }

    /// Bytes of a buffer: whole cache lines.
    pub(crate) const fn stride(&self) -> usize {
        self.max_frame.next_multiple_of(64)
    }

    pub(crate) fn interface_name(&self) -> String {
        format!("{NAME}{}_srnic", self.max_frame)
    }
}

/// The longest frame that a client's name tells of.
pub(crate) fn max_frame_of(name: &[u8]) -> Option<u16> {
    let digits = std::str::from_utf8(name).ok()?.strip_prefix(NAME)?;
    digits.split('_').next()?.parse().ok()
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one of them, and mostly it is the large one")]
enum State {
    /// Nobody is there; a client looks again at this time.
    Apart(Instant),
    /// A client has until then.
    Greeting(Client, Instant),
    /// So has a client of ours.
    Greeted(Server, Instant),
    Linked(Link),
}

/// One end of a pair.
#[derive(Debug)]
pub struct Endpoint {
    shape: Shape,
    path: PathBuf,
    /// Of a server.
    listener: Option<Listener>,
    state: State,
    refused: Option<Refusal>,
}

impl Endpoint {
    /// Opens it. There is no link before [`Endpoint::tend`] made one.
    ///
    /// # Errors
    /// [`Error`]: a server's socket cannot be made, or a value is out of range.
    pub fn open(config: &Config) -> Result<Self, Error> {
        let within = |what, given: u64, min, max| {
            let fits = (min..=max).contains(&given);
            if fits { Ok(()) } else { Err(Error::OutOfRange { what, given, min, max }) }
        };
        within("the longest frame", config.max_frame.into(), 64, u16::MAX.into())?;
        within("ring_size_log2", config.ring_size_log2.into(), 1, SIZE_LOG2_MAX.into())?;
        let secret = config.secret.as_ref().map_or(0, String::len);
        within("the length of the secret", secret as u64, 0, SECRET_LEN as u64 - 1)?;
        let listener = match config.role {
            Role::Server => Some(Listener::bind(&config.path)?),
            Role::Client => None,
        };
        Ok(Self {
            shape: Shape {
                max_frame: config.max_frame.into(),
                ring_size_log2: config.ring_size_log2,
                secret: config.secret.clone(),
            },
            path: config.path.clone(),
            listener,
            state: State::Apart(Instant::now()),
            refused: None,
        })
    }

    /// The connection, while there is one.
    #[inline]
    pub fn link(&mut self) -> Option<&mut Link> {
        match &mut self.state {
            State::Linked(link) => Some(link),
            _ => None,
        }
    }

    /// The same, to look at.
    #[inline]
    #[must_use]
    pub const fn linked(&self) -> Option<&Link> {
        match &self.state {
            State::Linked(link) => Some(link),
            _ => None,
        }
    }

    #[cfg(test)]
    pub(crate) fn into_link(mut self) -> Option<Link> {
        let state = std::mem::replace(&mut self.state, State::Apart(Instant::now()));
        if let State::Linked(link) = state { Some(link) } else { None }
    }

    /// Why the last connection ended, or did not come about.
    #[must_use]
    pub const fn refused(&self) -> Option<&Refusal> {
        self.refused.as_ref()
    }

    /// Looks after the connection: whether the peer is there, what it says, and whether to look for it again. To be called
    /// now and then, and often while there is no link. Never waits.
    #[cold]
    pub fn tend(&mut self, now: Instant) {
        let state = std::mem::replace(&mut self.state, State::Apart(now + RETRY));
        match self.advance(state, now) {
            Ok(state) => self.state = state,
            Err(refusal) => self.refused = Some(refusal),
        }
    }

    fn advance(&self, state: State, now: Instant) -> Result<State, Refusal> {
        match state {
            State::Apart(due) => self.meet(due, now),
            State::Greeting(client, deadline) => match client.step(&self.shape)? {
                Ok(link) => Ok(State::Linked(link)),
                Err(client) => in_time(now, deadline).map(|()| State::Greeting(client, deadline)),
            },
            State::Greeted(server, deadline) => match server.step(&self.shape)? {
                Ok(link) => Ok(State::Linked(link)),
                Err(server) => in_time(now, deadline).map(|()| State::Greeted(server, deadline)),
            },
            State::Linked(mut link) => {
                link.check()?;
                Ok(State::Linked(link))
            }
        }
    }

    /// Lets a client in, or goes to the server.
    fn meet(&self, due: Instant, now: Instant) -> Result<State, Refusal> {
        if let Some(listener) = &self.listener {
            return match listener.accept() {
                Ok(socket) => Ok(State::Greeted(Server::new(socket)?, now + PATIENCE)),
                // Nobody is there, or gone already.
                Err(_) => Ok(State::Apart(due)),
            };
        }
        if now < due {
            return Ok(State::Apart(due));
        }
        match socket::connect(&self.path) {
            Ok(socket) => Ok(State::Greeting(Client::new(socket, &self.shape)?, now + PATIENCE)),
            // Nobody listens yet.
            Err(_) => Ok(State::Apart(now + RETRY)),
        }
    }
}

fn in_time(now: Instant, deadline: Instant) -> Result<(), Refusal> {
    if now < deadline { Ok(()) } else { Err(Refusal::Late) }
}
