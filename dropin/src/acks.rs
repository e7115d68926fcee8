//! Events that the program got and has not acknowledged: what they concern must not go away before.

use std::sync::{Condvar, Mutex, PoisonError};

/// How many.
#[derive(Default)]
pub struct Acks {
    owed: Mutex<u64>,
    none: Condvar,
}

impl Acks {
    /// The program gets an event.
    pub fn add(&self) {
        *self.owed.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    /// It acknowledges some.
    pub fn ack(&self, count: u64) {
        let mut owed = self.owed.lock().unwrap_or_else(PoisonError::into_inner);
        *owed = owed.saturating_sub(count);
        if *owed == 0 {
            self.none.notify_all();
        }
    }

    /// Waits until all are acknowledged.
    pub fn wait(&self) {
        let mut owed = self.owed.lock().unwrap_or_else(PoisonError::into_inner);
        while *owed > 0 {
            owed = self.none.wait(owed).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
