//! What every call from C goes through: its arguments become safe, a panic ends here, and a result
//! becomes what the call returns.

use crate::errno::{Errno, Result};
use core::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Functions that C calls. Each has its C name, Rust types that are
/// [`Argument`](crate::argument::Argument)s, what C gets, and the function that makes that of the
/// body's result.
macro_rules! exports {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty = $how:ident $body:block)+) => {
        $(calls! { #[unsafe(no_mangle)] $(#[$meta])* fn $name($($arg: $type),*) -> $ret = $how $body })+
    };
}

/// Functions that C calls by their addresses.
macro_rules! calls {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty = $how:ident $body:block)+) => {
        $($(#[$meta])*
        pub unsafe extern "C" fn $name($($arg: <$type as $crate::argument::Argument>::C),*) -> $ret {
            $crate::export::$how($crate::export::caught(move || -> $crate::errno::Result<_> {
                // SAFETY: the program keeps to the contract of the C function.
                $(let $arg = unsafe { <$type as $crate::argument::Argument>::from_c($arg)? };)*
                $body
            }))
        })+
    };
}

/// Runs a body. A panic has told of itself, and becomes an error; and all open devices tell their
/// programs that they are not to be trusted any more.
#[inline]
pub fn caught<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    caught_and_told(body, crate::opened::tell_fatal)
}

/// As above; `tell` is called behind a panic.
#[inline]
pub fn caught_and_told<T>(body: impl FnOnce() -> Result<T>, tell: fn()) -> Result<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        // Another panic would end the process.
        let _ = catch_unwind(tell);
        Err(Errno::PANIC)
    })
}

/// 0, or the errno.
#[inline]
pub fn code(result: Result<()>) -> c_int {
    result.err().map_or(0, |Errno(number)| number)
}

/// 0, or the errno, which the thread's `errno` is as well: callers look at either.
pub fn both(result: Result<()>) -> c_int {
    if let Err(errno) = result {
        errno.set();
    }
    code(result)
}

/// A number, or -1.
#[inline]
pub fn count(result: Result<c_int>) -> c_int {
    result.unwrap_or_else(|errno| {
        errno.set();
        -1
    })
}

/// A number that is the answer, or minus the errno.
pub fn negative(result: Result<c_int>) -> c_int {
    result.unwrap_or_else(|Errno(number)| -number)
}

/// A number of elements, or minus the errno.
pub fn negative_long(result: Result<isize>) -> isize {
    result.unwrap_or_else(|Errno(number)| -(number as isize))
}

/// An address, or NULL.
pub fn pointer<T>(result: Result<*mut T>) -> *mut T {
    result.unwrap_or_else(|errno| {
        errno.set();
        core::ptr::null_mut()
    })
}

/// A string that never goes away.
pub fn text(result: Result<&'static core::ffi::CStr>) -> *const c_char {
    result.map_or(core::ptr::null(), core::ffi::CStr::as_ptr)
}

/// Characters inside of an object.
pub fn chars_of(result: Result<*const c_char>) -> *const c_char {
    result.unwrap_or(core::ptr::null())
}

/// Nothing, whatever happened.
#[inline]
pub fn nothing(_result: Result<()>) {}

/// A field of a completion.
#[inline]
pub fn value<T: Default>(result: Result<T>) -> T {
    result.unwrap_or_default()
}
