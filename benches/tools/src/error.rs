//! Why a tool did not succeed.

use crate::program;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use verbs_api::WcStatus;

/// A tool's outcome.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, for a person to read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device, the memory or the queue pair.
    #[error(transparent)]
    Verbs(verbs_api::Error),
    /// A work request failed.
    #[error("{what} failed: {status}")]
    Completion {
        /// Which one.
        what: &'static str,
        /// Its status.
        status: WcStatus,
    },
    /// The side channel failed.
    #[error("the side channel to {address}: cannot {doing}: {source}{}", remedy(doing, source))]
    Channel {
        /// The server's address.
        address: SocketAddr,
        /// What was tried.
        doing: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// The peer closed the side channel before the end.
    #[error("the peer closed the side channel before the transfer was complete; see what it said")]
    PeerLeft,
    /// The peer ended the connection before the last ping was back.
    #[error("the peer disconnected before the last ping was back; see what it said")]
    Disconnected,
    /// The peer says that it failed.
    #[error("the peer failed: {0}")]
    PeerFailed(String),
    /// The peer says something that makes no sense here.
    #[error(
        "the peer said `{said}` where `{expected}` was expected; is it the same tool, of the same version?"
    )]
    Unexpected {
        /// What it said.
        said: String,
        /// What was expected.
        expected: &'static str,
    },
    /// The two sides were started with different options.
    #[error("{option} is {ours} here and {theirs} at the peer: give both sides the same options")]
    Mismatch {
        /// Which option.
        option: String,
        /// Its value here.
        ours: String,
        /// Its value at the peer.
        theirs: String,
    },
    /// Nobody gave `--mtu` here, and the path MTU that follows from the device is not the peer's.
    #[error(
        "the path MTU is {ours} here, as the device allows, and {theirs} at the peer: give both devices the same mtu=, or both \
         sides --mtu {least}"
    )]
    PathMtu {
        /// Bytes here.
        ours: String,
        /// Bytes at the peer.
        theirs: String,
        /// What both can have.
        least: u32,
    },
    /// The device has no link any more, and never has one again.
    #[error("{0}")]
    Removed(String),
    /// Both ends have the same address.
    #[error("both ends are {0}: give each device an ip= of its own")]
    SameAddress(IpAddr),
    /// Options that do not go together.
    #[error("{0}")]
    Options(String),
    /// The simulator differs from theory.
    #[error("{0} of the checks above differ by more than they may: this build simulates wrongly")]
    Oracle(u32),
    /// The client cannot find its server.
    #[error("cannot find host {host}: {source}")]
    Host {
        /// As given.
        host: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// What arrived is not what was sent.
    #[error("byte {offset} of the {what} is {found:#04x}; it must be {expected:#04x}")]
    Differs {
        /// Which memory.
        what: &'static str,
        /// The first byte that is wrong, counted from the memory's start.
        offset: usize,
        /// What it is.
        found: u8,
        /// What it must be.
        expected: u8,
    },
    /// A socket that a tool listens at.
    #[error("cannot listen at {at}: {source}")]
    Listen {
        /// Its address.
        at: String,
        /// What the operating system or the device said.
        source: io::Error,
    },
    /// The streams of a device.
    #[error("cannot {doing} streams of the device: {source}")]
    Streams {
        /// What was tried.
        doing: &'static str,
        /// What the operating system or the device said.
        source: io::Error,
    },
    /// A TCP connection for data.
    #[error("the TCP connection: cannot {doing}: {source}")]
    Tcp {
        /// What was tried.
        doing: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// Atomics that were not executed exactly once.
    #[error("{what} tell of {found} atomics; {executed} were executed")]
    Atomics {
        /// Which words.
        what: &'static str,
        /// What they add up to.
        found: u64,
        /// What they must.
        executed: u64,
    },
    /// Raw frames that came damaged.
    #[error("{wrong} of {received} frames came with a wrong CRC")]
    Frames {
        /// So many.
        wrong: u64,
        /// Of so many.
        received: u64,
    },
    /// A tool with more ports or connections than the system lets it have.
    #[error(
        "{count} {what} need {needed} file descriptors, and this process may have {limit}: raise its hard limit (ulimit -n \
         {needed}, or LimitNOFILE= of its service), or give it fewer {what}"
    )]
    Descriptors {
        /// `ports` or `connections`.
        what: &'static str,
        /// How many it was given.
        count: usize,
        /// What they need.
        needed: u64,
        /// What the process may have.
        limit: u64,
    },
    /// A device tells nothing of where the time of its operations goes.
    #[error(
        "{address}: the device samples no operations; open it with latency=64, as in \
         memif:/tmp/a.sock,stat={address},latency=64"
    )]
    NotSampled {
        /// Where it was asked.
        address: String,
    },
    /// A device cannot be looked into.
    #[error("{address}: {source}; is the device open, with stat={address}?")]
    Stat {
        /// Where.
        address: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// The terminal, or the threads of the view in it.
    #[error("cannot show it in this terminal: {0}; --once and --json need none")]
    Terminal(io::Error),
    /// Something does not happen.
    #[error("{0} within {1} seconds")]
    Late(&'static str, u64),
    /// Nobody is at the other end of the link, or the peer was there and it came to nothing.
    #[error("the link of {device} did not come up within {seconds} seconds; {why}")]
    NoLink {
        /// Scheme and name of the device.
        device: String,
        /// How long it was waited for.
        seconds: u64,
        /// What the port knows, or what a person can look at.
        why: String,
    },
    /// A file.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Standard output.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
    /// Ctrl-C, SIGTERM or SIGHUP.
    #[error("interrupted")]
    Interrupted,
    /// The signals cannot be caught.
    #[error("cannot catch Ctrl-C: {0}")]
    Signals(ctrlc::Error),
}

/// What a user can do about a side channel that cannot be opened.
fn remedy(doing: &str, cause: &io::Error) -> &'static str {
    match (doing, cause.kind()) {
        ("listen", ErrorKind::AddrInUse) => {
            "; another program listens there, so give both sides another --port"
        }
        ("listen", ErrorKind::PermissionDenied) => "; give both sides a --port from 1024 on",
        ("listen", ErrorKind::AddrNotAvailable) => {
            "; give an address of this machine to --bind, or 0.0.0.0 for all"
        }
        _ => "",
    }
}

