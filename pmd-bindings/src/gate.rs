//! A lock whose readers pay almost nothing: pollers pass it thousands of times per exclusion.
//!
//! Each poller owns a flag on a cache line of its own. To pass it raises the flag, then looks at
//! `closing`; the excluder raises `closing`, then looks at the flags. With a full barrier between
//! store and load on both sides, at least one of the two sees the other (Dekker). `membarrier(2)`
//! lets the rare side pay for both: it runs a full barrier on every core that runs this process, so
//! that the poller needs none. Where the kernel refuses it, both sides use a fence.
//!
//! A poller never waits: while the gate is closed it does something else and comes back. One
//! excluder at a time.

#[cfg(not(loom))]
pub(crate) mod sync {
    pub(crate) use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};
    pub(crate) use std::thread::yield_now;
}
#[cfg(loom)]
pub(crate) mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, Ordering, fence};
    pub(crate) use loom::thread::yield_now;
}

use sync::{AtomicBool, Ordering, fence};

/// A flag that shares its cache line, and the line that the prefetcher fetches with it, with
/// nothing.
#[derive(Debug)]
#[repr(align(128))]
struct Flag(AtomicBool);

/// The gate for up to `N` pollers.
#[derive(Debug)]
pub(crate) struct Gate<const N: usize> {
    closing: Flag,
    inside: [Flag; N],
    /// Whether the excluder's barrier counts for the pollers too.
    asymmetric: bool,
}

impl<const N: usize> Gate<N> {
    /// A closed gate with nobody inside.
    pub(crate) fn closed() -> Self {
        Self {
            closing: Flag(AtomicBool::new(true)),
            inside: std::array::from_fn(|_| Flag(AtomicBool::new(false))),
            asymmetric: barrier::register(),
        }
    }

    /// Lets poller `index` in, unless the gate is closed or closing.
    ///
    /// The caller sees to it that one thread at a time uses an index, and that it is below `N`.
    #[inline]
    pub(crate) fn try_pass(&self, index: usize) -> Option<Pass<'_>> {
        let inside = &self.inside[index].0;
        inside.store(true, Ordering::Relaxed);
        self.poller_barrier();
        // Acquire: what the excluder did before it opened the gate is visible to who passes it.
        if self.closing.0.load(Ordering::Acquire) {
            inside.store(false, Ordering::Release);
            return None;
        }
        Some(Pass { inside })
    }

    /// Closes the gate and waits until every poller is out. What they did inside is visible
    /// afterwards.
    pub(crate) fn close(&self) {
        self.closing.0.store(true, Ordering::Relaxed);
        if self.asymmetric {
            barrier::all_cores();
        } else {
            fence(Ordering::SeqCst);
        }
        for flag in &self.inside {
            while flag.0.load(Ordering::Acquire) {
                sync::yield_now();
            }
        }
    }

    /// Lets the pollers in again.
    pub(crate) fn open(&self) {
        self.closing.0.store(false, Ordering::Release);
    }

    #[inline]
    fn poller_barrier(&self) {
        if self.asymmetric {
            #[cfg(not(loom))]
            sync::compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }
}

/// A poller's stay inside the gate; over when dropped.
#[derive(Debug)]
pub(crate) struct Pass<'a> {
    inside: &'a AtomicBool,
}

impl Drop for Pass<'_> {
    #[inline]
    fn drop(&mut self) {
        self.inside.store(false, Ordering::Release);
    }
}

/// The kernel's barrier on all cores of the process.
mod barrier {
    /// Returns `true` if [`all_cores`] works from now on.
    #[cfg(not(loom))]
    pub(super) fn register() -> bool {
        membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
    }

    /// Loom knows fences, not system calls.
    #[cfg(loom)]
    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn all_cores() {
        // Once registered it fails for a moment at most, when the kernel is short of memory.
        #[cfg(not(loom))]
        while !membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
            super::sync::yield_now();
        }
    }

    #[cfg(not(loom))]
    fn membarrier(command: libc::c_int) -> bool {
        const NO_FLAGS: libc::c_uint = 0;
        // SAFETY: takes two integers and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, NO_FLAGS) == 0 }
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
