//! The process's registration with `membarrier(2)`.
//!
//! In a process of several threads the kernel waits for an RCU grace period before it registers:
//! some milliseconds, but many seconds where programs that poll leave the kernel's own threads no
//! processor. Nobody who opens a device waits for that: a thread does.

use core::sync::atomic::{AtomicU8, Ordering};
use rustix::thread::{MembarrierCommand, membarrier};
use std::thread;

/// Nobody has asked for it.
const UNASKED: u8 = 0;
/// A thread has asked, and has no answer. Also the last state where the kernel refuses.
const ASKED: u8 = 1;
const DONE: u8 = 2;

/// How far the registration is.
pub(super) struct Registration(AtomicU8);

/// That of this process.
pub(super) static PROCESS: Registration = Registration::new();

impl Registration {
    pub const fn new() -> Self {
        Self(AtomicU8::new(UNASKED))
    }

    /// Has `register` called by a thread of its own, by whoever comes first. It returns false where
    /// the kernel refuses.
    pub fn begin(&'static self, register: impl FnOnce() -> bool + Send + 'static) {
        if self.0.compare_exchange(UNASKED, ASKED, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        let ask = move || {
            if register() {
                // Release: who sees it may run a barrier.
                self.0.store(DONE, Ordering::Release);
            }
        };
        // Without the thread nobody owns a bias, as without `membarrier`.
        drop(thread::Builder::new().name("membarrier".to_owned()).spawn(ask));
    }

    /// True once a barrier can be run on all processors of this process.
    pub fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire) == DONE
    }
}

/// Registers this process; false if the kernel refuses.
pub(super) fn register() -> bool {
    membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
}