impl Error {
    /// An operation on a file that the system refused.
    pub fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { doing, path, source }
    }

    /// Tells a person on standard error; but not that the reader of standard output has left, who
    /// knows it.
    pub fn show(&self) {
        if !matches!(self, Self::Output(error) if error.kind() == ErrorKind::BrokenPipe) {
            program::say(self);
        }
    }

    /// 1, or 130 as a shell reports Ctrl-C.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(if matches!(self, Self::Interrupted) { 130 } else { 1 })
    }
}

impl From<verbs_api::Error> for Error {
    fn from(error: verbs_api::Error) -> Self {
        match error {
            // What it says is meant for programmers.
            verbs_api::Error::Engines { engines } => Self::Options(format!(
                "the device string has engines={engines}; leave engines= out: this tool runs one engine"
            )),
            error => Self::Verbs(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_channel_that_cannot_listen_says_which_option_helps() {
        let said = |doing, kind: ErrorKind| {
            let address = ([127, 0, 0, 1], 80).into();
            Error::Channel { address, doing, source: kind.into() }.to_string()
        };
        assert!(said("listen", ErrorKind::AddrInUse).ends_with("give both sides another --port"));
        assert!(said("listen", ErrorKind::PermissionDenied).ends_with("a --port from 1024 on"));
        assert!(said("listen", ErrorKind::AddrNotAvailable).contains("to --bind"));
        assert!(!said("connect", ErrorKind::AddrNotAvailable).contains("--"));
    }
}
