//! The one error of the tasks: a sentence that says what is wrong and what to do about it.

use std::fmt;
use std::path::Path;

/// A task's outcome.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What is wrong and what to do about it, for a person to read.
#[derive(Debug, PartialEq, Eq)]
pub struct Error(pub String);

impl Error {
    /// An error with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// An operation on `path` that the system refused.
    pub fn io(doing: &str, path: &Path, cause: &std::io::Error) -> Self {
        Self(format!("cannot {doing} {}: {cause}", path.display()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
