//! Several packet buffers at once: what drivers take and give, and what crosses the border to C.

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

use crate::mbuf::Mbuf;
use crate::mempool::Mempool;
use crate::{ffi, lcore};

/// Up to `N` packet buffers, owned; dropping the burst frees them.
pub struct Burst<const N: usize> {
    /// The first `len` are initialised.
    mbufs: [MaybeUninit<Mbuf>; N],
    len: usize,
    /// Where [`Burst::fill`] takes buffers, kept alive for those that are held.
    pool: Mempool,
}

impl<const N: usize> Burst<N> {
    /// An empty burst over `pool`.
    #[must_use]
    pub fn new(pool: &Mempool) -> Self {
        Self { mbufs: [const { MaybeUninit::uninit() }; N], len: 0, pool: pool.clone() }
    }

    /// Returns `true` if `N` buffers are held.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len == N
    }

    /// Takes fresh buffers from the pool until the burst is full. If the pool is short it takes
    /// none and returns `false`.
    #[inline]
    pub fn fill(&mut self) -> bool {
        self.fill_to(N)
    }

    /// Takes fresh buffers from the pool until `held` buffers are held, `N` at most. If the pool is
    /// short it takes none and returns `false`.
    #[inline]
    pub fn fill_to(&mut self, held: usize) -> bool {
        lcore::enter();
        let held = held.clamp(self.len, N);
        let free = &mut self.mbufs[self.len..held];
        let count = as_count(free.len());
        // SAFETY: `free` is writable for `count` pointers (`Mbuf` is one, transparently); on
        // success each is a live mbuf that is ours alone, on failure none was written.
        if unsafe { ffi::pmd_alloc_bulk(self.pool.raw(), free.as_mut_ptr().cast(), count) } != 0 {
            return false;
        }
        self.len = held;
        true
    }

    /// Frees all buffers held.
    #[inline]
    pub fn clear(&mut self) {
        if self.len == 0 {
            return;
        }
        lcore::enter();
        let count = as_count(std::mem::take(&mut self.len));
        // SAFETY: the first `count` were live mbufs of ours, and with `len` 0 we use them no more.
        unsafe { ffi::pmd_free_bulk(self.mbufs.as_mut_ptr().cast(), count) };
    }

    /// Takes the last buffer out.
    #[inline]
    pub fn pop(&mut self) -> Option<Mbuf> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: it was below the old `len`, so initialised; with the new one it is not read
        // again.
        Some(unsafe { self.mbufs[self.len].assume_init_read() })
    }

    /// Adds a buffer at the end, or hands it back when the burst is full.
    ///
    /// # Errors
    /// The buffer, when the burst is full.
    #[inline]
    pub fn push(&mut self, mbuf: Mbuf) -> Result<(), Mbuf> {
        let Some(place) = self.mbufs.get_mut(self.len) else { return Err(mbuf) };
        place.write(mbuf);
        self.len += 1;
        Ok(())
    }

    /// Frees the buffers that `keep` rejects and returns how many; the others keep their order.
    pub fn retain(&mut self, mut keep: impl FnMut(&Mbuf) -> bool) -> usize {
        let mut rejected = Self::new(&self.pool);
        let held = std::mem::take(&mut self.len);
        for index in 0..held {
            // SAFETY: below the old `len`, so initialised, and each index is read once. Should
            // `keep` panic, the rest is leaked.
            let mbuf = unsafe { self.mbufs[index].assume_init_read() };
            let target = if keep(&mbuf) { &mut *self } else { &mut rejected };
            // Cannot fail: both have room for all, and `self` is written behind where it is read.
            let _ = target.push(mbuf);
        }
        rejected.len
    }

    /// Lets `receive` write up to `most` live mbufs, `N` at most; returns how many there are now.
    ///
    /// # Safety
    /// `receive` gets room for as many pointers as it is told, and must return how many live mbufs,
    /// ours alone from now on, it wrote to its beginning.
    #[inline]
    pub(crate) unsafe fn receive(
        &mut self,
        most: usize,
        receive: impl FnOnce(*mut *mut ffi::rte_mbuf, u16) -> u16,
    ) -> usize {
        self.clear();
        self.len = usize::from(receive(self.mbufs.as_mut_ptr().cast(), as_burst(most.min(N))));
        self.len
    }

    /// Offers all buffers to `transmit`, forgets those that it took from the front, and returns how
    /// many.
    ///
    /// # Safety
    /// `transmit` gets the mbufs and their number, and must return how many of the first it has
    /// taken over.
    #[inline]
    pub(crate) unsafe fn transmit(
        &mut self,
        transmit: impl FnOnce(*mut *mut ffi::rte_mbuf, u16) -> u16,
    ) -> usize {
        let taken = usize::from(transmit(self.mbufs.as_mut_ptr().cast(), as_burst(self.len))).min(self.len);
        let left = self.len - taken;
        if left > 0 && taken > 0 {
            let base = self.mbufs.as_mut_ptr();
            // SAFETY: both ranges lie within the first `len`; copying a `MaybeUninit` is a move,
            // and the source is not used again.
            unsafe { std::ptr::copy(base.add(taken), base, left) };
        }
        self.len = left;
        taken
    }
}

/// A burst is far shorter than any of C's counters.
#[inline]
fn as_count(len: usize) -> u32 {
    u32::from(as_burst(len))
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "asserted to fit")]
fn as_burst(len: usize) -> u16 {
    debug_assert!(len <= usize::from(u16::MAX));
    len as u16
}

impl<const N: usize> Drop for Burst<N> {
    fn drop(&mut self) {
        self.clear();
    }
}

impl<const N: usize> Deref for Burst<N> {
    type Target = [Mbuf];

    #[inline]
    fn deref(&self) -> &[Mbuf] {
        // SAFETY: the first `len` are initialised.
        unsafe { std::slice::from_raw_parts(self.mbufs.as_ptr().cast(), self.len) }
    }
}

impl<const N: usize> DerefMut for Burst<N> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Mbuf] {
        // SAFETY: the first `len` are initialised.
        unsafe { std::slice::from_raw_parts_mut(self.mbufs.as_mut_ptr().cast(), self.len) }
    }
}

impl<const N: usize> fmt::Debug for Burst<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Burst({} of {N})", self.len)
    }
}
