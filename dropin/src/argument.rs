//! Arguments of C calls, turned into what safe code can use. NULL is EINVAL.

use crate::errno::{Errno, Result};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::NonNull;

/// What a parameter of a C function becomes.
pub trait Argument: Sized {
    type C;

    /// # Safety
    /// A pointer is NULL or points to what the verbs manual says, for as long as the call takes.
    unsafe fn from_c(c: Self::C) -> Result<Self>;
}

macro_rules! plain {
    ($($type:ty),+) => {
        $(impl Argument for $type {
            type C = Self;

            #[inline]
            unsafe fn from_c(c: Self) -> Result<Self> {
                Ok(c)
            }
        })+
    };
}

plain!(u8, u16, c_int, u32, u64, usize, *mut c_void, *const c_void);

/// A string.
impl Argument for &CStr {
    type C = *const c_char;

    unsafe fn from_c(c: *const c_char) -> Result<Self> {
        // SAFETY: the caller's promise.
        if c.is_null() { Err(Errno::INVALID) } else { Ok(unsafe { CStr::from_ptr(c) }) }
    }
}

/// The longest structure that a program can mean.
const SIZE_MAX: usize = 1 << 16;

/// A pointer that the call only hands on or compares.
pub struct Handle<T>(pub *mut T);

impl<T> Argument for Handle<T> {
    type C = *mut T;

    unsafe fn from_c(c: *mut T) -> Result<Self> {
        Ok(Self(c))
    }
}

/// A structure that the call reads.
pub struct In<T>(NonNull<T>);

impl<T: Copy> In<T> {
    #[inline]
    pub fn get(&self) -> T {
        // SAFETY: as `Argument::from_c` was promised.
        unsafe { self.0.read_unaligned() }
    }
}

impl<T: Copy> Argument for In<T> {
    type C = *const T;

    #[inline]
    unsafe fn from_c(c: *const T) -> Result<Self> {
        NonNull::new(c.cast_mut()).map(Self).ok_or(Errno::INVALID)
    }
}

impl<T: Copy> Argument for Option<In<T>> {
    type C = *const T;

    unsafe fn from_c(c: *const T) -> Result<Self> {
        Ok(NonNull::new(c.cast_mut()).map(In))
    }
}

/// A structure that the call writes, or changes.
pub struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    #[inline]
    pub fn set(&self, value: T) {
        // SAFETY: as `Argument::from_c` was promised.
        unsafe { self.0.write_unaligned(value) };
    }

    /// Fills a structure of the program's that has so many bytes: it may be shorter than ours, or
    /// of a later version of the library, of which we know only the beginning. The rest is zeros.
    pub fn set_sized(&self, value: &T, bytes: usize) -> Result<()> {
        if bytes > SIZE_MAX {
            return Err(Errno::INVALID);
        }
        let known = bytes.min(size_of::<T>());
        let to: *mut u8 = self.0.as_ptr().cast();
        // SAFETY: as above, and `value` has as many as are known.
        unsafe {
            core::ptr::from_ref(value).cast::<u8>().copy_to(to, known);
            to.add(known).write_bytes(0, bytes - known);
        }
        Ok(())
    }

    /// The place of element `index` of an array.
    pub fn at(&self, index: usize) -> Self {
        Self(NonNull::new(self.0.as_ptr().wrapping_add(index)).unwrap_or(self.0))
    }
}

impl<T: Copy> Out<T> {
    #[inline]
    pub fn get(&self) -> T {
        // SAFETY: as `Argument::from_c` was promised.
        unsafe { self.0.read_unaligned() }
    }
}

impl<T> Argument for Out<T> {
    type C = *mut T;

    #[inline]
    unsafe fn from_c(c: *mut T) -> Result<Self> {
        NonNull::new(c).map(Self).ok_or(Errno::INVALID)
    }
}

impl<T> Argument for Option<Out<T>> {
    type C = *mut T;

    #[inline]
    unsafe fn from_c(c: *mut T) -> Result<Self> {
        Ok(NonNull::new(c).map(Out))
    }
}

/// The first of structures that are linked by a field.
pub struct Chain<T>(pub *mut T);

/// A structure that names the next of its kind.
pub trait Linked: Copy {
    fn next(&self) -> *mut Self;
}

impl<T: Linked> Chain<T> {
    /// Takes the first off; it comes with its address.
    #[inline]
    pub fn pop(&mut self) -> Option<(*mut T, T)> {
        let first = NonNull::new(self.0)?;
        // SAFETY: as `Argument::from_c` was promised.
        let value = unsafe { first.read_unaligned() };
        self.0 = value.next();
        Some((first.as_ptr(), value))
    }
}

impl<T: Linked> Argument for Chain<T> {
    type C = *mut T;

    #[inline]
    unsafe fn from_c(c: *mut T) -> Result<Self> {
        Ok(Self(c))
    }
}

/// An array that a structure or a call names by its address and its length; nothing if there is no
/// address.
///
/// # Safety
/// That many elements are there, for as long as the call takes.
#[inline]
pub unsafe fn array<'a, T>(start: *const T, len: usize) -> &'a [T] {
    if start.is_null() || len == 0 || !start.is_aligned() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(start, len) }
}
