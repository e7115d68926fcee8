//! Threads that move packets.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::ffi;

/// This thread's lcore id, given back when dropped. With it DPDK's pools serve the thread from a
/// cache of its own, which is worth 20 to 40 %; without, everything works.
#[derive(Debug)]
struct Lcore {
    registered: bool,
    /// Belongs to the thread that made it.
    _not_send: PhantomData<*const ()>,
}

impl Lcore {
    fn register() -> Self {
        // SAFETY: EAL runs (the callers hold a port or a pool); fails cleanly when ids have run
        // out.
        let registered = unsafe { ffi::pmd_has_lcore_id() == 0 && ffi::rte_thread_register() == 0 };
        Self { registered, _not_send: PhantomData }
    }
}

impl Drop for Lcore {
    fn drop(&mut self) {
        if self.registered {
            // SAFETY: this thread registered itself.
            unsafe { ffi::rte_thread_unregister() };
        }
    }
}

thread_local! {
    static ENTERED: Cell<bool> = const { Cell::new(false) };
    static LCORE: Lcore = Lcore::register();
}

/// Gives the calling thread an lcore id on the first call, until the thread ends. Cheap ever after.
#[inline]
pub(crate) fn enter() {
    if !ENTERED.get() {
        enter_first();
    }
}

#[cold]
fn enter_first() {
    ENTERED.set(true);
    // A thread that is ending goes without.
    let _ = LCORE.try_with(|_| ());
}
