//! Objects that programs know by a structure of the ABI at their beginning.

use crate::argument::Argument;
use crate::errno::{Errno, Result};
use core::cell::UnsafeCell;
use core::ptr::NonNull;

/// An object that C holds by the address of a structure inside of it.
///
/// # Safety
/// At byte `AT` of the object there is a [`Shell`] of `C`, and the object may be used by any
/// thread.
pub unsafe trait Object: Sized {
    type C;
    const AT: usize = 0;

    /// Hands it to the program, which gives it back by [`Taken`].
    fn give(self) -> *mut Self::C {
        Box::into_raw(Box::new(self)).wrapping_byte_add(Self::AT).cast()
    }

    /// Its address as the program knows it.
    fn address(&self) -> *mut Self::C {
        core::ptr::from_ref(self).cast_mut().wrapping_byte_add(Self::AT).cast()
    }
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
        if c.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: the program has it from `give`, and not given it back.
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

/// An object that the program gives back, unless the call fails.
pub struct Taken<T>(NonNull<T>);

impl<T: Object> Taken<T> {
    pub fn get(&self) -> &T {
        // SAFETY: as for `&T`.
        unsafe { self.0.as_ref() }
    }

    /// It is ours again.
    pub fn into_box(self) -> Box<T> {
        // SAFETY: it was made by `give`, and the program uses it no more.
        unsafe { Box::from_raw(self.0.as_ptr()) }
    }
}

impl<T: Object> Argument for Taken<T> {
    type C = *mut T::C;

    unsafe fn from_c(c: *mut T::C) -> Result<Self> {
        if c.is_null() {
            return Err(Errno::INVALID);
        }
        NonNull::new(c.wrapping_byte_sub(T::AT).cast()).map(Self).ok_or(Errno::INVALID)
    }
}
