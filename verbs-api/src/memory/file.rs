//! Files as registered memory.

use super::bytes::{bounds, check};
use crate::error::Error;
use core::ops::RangeBounds;
use core::ptr::NonNull;
use datapath::memory::Backing;
use memmap2::{Advice, MmapOptions, MmapRaw};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file mapped into memory, to be registered with
/// [`ProtectionDomain::register_file`](crate::ProtectionDomain::register_file). Clones name the
/// same mapping: keep one to [`sync`](Self::sync) while the other is registered.
///
/// | made by | the file | what is written to the region |
/// |---|---|---|
/// | [`open`](Self::open) | must be there | stays in this process |
/// | [`open_shared`](Self::open_shared) | must be there | is in the file |
/// | [`create`](Self::create), [`create_new`](Self::create_new) | is new | is in the file |
///
/// # What outlives a crash
/// "In the file" means: in the system's page cache. Every process that opens the file sees it from
/// then on, and if this process dies, by SIGKILL too, it is all there. If the machine crashes or
/// loses power, only what a [`sync`](Self::sync) that has returned covers is sure to be on the
/// disk; of the rest any page may be there or be lost, the later without the earlier, and one of
/// two pages that a record spans. So a log that must survive that acknowledges a record after the
/// sync, and its records carry a checksum. The name of a new file is on the disk once its directory
/// was synced (`File::open(directory)?.sync_all()`).
///
/// A completion says that bytes are in the peer's memory, not that they are on the peer's disk: the
/// peer syncs, and says so.
///
/// # Nobody may shorten the file
/// A process that touches a page behind the file's end is ended by SIGBUS, whether the engine does
/// it or the program. Nothing can turn that into an error, so whoever may truncate the file must
/// not do so while it is mapped. One that grows stays mapped as long as it was.
#[derive(Clone)]
pub struct FileBacking {
    mapping: Arc<Mapping>,
}

struct Mapping {
    map: MmapRaw,
    path: PathBuf,
    /// True if what is written reaches the file.
    shared: bool,
}

