//! Objects that programs know by a structure of the ABI at their beginning.
//!
//! In front of each stands a mark that says that it is alive. A program that uses an object which
//! it has destroyed is told so (EINVAL), as long as its memory is not used again: that of the last
//! [`KEPT`] objects is not.

use crate::argument::Argument;
use crate::errno::{Errno, Result};
use core::cell::UnsafeCell;
use core::mem::{ManuallyDrop, offset_of};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use std::alloc::{Layout, dealloc};
use std::collections::VecDeque;
use std::sync::{Mutex, TryLockError};

/// Objects that were destroyed, and whose memory is kept.
const KEPT: usize = 256;
/// Nothing is below this address: whoever names such an object has a NULL, or a field of one.
const LOWEST: usize = 4096;
/// What stands in front of an object that is alive, of one that a call is destroying, and of one
/// that is no more.
const ALIVE: u64 = 0x5352_4e49_4341_4c56;
const ENDING: u64 = ALIVE + 1;
const DEAD: u64 = !ALIVE;

/// An object that C holds by the address of a structure inside of it.
///
/// # Safety
/// At byte `AT` of the object there is a [`Shell`] of `C`, and the object may be used by any
/// thread. Programs have it from [`give`](Object::give), or [`is_alive`](Object::is_alive) does
/// without a mark.
pub unsafe trait Object: Sized {
    type C;
    const AT: usize = 0;

    /// Hands it to the program, which gives it back by [`Taken`].
    fn give(self) -> *mut Self::C {
        let marked = Marked { mark: AtomicU64::new(ALIVE), object: ManuallyDrop::new(self) };
        let marked = Box::into_raw(Box::new(marked));
        // What comes back from C, and what `address` makes, is the whole.
        marked.expose_provenance();
        marked.wrapping_byte_add(offset_of!(Marked<Self>, object) + Self::AT).cast()
    }

    /// Whether an object that the program names is one.
    ///
    /// # Safety
    /// The program has it from [`give`](Self::give), and at most [`KEPT`] objects were destroyed
    /// since its end.
    #[inline]
    unsafe fn is_alive(c: *mut Self::C) -> bool {
        let marked = marked::<Self>(c);
        // SAFETY: the mark is there as long as the memory, which is kept so long.
        marked.is_aligned() && unsafe { (*marked).mark.load(Ordering::Relaxed) } & !1 == ALIVE
    }

    /// Its address as the program knows it.
    fn address(&self) -> *mut Self::C {
        core::ptr::with_exposed_provenance_mut(core::ptr::from_ref(self).addr() + Self::AT)
    }
}

/// An object with its mark.
#[repr(C)]
struct Marked<T> {
    mark: AtomicU64,
    object: ManuallyDrop<T>,
}

/// Where an object is that the program knows by this structure.
const fn marked<T: Object>(c: *mut T::C) -> *const Marked<T> {
    c.wrapping_byte_sub(T::AT + offset_of!(Marked<T>, object)).cast()
}

/// Memory of an object that was destroyed.
struct Memory {
    at: *mut u8,
    layout: Layout,
}

// SAFETY: nobody else has it.
unsafe impl Send for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: a box had this layout, and was taken apart.
        unsafe { dealloc(self.at, self.layout) }
    }
}

/// That of the last objects that were destroyed, the oldest first.
static DESTROYED: Mutex<VecDeque<Memory>> = Mutex::new(VecDeque::new());

/// Keeps memory for a while, and frees what has been kept long enough.
fn keep(memory: Memory) {
    let mut kept = match DESTROYED.try_lock() {
        Ok(kept) => kept,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        // Another thread is in here, or was when this process was forked.
        Err(TryLockError::WouldBlock) => return drop(memory),
    };
    let oldest = if kept.len() < KEPT { None } else { kept.pop_front() };
    kept.push_back(memory);
    drop(kept);
    drop(oldest);
}

/// A structure that the program may read and write behind our back.
#[repr(transparent)]
pub struct Shell<C>(UnsafeCell<C>);

// SAFETY: it is reached by raw pointers, and read by us where the program's contract says that
// nobody writes.
unsafe impl<C> Send for Shell<C> {}
// SAFETY: as above.
unsafe impl<C> Sync for Shell<C> {}

impl<C> Shell<C> {
    pub const fn new(c: C) -> Self {
        Self(UnsafeCell::new(c))
    }

    /// Its place, for a read or write of single fields.
    pub const fn get(&self) -> *mut C {
        self.0.get()
    }
}

impl<T: Object> Argument for &T {
    type C = *mut T::C;

    #[inline]
    unsafe fn from_c(c: *mut T::C) -> Result<Self> {
        // SAFETY: the program has it from `give`.
        if c.addr() < LOWEST || !unsafe { T::is_alive(c) } {
            return Err(Errno::INVALID);
        }
        // SAFETY: it is alive, and by the contract of verbs it stays so for as long as the call
        // takes: no other thread destroys it meanwhile.
        Ok(unsafe { &*c.wrapping_byte_sub(T::AT).cast() })
    }
}

impl<T: Object> Argument for Option<&T> {
    type C = *mut T::C;

    #[inline]
    unsafe fn from_c(c: *mut T::C) -> Result<Self> {
        // SAFETY: as above.
        if c.is_null() { Ok(None) } else { unsafe { <&T>::from_c(c) }.map(Some) }
    }
}

/// An object that the program gives back, unless the call fails. No other call can take it
/// meanwhile.
pub struct Taken<T: Object>(NonNull<Marked<T>>);

impl<T: Object> Taken<T> {
    pub fn get(&self) -> &T {
        // SAFETY: it is alive until `destroy`, which nobody else comes to.
        unsafe { &self.0.as_ref().object }
    }

    /// Destroys it.
    pub fn destroy(self) {
        let marked = self.0.as_ptr();
        core::mem::forget(self);
        // SAFETY: `give` made it, this call alone has taken it, and the program uses it no more.
        unsafe {
            (*marked).mark.store(DEAD, Ordering::Release);
            ManuallyDrop::drop(&mut (*marked).object);
        }
        keep(Memory { at: marked.cast(), layout: Layout::new::<Marked<T>>() });
    }
}

/// The call has failed: it is the program's still.
impl<T: Object> Drop for Taken<T> {
    fn drop(&mut self) {
        // SAFETY: it is alive.
        unsafe { self.0.as_ref() }.mark.store(ALIVE, Ordering::Release);
    }
}

impl<T: Object> Argument for Taken<T> {
    type C = *mut T::C;

    unsafe fn from_c(c: *mut T::C) -> Result<Self> {
        // SAFETY: the program has it from `give`.
        let whole = NonNull::new(marked::<T>(c).cast_mut())
            .filter(|_| c.addr() >= LOWEST && unsafe { T::is_alive(c) });
        let taken = whole.ok_or(Errno::INVALID)?;
        // SAFETY: its mark is there.
        let mark = unsafe { &taken.as_ref().mark };
        let is_ours = mark.compare_exchange(ALIVE, ENDING, Ordering::AcqRel, Ordering::Relaxed);
        is_ours.map(|_| Self(taken)).map_err(|_| Errno::INVALID)
    }
}
