//! A private directory that goes away with its owner, however that ends.

use std::fs::{self, DirBuilder};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, Result};

/// Longest directory name below which the path of a UNIX socket still fits into its 108 bytes.
const LENGTH_MAX: usize = 80;

/// The directory, below `TMPDIR` or `/tmp`.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes it, for this user only.
    pub fn new() -> Result<Self> {
        let parent = std::env::temp_dir();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("srnic-{}-{number}", std::process::id()));
        if path.as_os_str().as_bytes().len() > LENGTH_MAX {
            return Err(Error(format!(
                "the path {} is too long for a socket: set TMPDIR to a shorter one",
                path.display()
            )));
        }
        DirBuilder::new().mode(0o700).create(&path).map_err(|e| Error::io("create", &path, &e))?;
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A directory in it for one run. There is one at a time.
    pub fn subdirectory(&self) -> Result<PathBuf> {
        let dir = self.path.join("run");
        fs::create_dir(&dir).map_err(|e| Error::io("create", &dir, &e))?;
        Ok(dir)
    }

    /// An error if fewer than `bytes` are free. What `df` does not know is taken for enough.
    pub fn require_space(&self, bytes: u64) -> Result<()> {
        let output = Command::new("df").args(["--output=avail", "-B1"]).arg(&self.path).output();
        let free = output.ok().and_then(|output| {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.lines().nth(1)?.trim().parse::<u64>().ok()
        });
        match free {
            Some(free) if free < bytes => Err(Error(format!(
                "{} has {} MiB free, {} are needed: set TMPDIR to a larger place, or ask for less",
                std::env::temp_dir().display(),
                free >> 20,
                bytes >> 20,
            ))),
            _ => Ok(()),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("cannot remove {}: {error}", self.path.display());
        }
    }
}
