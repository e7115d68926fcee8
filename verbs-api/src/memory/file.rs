//! Files as registered memory.

use crate::error::Error;
use core::ptr::NonNull;
use datapath::memory::Backing;
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::path::Path;

/// A file mapped into memory, to be registered with
/// [`ProtectionDomain::register_file`](crate::ProtectionDomain::register_file).
///
/// Nobody may shorten the file while it is mapped: the system ends a process that touches what is no longer there.
pub struct FileBacking {
    map: MmapRaw,
}

impl FileBacking {
    /// Maps the whole of an existing file to be read. Writes to the region never reach the file.
    ///
    /// # Errors
    /// [`Error::File`]; an empty file cannot be mapped.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let fails = |doing| move |source| file_error(doing, path, source);
        let file = File::open(path).map_err(fails("open"))?;
        if file.metadata().map_err(fails("read"))?.len() == 0 {
            return Err(file_error("map", path, io::Error::other("it is empty")));
        }
        // Private, so that the whole mapping is writable, as a backing must be, whatever the file's permissions.
        // SAFETY: no Rust reference to the bytes is ever made, so it does not matter if others write to the file.
        let map = unsafe { MmapOptions::new().map_copy(&file) }.map_err(fails("map"))?;
        Ok(Self { map: map.into() })
    }

    /// Makes a file of `len` bytes, replacing what was there, and maps it. Its space on the disk is taken now where the
    /// file system can do that, so that a full disk is an error here and not a signal later.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn create(path: impl AsRef<Path>, len: u64) -> Result<Self, Error> {
        let path = path.as_ref();
        let fails = |doing| move |source| file_error(doing, path, source);
        let mut options = File::options();
        let file =
            options.read(true).write(true).create(true).truncate(true).open(path).map_err(fails("create"))?;
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len) {
            Ok(()) => {}
            // Some network file systems cannot: there a full disk shows only when the bytes arrive.
            Err(Errno::OPNOTSUPP) => file.set_len(len).map_err(fails("make room for"))?,
            Err(errno) => return Err(file_error("make room for", path, errno.into())),
        }
        let map = MmapOptions::new().map_raw(&file).map_err(fails("map"))?;
        Ok(Self { map })
    }
}

fn file_error(doing: &'static str, path: &Path, source: io::Error) -> Error {
    Error::File { doing, path: path.to_owned(), source }
}

// SAFETY: the mapping is readable and writable for its length, stays where it is until dropped, and no reference to
// its bytes is made.
unsafe impl Backing for FileBacking {
    fn base(&self) -> NonNull<u8> {
        // The system maps nothing at address 0.
        NonNull::new(self.map.as_mut_ptr()).unwrap_or(NonNull::dangling())
    }

    fn len(&self) -> usize {
        self.map.len()
    }
}
