//! A biased lock: the thread that owns the bias takes and releases it without an atomic operation.
//!
//! # Why
//! Mostly one thread drives an engine: it polls and posts, thousands of times in a row. An atomic
//! operation on the way in waits until everything that was written before, into rings whose cache
//! lines another core has, has left this core: in the middle of answering a message.
//!
//! # How
//! The owner raises a flag of its own (`inside`), then looks at `closing`. Everybody else takes the
//! lock, raises `closing`, then looks at `inside`. With a full barrier between store and load on
//! both sides, at least one of the two sees the other (Dekker). `membarrier(2)` lets the others pay
//! for both: it runs a full barrier on every core that runs this process. Where the kernel refuses
//! it no thread ever owns the bias, and this is a spin lock.
//!
//! Who comes in by [`BiasedLock::try_lock`] so many times in a row is the owner. When another
//! thread tries, too, there is no owner any more, until one has come in as many times again.
//! [`BiasedLock::lock`], for calls of the control path, shuts the owner out for its own stay only.
//!
//! A former owner may still be on its way in: it has seen that it is the owner, and stopped before
//! it raised its flag. So it asks once more when the flag is up. Since it asked first, whoever took
//! the bias away has run a barrier on its core, so that the second answer is the new one. It lowers
//! its flag again, which is no other owner's: each has a seat of its own, for ever.

#[cfg(test)]
mod tests;

use core::cell::{Cell, UnsafeCell};
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering, compiler_fence};
use rustix::thread::{MembarrierCommand, membarrier};
use spin::Yield;
use spin::mutex::{SpinMutex, SpinMutexGuard};
use std::thread::yield_now;

/// Times in a row after which a thread owns the bias.
const STREAK: u32 = 1024;
/// The number of no thread, and of no owner.
const NOBODY: u64 = 0;
/// Threads that can own the bias in the life of a lock; the others take the lock.
const SEATS: usize = 1 << SEATS_LOG2;
const SEATS_LOG2: u32 = 3;

/// A value behind a biased lock.
pub(crate) struct BiasedLock<T> {
    /// The lock for all threads but the owner.
    lock: SpinMutex<Streak, Yield>,
    /// Who owns the bias: the number of the thread, and behind it that of its seat. Written under
    /// the lock.
    owner: AtomicU64,
    /// The owner of that seat is inside, or looks whether it may be. Written by that thread.
    inside: [AtomicBool; SEATS],
    /// Another thread is inside, or waits until the owner is out. Written under the lock.
    closing: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: one guard exists at a time, so threads have the value in turn, which `T: Send` allows.
unsafe impl<T: Send> Sync for BiasedLock<T> {}

/// Which thread may become the owner.
struct Streak {
    /// The thread that came in last, by trying.
    thread: u64,
    /// How often that thread has come in, in a row.
    times: u32,
    /// Threads that have owned the bias, by seat.
    seats: [u64; SEATS],
    /// The kernel has no `membarrier`.
    unbiased: bool,
}

impl<T> BiasedLock<T> {
    pub fn new(value: T) -> Self {
        let unbiased = membarrier(MembarrierCommand::RegisterPrivateExpedited).is_err();
        Self {
            lock: SpinMutex::new(Streak { thread: NOBODY, times: 0, seats: [NOBODY; SEATS], unbiased }),
            owner: AtomicU64::new(NOBODY),
            inside: [const { AtomicBool::new(false) }; SEATS],
            closing: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// The value, unless somebody has it or waits for it.
    #[inline]
    pub fn try_lock(&self) -> Option<Held<'_, T>> {
        let thread = this_thread();
        let owner = self.owner.load(Ordering::Relaxed);
        if thread_of(owner) == thread { self.try_as_owner(owner) } else { self.try_as_other(thread) }
    }

    /// The value, as soon as nobody has it. A thread that has it already waits for ever.
    pub fn lock(&self) -> Held<'_, T> {
        let streak = self.lock.lock();
        self.shut_out(this_thread());
        self.held_under(streak)
    }

