//! What can go wrong, and why a peer was turned away.

use std::io;
use std::path::PathBuf;

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
    #[error("the peer is no match: {0}")]
    Mismatch(&'static str),
    /// It took too long.
    #[error("the handshake took too long")]
    Late,
    /// The system does not let us.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<rustix::io::Errno> for Refusal {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Io(errno.into())
    }
}
