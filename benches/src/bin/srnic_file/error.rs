//! Why a transfer did not succeed.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use verbs_api::WcStatus;

/// A transfer's outcome.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, for a person to read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device, the memory or the queue pair.
    #[error(transparent)]
    Verbs(#[from] verbs_api::Error),
    /// A work request failed.
    #[error("{what} failed with {status:?}{}", meaning(*.status))]
    Completion {
        /// Which one.
        what: &'static str,
        /// Its status.
        status: WcStatus,
    },
    /// The side channel failed.
    #[error("the side channel to 127.0.0.1:{port}: cannot {doing}: {source}")]
    Channel {
        /// Its TCP port.
        port: u16,
        /// What was tried.
        doing: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// The peer closed the side channel before the end.
    #[error("the peer closed the side channel before the transfer was complete; see what it said")]
    PeerLeft,
    /// The peer says that it failed.
    #[error("the peer failed: {0}")]
    PeerFailed(String),
    /// The peer says something that makes no sense here.
    #[error(
        "the peer said `{said}` where `{expected}` was expected; is it a srnic_file of the same version?"
    )]
    Unexpected {
        /// What it said.
        said: String,
        /// What was expected.
        expected: &'static str,
    },
    /// Something does not happen.
    #[error("{0} within {1} seconds")]
    Late(&'static str, u64),
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
    /// Ctrl-C, SIGTERM or SIGHUP.
    #[error("interrupted")]
    Interrupted,
    /// The signals cannot be caught.
    #[error("cannot catch Ctrl-C: {0}")]
    Signals(ctrlc::Error),
}

impl Error {
    /// An operation on a file that the system refused.
    pub fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { doing, path, source }
    }

    /// 1, or 130 as a shell reports Ctrl-C.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(if matches!(self, Self::Interrupted) { 130 } else { 1 })
    }
}

/// What a status tells about the peer.
fn meaning(status: WcStatus) -> &'static str {
    match status {
        WcStatus::RetryExcErr => ": the peer no longer answers",
        WcStatus::RemAccessErr => ": the peer refuses the memory access",
        WcStatus::RnrRetryExcErr => ": the peer posts no receive",
        WcStatus::WrFlushErr => ": the queue pair had failed before",
        _ => "",
    }
}
