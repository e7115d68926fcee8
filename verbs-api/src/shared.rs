//! The engine of a device, its lock and its clock, as the application's threads and the engine's share them.

use crate::nic::Nic;
use core::ops::{Deref, DerefMut};
use core::time::Duration;
use datapath::engine::Turn;
use datapath::queue::Doorbells;
use datapath::time::Time;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::yield_now;
use std::time::Instant;

/// The lock, held.
pub(crate) type Held<'a> = MutexGuard<'a, Box<dyn Nic>>;

/// An engine that several threads use.
///
/// A call of the control path takes the lock for itself. The engine's thread, if there is one, holds it from turn to
/// turn, and gives way when a caller has shown itself.
pub(crate) struct Shared {
    nic: Mutex<Box<dyn Nic>>,
    doorbells: Doorbells,
    /// The engine's time is counted from here.
    opened: Instant,
    /// Callers of the control path that wait for the lock or hold it.
    callers: AtomicU32,
    /// Calls of the control path done, modulo 2^32.
    served: AtomicU32,
    stop: AtomicBool,
    died: AtomicBool,
}

impl Shared {
    pub fn new(nic: Box<dyn Nic>) -> Self {
        Self {
            doorbells: nic.doorbells(),
            nic: Mutex::new(nic),
            opened: Instant::now(),
            callers: AtomicU32::new(0),
            served: AtomicU32::new(0),
            stop: AtomicBool::new(false),
            died: AtomicBool::new(false),
        }
    }

    pub const fn doorbells(&self) -> &Doorbells {
        &self.doorbells
    }

    /// The engine's time.
    pub fn now(&self) -> Time {
        Time(u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// One turn, if no other thread has the engine.
    #[inline]
    pub fn try_turn(&self) -> Turn {
        let mut nic = match self.nic.try_lock() {
            Ok(nic) => nic,
            Err(TryLockError::Poisoned(nic)) => nic.into_inner(),
            Err(TryLockError::WouldBlock) => return Turn::default(),
        };
        // Read under the lock, so that no turn's time is before that of an earlier turn.
        nic.turn(self.now())
    }

    /// The engine, for a call of the control path.
    pub fn call(&self) -> Call<'_> {
        self.callers.fetch_add(1, Ordering::Relaxed);
        Call { nic: self.hold(), _done: Done(self) }
    }

    /// The engine, for its thread.
    ///
    /// A panic in a turn has shown itself in the thread that ran it, and leaves nothing unsafe behind.
    pub fn hold(&self) -> Held<'_> {
        self.nic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a caller waits for the engine.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.callers.load(Ordering::Relaxed) > 0
    }

    /// Lets one caller have the engine. A mutex alone would not: who unlocks it and locks it again is mostly faster
    /// than who waits.
    pub fn give_way<'a>(&'a self, nic: Held<'a>) -> Held<'a> {
        let served = self.served.load(Ordering::Relaxed);
        drop(nic);
        while self.is_wanted() && self.served.load(Ordering::Relaxed) == served {
            yield_now();
        }
        self.hold()
    }

    /// Lets go of the engine and sleeps until there is work, `limit` at most.
    pub fn sleep<'a>(&'a self, nic: Held<'a>, limit: Duration) -> Held<'a> {
        // Read under the lock: what is done after it may have made work for the engine.
        let served = self.served.load(Ordering::Relaxed);
        drop(nic);
        self.doorbells.sleep().sleep(limit, || {
            self.doorbells.is_empty() && self.served.load(Ordering::Relaxed) == served && !self.stopping()
        });
        self.hold()
    }

    /// Tells the engine's thread to end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.doorbells.sleep().wake();
    }

    #[inline]
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The engine's thread has ended by a panic.
    pub fn engine_died(&self) {
        self.died.store(true, Ordering::Relaxed);
    }

    /// Whether the engine's thread has ended by a panic since this was asked last.
    pub fn take_death(&self) -> bool {
        self.died.swap(false, Ordering::Relaxed)
    }
}

/// The engine, as a call of the control path has it. When it goes, the engine's thread learns that there may be work.
pub(crate) struct Call<'a> {
    // Dropped in this order: the lock is free before the thread is told.
    nic: Held<'a>,
    _done: Done<'a>,
}

struct Done<'a>(&'a Shared);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.served.fetch_add(1, Ordering::Relaxed);
        self.0.callers.fetch_sub(1, Ordering::Relaxed);
        self.0.doorbells.sleep().wake();
    }
}

impl Deref for Call<'_> {
    type Target = dyn Nic;

    fn deref(&self) -> &Self::Target {
        &**self.nic
    }
}

impl DerefMut for Call<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut **self.nic
    }
}
