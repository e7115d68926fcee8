//! Packet buffers.

use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::eal::Eal;
use crate::error::{Errno, PortError};
use crate::ffi;

/// Buffers that each thread keeps at hand; 64 to 512 measure equal, 32 costs 20 to 40 %.
const CACHE: u32 = 256;
/// Most buffers of one pool.
const MOST: u32 = 1 << 20;

/// A pool of equal packet buffers, shared by ports and bursts that hold some.
#[derive(Clone, Debug)]
pub struct Mempool(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    raw: NonNull<ffi::rte_mempool>,
}

// SAFETY: rte_mempool serves any number of threads at once.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Drop for Pool {
    fn drop(&mut self) {
        // Bursts and ports keep their pool alive, but a buffer can outlive it: taken out of its
        // burst and forgotten, or passed on by a driver that moves buffers between ports. Then the
        // pool stays, for ever.
        // SAFETY: the pool lives until the free, before which all its buffers are back and no
        // handle is left.
        unsafe {
            if ffi::rte_mempool_in_use_count(self.raw.as_ptr()) == 0 {
                ffi::rte_mempool_free(self.raw.as_ptr());
            }
        }
    }
}

impl Mempool {
    /// Makes a pool of `count` buffers that hold `room` bytes each, behind a headroom of
    /// [`crate::HEADROOM`].
    ///
    /// # Errors
    /// [`PortError::OutOfRange`] for a pool too small to be useful or larger than DPDK can make,
    /// and [`PortError::Pool`] when memory runs out.
    pub fn new(eal: &Eal, count: u32, room: u16) -> Result<Self, PortError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let range = |what, value: u64, min: u64, max: u64| {
            if (min..=max).contains(&value) {
                Ok(())
            } else {
                Err(PortError::OutOfRange { what, value, min, max })
            }
        };
        // DPDK wants a pool of at least one and a half caches.
        range("the number of buffers", count.into(), (CACHE * 2).into(), MOST.into())?;
        range("the room of a buffer", room.into(), 64, (u16::MAX - crate::HEADROOM).into())?;
        let name =
            CString::new(format!("srnic_{}", NEXT.fetch_add(1, Ordering::Relaxed))).unwrap_or_default();
        const ANY_NUMA_NODE: i32 = -1;
        // SAFETY: EAL runs (`eal`), name is terminated; DPDK copies it.
        let raw = unsafe {
            ffi::rte_pktmbuf_pool_create(
                name.as_ptr(),
                count,
                CACHE,
                0,
                room + crate::HEADROOM,
                ANY_NUMA_NODE,
            )
        };
        match NonNull::new(raw) {
            Some(raw) => Ok(Self(Arc::new(Pool { raw }))),
            None => {
                let (errno, memory_mb) = (Errno::last(), eal.memory_mb());
                Err(PortError::Pool { count, size: room, memory_mb, errno })
            }
        }
    }

    pub(crate) fn raw(&self) -> *mut ffi::rte_mempool {
        self.0.raw.as_ptr()
    }

    /// Buffers now free. Exact while no thread moves packets.
    #[must_use]
    pub fn available(&self) -> u32 {
        // SAFETY: the pool lives.
        unsafe { ffi::rte_mempool_avail_count(self.raw()) }
    }

    /// Buffers now held by a driver, a ring or a burst. Exact while no thread moves packets.
    #[must_use]
    pub fn in_use(&self) -> u32 {
        // SAFETY: the pool lives.
        unsafe { ffi::rte_mempool_in_use_count(self.raw()) }
    }
}
