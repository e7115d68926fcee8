//! Errors, and the reasons why there is no link.

use crate::name::Difference;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;

/// Why an end cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The socket cannot be used.
    #[error("memif socket {path}: {problem}")]
    Socket {
        /// Where it was to be.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// A value that no memif can have.
    #[error("memif: {what} is {given}; it must be from {min} to {max}")]
    OutOfRange {
        /// What it is of.
        what: &'static str,
        /// The value.
        given: u64,
        /// The smallest one.
        min: u64,
        /// The largest one.
        max: u64,
    },
}

/// Why a connection did not come about, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The peer went away.
    #[error("the peer closed the connection")]
    Closed,
    /// The peer said so.
    #[error("the peer disconnected: {0}")]
    Disconnected(String),
    /// It said what none may say, or not then.
    #[error("the peer broke the protocol: {0}")]
    Protocol(&'static str),
    /// It cannot be spoken with.
    #[error("{0}")]
    Mismatch(&'static str),
    /// The two ends were opened with different properties.
    #[error(transparent)]
    Different(#[from] Difference),
    /// A third process came to a pair.
    #[error("the server has a peer already: a memif joins two processes; srnic switch takes one each")]
    Taken,
    /// It took too long.
    #[error("the handshake took too long")]
    Late,
    /// The system does not let us.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Refusal {
    /// The peer went, and nothing was wrong with it.
    #[must_use]
    pub fn is_departure(&self) -> bool {
        match self {
            Self::Closed => true,
            Self::Io(error) => matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset),
            _ => false,
        }
    }

    /// What is wrong, in the words of the end that found it.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Disconnected(reason) => reason.clone(),
            other => other.to_string(),
        }
    }
}

/// Why an end has no link.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoLink {
    /// A server whose socket no client has come to.
    #[error("no client has come to {path}: this end is the server, start the other one with role=client")]
    NoClient {
        /// Where it listens.
        path: PathBuf,
    },
    /// A client at whose path nobody listens. Two clients never meet.
    #[error(
        "nobody listens at {path}: this end is the client, start the other one as the server (role=server)"
    )]
    NoServer {
        /// Where it looks.
        path: PathBuf,
    },
    /// A client that the system does not let connect.
    #[error("this end is the client and cannot connect to {path}: {source}")]
    Unreachable {
        /// Where it looks.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// A client whose server does not go on with the handshake.
    #[error("a server listens at {path} and does not answer: does its program run, and drive its device?")]
    NoAnswer {
        /// Where it looks.
        path: PathBuf,
    },
    /// A queue of a pair that is linked, which has not been looked after since
    /// ([`Endpoint::tend`](crate::Endpoint::tend)).
    #[error("the pair at {path} is linked, and this queue has not looked since: drive its device")]
    NotTended {
        /// The socket.
        path: PathBuf,
    },
    /// The ends do not go together, or one of them broke the protocol. A client tries again, and a
    /// server waits for the next one.
    #[error("the last attempt at {path} was turned away: {}", why.reason())]
    TurnedAway {
        /// The socket.
        path: PathBuf,
        /// What is wrong.
        why: Arc<Refusal>,
    },
    /// There was a link, and it ended.
    #[error("the peer at {path} left ({}), and no other has come", why.reason())]
    Left {
        /// The socket.
        path: PathBuf,
        /// How it ended.
        why: Arc<Refusal>,
    },
}

impl NoLink {
    /// What an end at `path` has to say after this, which ended a connection if one `stood`, and
    /// else a handshake.
    #[must_use]
    pub fn after(path: PathBuf, why: Arc<Refusal>, stood: bool) -> Self {
        if stood { Self::Left { path, why } } else { Self::TurnedAway { path, why } }
    }
}

impl From<rustix::io::Errno> for Refusal {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Io(errno.into())
    }
}
