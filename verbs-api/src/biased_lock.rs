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
//! thread tries, too, several drive the engine, and there is no owner any more, ever: `closing`
//! stays up, so that one who has not heard of it cannot come in. [`BiasedLock::lock`], for calls of
//! the control path, shuts the owner out for its own stay only.

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
/// The number of no thread.
const NOBODY: u64 = 0;

/// A value behind a biased lock.
pub(crate) struct BiasedLock<T> {
    /// The lock for all threads but the owner.
    lock: SpinMutex<Streak, Yield>,
    /// Number of the thread that owns the bias. Written under the lock.
    owner: AtomicU64,
    /// The owner is inside. Written by the owner.
    inside: AtomicBool,
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
    /// There is no owner, and will not be.
    over: bool,
}

impl<T> BiasedLock<T> {
    pub fn new(value: T) -> Self {
        let over = membarrier(MembarrierCommand::RegisterPrivateExpedited).is_err();
        Self {
            lock: SpinMutex::new(Streak { thread: NOBODY, times: 0, over }),
            owner: AtomicU64::new(NOBODY),
            inside: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// The value, unless somebody has it or waits for it.
    #[inline]
    pub fn try_lock(&self) -> Option<Held<'_, T>> {
        let thread = this_thread();
        if self.owner.load(Ordering::Relaxed) == thread {
            self.try_as_owner()
        } else {
            self.try_as_other(thread)
        }
    }

    /// The value, as soon as nobody has it. A thread that has it already waits for ever.
    pub fn lock(&self) -> Held<'_, T> {
        let streak = self.lock.lock();
        self.shut_out(this_thread());
        Held { of: self, streak: Some(streak), _thread: PhantomData }
    }

    #[inline]
    fn try_as_owner(&self) -> Option<Held<'_, T>> {
        // Only this thread writes it.
        if self.inside.load(Ordering::Relaxed) {
            return None;
        }
        self.inside.store(true, Ordering::Relaxed);
        // The barrier on the core itself is the business of who closes.
        compiler_fence(Ordering::SeqCst);
        // Acquire: what was done before it was opened is visible to who comes in.
        if self.closing.load(Ordering::Acquire) {
            self.inside.store(false, Ordering::Release);
            return None;
        }
        Some(Held { of: self, streak: None, _thread: PhantomData })
    }

    fn try_as_other(&self, thread: u64) -> Option<Held<'_, T>> {
        let mut streak = self.lock.try_lock()?;
        self.shut_out(thread);
        if self.owner.load(Ordering::Relaxed) != NOBODY {
            self.owner.store(NOBODY, Ordering::Relaxed);
            streak.over = true;
        }
        if !streak.over && streak.grows(thread) {
            self.owner.store(thread, Ordering::Relaxed);
        }
        Some(Held { of: self, streak: Some(streak), _thread: PhantomData })
    }

    /// Closes, and waits until the owner is out. What it did inside is visible afterwards. Under
    /// the lock.
    fn shut_out(&self, thread: u64) {
        self.closing.store(true, Ordering::Relaxed);
        let owner = self.owner.load(Ordering::Relaxed);
        if owner != NOBODY && owner != thread {
            // Once registered it fails for a moment at most, when the kernel is short of memory.
            while membarrier(MembarrierCommand::PrivateExpedited).is_err() {
                yield_now();
            }
        }
        while self.inside.load(Ordering::Acquire) {
            yield_now();
        }
    }
}

impl Streak {
    /// True if the thread has now come in often enough.
    fn grows(&mut self, thread: u64) -> bool {
        self.times = if self.thread == thread { self.times + 1 } else { 1 };
        self.thread = thread;
        self.times >= STREAK
    }
}

/// The lock, held by this thread.
pub(crate) struct Held<'a, T> {
    of: &'a BiasedLock<T>,
    /// `None`: by the owner.
    streak: Option<SpinMutexGuard<'a, Streak>>,
    /// The owner's flag is this thread's to lower.
    _thread: PhantomData<*const ()>,
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
        match &self.streak {
            None => self.of.inside.store(false, Ordering::Release),
            Some(streak) if streak.over => {}
            Some(_) => self.of.closing.store(false, Ordering::Release),
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
