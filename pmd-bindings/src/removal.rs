//! NICs that are taken out of the machine while they are in use.
//!
//! DPDK hears of them from the kernel, in EAL's interrupt thread: of one that is bound to vfio-pci
//! before it goes, as the kernel waits until the NIC is given back; of any other when it is gone,
//! and its registers read as ones.

use std::ffi::{CStr, CString, c_char};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::ffi;

/// Those in use, by DPDK's names.
static WATCHED: Mutex<Vec<(CString, Weak<AtomicBool>)>> = Mutex::new(Vec::new());

/// Tells whether a NIC is to leave, or has left.
#[derive(Clone, Debug)]
pub(crate) struct Removal(Arc<AtomicBool>);

impl Removal {
    /// Watches the NIC of that name as long as this lives.
    pub(crate) fn watch(name: &CStr) -> Self {
        let removal = Self(Arc::new(AtomicBool::new(false)));
        let mut watched = watched();
        watched.retain(|(_, other)| other.strong_count() > 0);
        watched.push((name.to_owned(), Arc::downgrade(&removal.0)));
        removal
    }

    /// Returns `true` if it is to leave, or has left. It does not come back.
    pub(crate) fn is_due(&self) -> bool {
        // Relaxed: a flag of its own, which guards no other memory.
        self.0.load(Ordering::Relaxed)
    }
}

/// From now on DPDK tells of removals. Once a process, after EAL has started.
///
/// Where the kernel does not let this process listen to its events, a NIC that is bound to
/// `uio_pci_generic` is missed by its frames alone.
pub(crate) fn listen() {
    // SAFETY: EAL runs; the function lives for ever.
    unsafe { ffi::pmd_listen_for_removals(Some(note)) };
}

/// In EAL's interrupt thread.
unsafe extern "C" fn note(name: *const c_char) {
    // SAFETY: DPDK gives a terminated string that lives until we return.
    let name = unsafe { CStr::from_ptr(name) };
    for (_, removal) in watched().iter().filter(|(other, _)| other.as_c_str() == name) {
        if let Some(removal) = removal.upgrade() {
            removal.store(true, Ordering::Relaxed);
        }
    }
}

fn watched() -> MutexGuard<'static, Vec<(CString, Weak<AtomicBool>)>> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_is_told_to_those_who_watch_that_nic() {
        let (this, other) = (Removal::watch(c"0000:7f:00.0"), Removal::watch(c"0000:7f:00.1"));
        let again = this.clone();
        // SAFETY: a terminated string.
        unsafe { note(c"0000:7f:00.0".as_ptr()) };
        assert!(this.is_due() && again.is_due());
        assert!(!other.is_due());
        // Who opens it once more, after it was put back, sees a NIC that is there.
        assert!(!Removal::watch(c"0000:7f:00.0").is_due());
    }

    #[test]
    fn who_closes_a_nic_watches_it_no_more() {
        drop(Removal::watch(c"0000:7e:00.0"));
        let _next = Removal::watch(c"0000:7e:00.1");
        assert!(watched().iter().all(|(name, _)| name.as_c_str() != c"0000:7e:00.0"));
    }
}