    /// Held by who has the lock, and has shut the owner out. [`Held`] unlocks it.
    fn held_under(&self, streak: SpinMutexGuard<'_, Streak>) -> Held<'_, T> {
        SpinMutexGuard::leak(streak);
        Held { of: self, flag: &self.closing, _thread: PhantomData }
    }

    #[inline]
    fn try_as_owner(&self, owner: u64) -> Option<Held<'_, T>> {
        let inside = &self.inside[seat_of(owner)];
        // Only this thread writes it.
        if inside.load(Ordering::Relaxed) {
            return None;
        }
        inside.store(true, Ordering::Relaxed);
        // The barrier on the core itself is the business of who closes.
        compiler_fence(Ordering::SeqCst);
        // Acquire: what was done before it was opened is visible to who comes in, and so is who
        // owns the bias since.
        if self.closing.load(Ordering::Acquire) || self.owner.load(Ordering::Relaxed) != owner {
            inside.store(false, Ordering::Release);
            return None;
        }
        Some(Held { of: self, flag: inside, _thread: PhantomData })
    }

    #[inline(never)]
    fn try_as_other(&self, thread: u64) -> Option<Held<'_, T>> {
        let mut streak = self.lock.try_lock()?;
        self.shut_out(thread);
        // One that is not this thread.
        self.owner.store(NOBODY, Ordering::Relaxed);
        if let Some(seat) = streak.seat_for(thread) {
            self.owner.store(thread << SEATS_LOG2 | seat, Ordering::Relaxed);
        }
        Some(self.held_under(streak))
    }

    /// Closes, and waits until the owner is out. What it did inside is visible afterwards. Under
    /// the lock.
    fn shut_out(&self, thread: u64) {
        self.closing.store(true, Ordering::Relaxed);
        let owner = self.owner.load(Ordering::Relaxed);
        if owner == NOBODY {
            return;
        }
        if thread_of(owner) != thread {
            // Once registered it fails for a moment at most, when the kernel is short of memory.
            while membarrier(MembarrierCommand::PrivateExpedited).is_err() {
                yield_now();
            }
        }
        while self.inside[seat_of(owner)].load(Ordering::Acquire) {
            yield_now();
        }
    }
}

const fn thread_of(owner: u64) -> u64 {
    owner >> SEATS_LOG2
}

#[expect(clippy::cast_possible_truncation, reason = "there are fewer")]
const fn seat_of(owner: u64) -> usize {
    (owner % SEATS as u64) as usize
}

impl Streak {
    /// The seat of the thread that comes in now, if it has come in often enough to own the bias.
    fn seat_for(&mut self, thread: u64) -> Option<u64> {
        self.times = if self.thread == thread { self.times + 1 } else { 1 };
        self.thread = thread;
        if self.unbiased || self.times < STREAK {
            return None;
        }
        self.times = 0;
        let seat = (0..).zip(&mut self.seats).find(|(_, sits)| [thread, NOBODY].contains(sits));
        seat.map(|(seat, sits)| {
            *sits = thread;
            seat
        })
    }
}

/// The lock, held by this thread.
pub(crate) struct Held<'a, T> {
    of: &'a BiasedLock<T>,
    /// What is lowered in the end: the owner's flag, or `closing` if this thread has the lock. Two
    /// pointers stay in registers.
    flag: &'a AtomicBool,
    /// It is this thread's to lower.
    _thread: PhantomData<*const ()>,
}

impl<T> Held<'_, T> {
    #[inline]
    fn has_lock(&self) -> bool {
        core::ptr::eq(self.flag, &self.of.closing)
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: only who holds it reaches the value: the owner found it open and is inside, or
        // another has the lock, has closed it, and found the owner outside.
        unsafe { &*self.of.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and this guard is borrowed mutably.
        unsafe { &mut *self.of.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.flag.store(false, Ordering::Release);
        if self.has_lock() {
            // SAFETY: `held_under` left it locked for this guard alone, which is gone with this.
            unsafe { self.of.lock.force_unlock() };
        }
    }
}

/// The number of the calling thread; none has had it before.
#[inline]
fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(NOBODY + 1);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(NOBODY) };
    }
    NUMBER.with(|number| {
        if number.get() == NOBODY {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}
