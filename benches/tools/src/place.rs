//! A directory for sockets, which nobody else may enter, and which goes with the tool.

use crate::error::{Error, Result};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// The directory.
#[derive(Debug)]
pub struct Place(PathBuf);

impl Place {
    /// Makes one for a purpose: a process has one at most for each.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn new(purpose: &str) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("srnic-{purpose}-{}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&path).map_err(Error::file("create", &path))?;
        Ok(Self(path))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What is left in it is nobody's any more.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
