//! Words of registered memory, for those who poll on it and those who flag in it.

use super::MemoryRegion;
use crate::error::Error;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Loads and stores of one width each.
macro_rules! words {
    ($($type:ident, $atomic:ident, $load:ident, $store:ident;)+) => {
        $(#[doc = concat!("Loads the `", stringify!($type), "` at `offset`, in the host's byte order, with acquire order:")]
        /// for polling on a word that a peer writes. What the packet that wrote it brought besides
        /// is visible afterwards; other packets may still be under way (protocol.md 2.4), so give
        /// the word a WRITE of its own.
        ///
        /// # Errors
        /// [`Error::OutOfBounds`]; [`Error::Misaligned`] if its address is not a multiple of its
        /// size.
        pub fn $load(&self, offset: usize) -> Result<$type, Error> {
            let word = self.word::<$type>(offset)?;
            // SAFETY: `word` checked that it is aligned and inside the backing, which is valid as
            // long as `self` is; everybody reaches it through atomics or raw pointers.
            Ok(unsafe { $atomic::from_ptr(word.as_ptr()) }.load(Ordering::Acquire))
        }

        #[doc = concat!("Stores the `", stringify!($type), "` at `offset`, in the host's byte order, with release order:")]
        /// who loads it with acquire order, in this process, sees what was written to the region
        /// before.
        ///
        /// # Errors
        #[doc = concat!("As [`MemoryRegion::", stringify!($load), "`]; nothing was stored then.")]
        pub fn $store(&self, offset: usize, value: $type) -> Result<(), Error> {
            let word = self.word::<$type>(offset)?;
            // SAFETY: as for the load; the backing is writable.
            unsafe { $atomic::from_ptr(word.as_ptr()) }.store(value, Ordering::Release);
            Ok(())
        })+
    };
}

impl MemoryRegion {
    words! {
        u8, AtomicU8, load_acquire_u8, store_release_u8;
        u32, AtomicU32, load_acquire_u32, store_release_u32;
        u64, AtomicU64, load_acquire_u64, store_release_u64;
    }

    /// Adds to the `u64` at `offset`, in the host's byte order, wrapping, and returns what was
    /// there, with acquire and release order.
    ///
    /// It is one step for everybody: for threads and processes of this host that use atomic
    /// operations on the word, and for the atomics of peers, which this host's processor carries
    /// out (`DeviceAttributes::atomic_for_host`). A [`store_release_u64`](Self::store_release_u64)
    /// or a peer's WRITE comes before or after it, and sets the word whatever was added.
    /// [`write`](Self::write), and the payload of a receive, are copied in pieces: use neither on a
    /// word that others count in.
    ///
    /// # Errors
    /// As [`MemoryRegion::load_acquire_u64`]; nothing was added then.
    pub fn fetch_add_u64(&self, offset: usize, value: u64) -> Result<u64, Error> {
        let word = self.word::<u64>(offset)?;
        // SAFETY: as for `load_acquire_u64`; the backing is writable.
        Ok(unsafe { AtomicU64::from_ptr(word.as_ptr()) }.fetch_add(value, Ordering::AcqRel))
    }

    /// Stores `swap` into the `u64` at `offset`, in the host's byte order, if it is `compare`, and
    /// returns what was there, with acquire and release order: the swap was done if that is
    /// `compare`. It is one step for everybody, as [`fetch_add_u64`](Self::fetch_add_u64).
    ///
    /// # Errors
    /// As [`MemoryRegion::load_acquire_u64`]; nothing was stored then.
    pub fn compare_and_swap_u64(&self, offset: usize, compare: u64, swap: u64) -> Result<u64, Error> {
        let word = self.word::<u64>(offset)?;
        // SAFETY: as for `load_acquire_u64`; the backing is writable.
        let word = unsafe { AtomicU64::from_ptr(word.as_ptr()) };
        let swapped = word.compare_exchange(compare, swap, Ordering::AcqRel, Ordering::Acquire);
        Ok(swapped.unwrap_or_else(|before| before))
    }

    /// The word at `offset`, inside the region and aligned.
    fn word<T>(&self, offset: usize) -> Result<NonNull<T>, Error> {
        let word = self.inner.bytes.at(offset, size_of::<T>())?.cast::<T>();
        if word.is_aligned() { Ok(word) } else { Err(Error::Misaligned { offset, align: align_of::<T>() }) }
    }
}