impl FileBacking {
    /// Maps the whole of an existing file to be read. Writes to the region never reach the file.
    ///
    /// # Errors
    /// [`Error::File`]: it cannot be opened, is no regular file, or is empty, which cannot be
    /// mapped.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let file = existing(path, File::options().read(true))?;
        // Private, so that the whole mapping is writable, as a backing must be, whatever the file's
        // permissions.
        // SAFETY: no Rust reference to the bytes is made here, so it does not matter if others
        // write to the file; who follows `MemoryRegion::as_ptr` makes sure that nobody does.
        let map = unsafe { MmapOptions::new().map_copy(&file) }.map_err(fails("map", path))?;
        Ok(Self::new(map.into(), path, false))
    }

    /// Maps the whole of an existing file to be read and written: a log or a table that outlives
    /// the process.
    ///
    /// ```
    /// use verbs_api::{Access, Device, FileBacking};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = std::env::temp_dir().join(format!("open-shared-{}", std::process::id()));
    /// # let pd = Device::open("sim:open-shared")?.alloc_pd();
    /// std::fs::write(&path, [0; 4096])?;
    /// let file = FileBacking::open_shared(&path)?;
    /// let log = pd.register_file(file.clone(), Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
    /// log.write(64, b"a record")?;
    /// // From here on it outlives a crash of the machine, not only of the process.
    /// file.sync(64..72)?;
    /// assert_eq!(&std::fs::read(&path)?[64..72], b"a record");
    /// # std::fs::remove_file(&path)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::File`]: it cannot be opened to be read and written, is no regular file, or is
    /// empty: give a new file its length by [`create`](Self::create).
    pub fn open_shared(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let file = existing(path, File::options().read(true).write(true))?;
        let map = MmapOptions::new().map_raw(&file).map_err(fails("map", path))?;
        Ok(Self::new(map, path, true))
    }

    /// Makes a file of `len` bytes, replacing what was there, and maps it to be read and written.
    /// Its space on the disk is taken now where the file system can do that, so that a full disk is
    /// an error here and not a signal later.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn create(path: impl AsRef<Path>, len: u64) -> Result<Self, Error> {
        Self::make(path.as_ref(), len, File::options().create(true).truncate(true))
    }

    /// Makes a file as [`FileBacking::create`] does, if there is none of that name: nothing is
    /// replaced, and no link is followed.
    ///
    /// # Errors
    /// [`Error::File`]; its source is [`io::ErrorKind::AlreadyExists`] if anything has that name.
    pub fn create_new(path: impl AsRef<Path>, len: u64) -> Result<Self, Error> {
        Self::make(path.as_ref(), len, File::options().create_new(true))
    }

    fn make(path: &Path, len: u64, options: &mut OpenOptions) -> Result<Self, Error> {
        let file = options.read(true).write(true).open(path).map_err(fails("create", path))?;
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len) {
            Ok(()) => {}
            // Some network file systems cannot: there a full disk shows only when the bytes arrive.
            Err(Errno::OPNOTSUPP) => file.set_len(len).map_err(fails("make room for", path))?,
            Err(errno) => return Err(fails("make room for", path)(errno.into())),
        }
        let map = MmapOptions::new().map_raw(&file).map_err(fails("map", path))?;
        Ok(Self::new(map, path, true))
    }

    /// Waits until the bytes of `range` are on the disk (`msync` with `MS_SYNC`), as they were when
    /// this was called or later. It writes the whole pages that the range touches and that have
    /// changed, and blocks for as long as the disk needs.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]. [`Error::File`] if the disk fails, and then nothing is known of the
    /// bytes; or if the file was mapped by [`open`](Self::open), so that nothing of them reaches
    /// it.
    pub fn sync(&self, range: impl RangeBounds<usize>) -> Result<(), Error> {
        let Mapping { map, path, shared } = &*self.mapping;
        let (start, end) = bounds(range, map.len());
        let len = check(start, end, map.len())?;
        if !shared {
            let private = "it was opened only to be read; take FileBacking::open_shared";
            return Err(fails("sync", path)(io::Error::other(private)));
        }
        map.flush_range(start, len).map_err(fails("sync", path))
    }

    /// Brings the pages that `range` touches into memory, ready to be read, or to be written if the
    /// file is. Without it the first access to each page does so, which takes longer than a packet,
    /// and may wait for the disk. It takes as long as that does for all of them together. On a
    /// system older than Linux 5.14 it does nothing.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]. [`Error::File`] if the file is shorter by now, or the disk fails or
    /// is full.
    pub fn populate(&self, range: impl RangeBounds<usize>) -> Result<(), Error> {
        let Mapping { map, path, shared } = &*self.mapping;
        let (start, end) = bounds(range, map.len());
        let len = check(start, end, map.len())?;
        let advice = if *shared { Advice::PopulateWrite } else { Advice::PopulateRead };
        match map.advise_range(advice, start, len) {
            Err(error) if error.kind() != io::ErrorKind::InvalidInput => Err(fails("populate", path)(error)),
            _ => Ok(()),
        }
    }

    fn new(map: MmapRaw, path: &Path, shared: bool) -> Self {
        Self { mapping: Arc::new(Mapping { map, path: path.to_owned(), shared }) }
    }
}

/// A regular file with something in it.
fn existing(path: &Path, options: &mut OpenOptions) -> Result<File, Error> {
    // Without this, to open a pipe waits for who writes to it. To a regular file it means nothing.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = options.custom_flags(flags).open(path).map_err(fails("open", path))?;
    let about = file.metadata().map_err(fails("read", path))?;
    if !about.is_file() {
        return Err(fails("map", path)(io::Error::other("it is no regular file")));
    }
    if about.len() == 0 {
        return Err(fails("map", path)(io::Error::other("it is empty")));
    }
    Ok(file)
}

fn fails(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::File { doing, path: path.to_owned(), source }
}

// SAFETY: the mapping is readable and writable for its length, stays where it is until dropped, and
// no reference to its bytes is made.
unsafe impl Backing for FileBacking {
    fn base(&self) -> NonNull<u8> {
        // The system maps nothing at address 0.
        NonNull::new(self.mapping.map.as_mut_ptr()).unwrap_or(NonNull::dangling())
    }

    fn len(&self) -> usize {
        self.mapping.map.len()
    }
}
