//! A parker that loom can follow. loom's own park would take other wake-ups for this one.

use loom::sync::{Condvar, Mutex};

/// A parker made of a lock and a condition variable. A thread that is never woken is a deadlock,
/// which loom reports.
#[derive(Debug)]
pub(crate) struct Parker {
    woken: Mutex<bool>,
    bell: Condvar,
}

impl Default for Parker {
    fn default() -> Self {
        Self { woken: Mutex::new(false), bell: Condvar::new() }
    }
}

impl Parker {
    pub(crate) fn settle(&self) {}

    pub(crate) fn park(&self) {
        let mut woken = self.woken.lock().expect("no model panics while it holds the lock");
        if !*woken {
            woken = self.bell.wait(woken).expect("no model panics while it holds the lock");
        }
        *woken = false;
    }

    pub(crate) fn unpark(&self) {
        *self.woken.lock().expect("no model panics while it holds the lock") = true;
        self.bell.notify_one();
    }
}
