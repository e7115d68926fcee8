//! The identity of a process. A device belongs to the process that opened it. In a child that was
//! forked later the engine's threads are not there, a lock that another thread held is held for
//! ever, and the memory that the device shares with its peer has two users.

use core::sync::atomic::{AtomicU32, Ordering};
use memmap2::{MmapOptions, MmapRaw};
use rustix::mm::{Advice, madvise};
use std::sync::OnceLock;

/// A process, told from those that it forks.
#[derive(Clone, Copy)]
pub(crate) struct Process {
    /// The number of the process that looks.
    here: &'static AtomicU32,
    number: u32,
}

impl Process {
    /// The one that calls.
    pub fn this() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let here = number_of_this();
        // A child goes on counting where its parent was.
        let new = NEXT.fetch_add(1, Ordering::Relaxed);
        let number = match here.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => new,
            Err(known) => known,
        };
        Self { here, number }
    }

    /// Returns `true` if this is still the one that calls.
    #[inline]
    pub fn is_this(self) -> bool {
        self.here.load(Ordering::Relaxed) == self.number
    }
}

/// A word that is 0 in a new process, forked or not: its page is not copied but wiped. Where the
/// system cannot do that, before Linux 4.14, a child is not told from its parent.
fn number_of_this() -> &'static AtomicU32 {
    static PAGE: OnceLock<Option<MmapRaw>> = OnceLock::new();
    static UNKNOWN: AtomicU32 = AtomicU32::new(0);
    let Some(page) = PAGE.get_or_init(wiped_by_fork) else { return &UNKNOWN };
    // SAFETY: the page is mapped as long as the program runs, to be read and written, and begins
    // with zeros, aligned for any word. It is used through this word only. The kernel writes it
    // when no thread of its process runs.
    unsafe { AtomicU32::from_ptr(page.as_mut_ptr().cast()) }
}

fn wiped_by_fork() -> Option<MmapRaw> {
    let page = MmapRaw::from(MmapOptions::new().len(size_of::<AtomicU32>()).map_anon().ok()?);
    // SAFETY: it advises of a mapping of our own, which nobody has seen yet.
    let advised = unsafe { madvise(page.as_mut_ptr().cast(), page.len(), Advice::LinuxWipeOnFork) };
    advised.is_ok().then_some(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_itself() {
        let [one, other] = [Process::this(), Process::this()];
        assert!(one.is_this() && other.is_this() && one.number == other.number);
        assert!(!Process { number: one.number + 1, ..one }.is_this());
        assert!(wiped_by_fork().is_some(), "this system can");
    }
}
