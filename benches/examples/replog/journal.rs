//! A follower's log: a file, which outlives its process.

use crate::record;
use srnic_tools::error::{Error, Result};
use std::fs::{File, OpenOptions};
use std::io::{BufReader, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// The file, open behind its last whole record.
pub struct Journal {
    file: File,
    path: PathBuf,
    held: u64,
}

impl Journal {
    /// Opens the log or begins one. Every record that is there is verified; half a record at the
    /// end, whose writer was killed meanwhile, was never acknowledged, and is cut off.
    ///
    /// # Errors
    /// [`Error::File`]; [`Error::Options`] if a record is not what it must be.
    pub fn open(path: &Path, size: usize) -> Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).open(path);
        let file = file.map_err(Error::file("open", path))?;
        let held = verify(&file, path, size)?;
        file.set_len(held * size as u64).map_err(Error::file("shorten", path))?;
        Ok(Self { file, path: path.to_owned(), held })
    }

    /// The last record that is in it, 0: none.
    pub const fn held(&self) -> u64 {
        self.held
    }

    /// Appends records, which were checked. From then on they outlive this process. A crash of the
    /// machine they outlive only if the file is synced as well, which a log that must survive that
    /// does before it acknowledges.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn append(&mut self, records: &[u8], count: u64) -> Result<()> {
        self.file.write_all(records).map_err(Error::file("append to", &self.path))?;
        self.held += count;
        Ok(())
    }
}

/// How many whole records the file begins with.
fn verify(file: &File, path: &Path, size: usize) -> Result<u64> {
    let (mut reader, mut bytes, mut held) = (BufReader::new(file), vec![0; size], 0);
    loop {
        match reader.read_exact(&mut bytes) {
            Ok(()) => held += 1,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(held),
            Err(error) => return Err(Error::file("read", path)(error)),
        }
        record::check(&bytes, held).map_err(|flaw| Error::Options(format!("{}: {flaw}", path.display())))?;
    }
}
