//! Errors: of setting up, and of streams inside of `std::io::Error`.

use crate::protocol::{HelloError, Reason, Violation};
use std::io;
use verbs_api::WcStatus;

/// Why an endpoint, a listener or a stream was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Setup {
    /// A size of the configuration is out of bounds.
    #[error("Config::{what} is {given}; it may be {min} to {max}")]
    OutOfRange {
        /// The field.
        what: &'static str,
        /// Its value.
        given: u32,
        /// The smallest value that it may have.
        min: u32,
        /// The largest value that it may have.
        max: u32,
    },
    /// The pool has reached its bound.
    #[error(
        "the pool's {max} bytes are in use; close streams, or give Config a larger memory_max or smaller receives and chunk_bytes"
    )]
    PoolFull {
        /// The bound, in bytes.
        max: usize,
    },
    /// A connection is to carry a stream that is over.
    #[error("the stream that the connection is for is over")]
    Gone,
    /// The verbs below failed.
    #[error(transparent)]
    Verbs(#[from] verbs_api::Error),
    /// The peer is no end of a stream.
    #[error(transparent)]
    Hello(#[from] HelloError),
    /// The operating system refused something.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Setup {
    /// There is no room for one more stream now, and there may be some later.
    pub(crate) const fn is_for_want_of_room(&self) -> bool {
        use verbs_api::{CreateError, Error};
        matches!(self, Self::PoolFull { .. } | Self::Verbs(Error::Create(CreateError::Exhausted { .. })))
    }
}

impl From<Setup> for io::Error {
    fn from(error: Setup) -> Self {
        let kind = match &error {
            Setup::OutOfRange { .. } => io::ErrorKind::InvalidInput,
            Setup::PoolFull { .. } => io::ErrorKind::OutOfMemory,
            Setup::Gone => io::ErrorKind::NotConnected,
            Setup::Hello(_) => io::ErrorKind::InvalidData,
            Setup::Verbs(error) => kind_of(error),
            Setup::Io(error) => error.kind(),
        };
        Self::new(kind, error)
    }
}

/// The kind that a program of sockets knows.
fn kind_of(error: &verbs_api::Error) -> io::ErrorKind {
    use verbs_api::{ConnectionError as C, Error as E};
    match error {
        E::Connection(C::Rejected { .. }) => io::ErrorKind::ConnectionRefused,
        E::Connection(C::TimedOut | C::Deadline(_) | C::Late { .. }) => io::ErrorKind::TimedOut,
        E::Connection(C::Unreachable(_)) => io::ErrorKind::HostUnreachable,
        E::Connection(C::Withdrawn) => io::ErrorKind::ConnectionAborted,
        _ => io::ErrorKind::Other,
    }
}

/// Why a stream ended before its time. It is inside of the `std::io::Error` that a read or write
/// returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The peer's program has dropped its stream and reads no more.
    #[error("the peer's program has dropped its stream")]
    PeerDropped,
    /// The peer has reset the stream.
    #[error("the peer has reset the stream, by code {code}")]
    PeerReset {
        /// The reason as the peer gave it (docs/streams.md).
        code: u32,
    },
    /// A message of the peer broke a rule, and the stream was closed.
    #[error(
        "the peer broke the protocol of streams, in the message at byte {position} of what it sends: {rule}"
    )]
    Violation {
        /// The rule.
        rule: Violation,
        /// Where the message begins: bytes of the stream that had come before it.
        position: u64,
    },
    /// The queue pair has failed.
    #[error("{}", failure(.0))]
    Failed(WcStatus),
    /// The peer ended the connection, and not all bytes were exchanged.
    #[error("the connection was ended before the stream was")]
    Disconnected,
    /// This end has reset the stream.
    #[error("this end has reset the stream")]
    Aborted,
    /// This end has shut the direction that it writes.
    #[error("this end has said that it writes no more")]
    Shut,
}

/// In the words of a program of sockets, where the status has a cause that it knows.
fn failure(status: &WcStatus) -> String {
    match status {
        WcStatus::RetryExcErr => {
            let name = status.name();
            format!(
                "the peer does not answer any more: its process has ended, or the path to it fails ({name})"
            )
        }
        status => format!("the connection failed: {status}"),
    }
}

impl Error {
    pub(crate) const fn of_reset(reason: Reason) -> Self {
        match reason {
            Reason::Dropped => Self::PeerDropped,
            other => Self::PeerReset { code: other.code() },
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error {
            Error::PeerDropped | Error::Shut => io::ErrorKind::BrokenPipe,
            Error::PeerReset { .. } | Error::Disconnected | Error::Failed(_) => {
                io::ErrorKind::ConnectionReset
            }
            Error::Violation { .. } => io::ErrorKind::InvalidData,
            Error::Aborted => io::ErrorKind::ConnectionAborted,
        };
        Self::new(kind, error)
    }
}
