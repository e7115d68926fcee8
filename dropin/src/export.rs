//! What every call from C goes through: its arguments become safe, a panic ends here, and a result
//! becomes what the call returns.

use crate::errno::{Errno, Result};
use core::ffi::{c_char, c_int};
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Functions that C calls. Each has its C name, Rust types that are
/// [`Argument`](crate::argument::Argument)s, what C gets, and the function that makes that of the
/// body's result. A thread is not cancelled in them.
macro_rules! exports {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty = $how:ident $body:block)+) => {
        $($(#[$meta])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: <$type as $crate::argument::Argument>::C),*) -> $ret {
            $crate::export::$how($crate::export::uncancelled(move || {
                $crate::export::caught(arguments!($body $($arg: $type),*))
            }))
        })+
    };
}

/// Functions that C calls by their addresses.
macro_rules! calls {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty = $how:ident $body:block)+) => {
        $($(#[$meta])*
        pub unsafe extern "C" fn $name($($arg: <$type as $crate::argument::Argument>::C),*) -> $ret {
            $crate::export::$how($crate::export::caught(arguments!($body $($arg: $type),*)))
        })+
    };
}

/// As [`exports`], where the body says [what to wait for](Step). A thread may be cancelled while it
/// waits.
macro_rules! waiting_exports {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty = $how:ident $body:block)+) => {
        $($(#[$meta])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: <$type as $crate::argument::Argument>::C),*) -> $ret {
            $crate::export::$how($crate::export::waiting(&arguments!($body $($arg: $type),*)))
        })+
    };
}

/// A body whose arguments are safe.
macro_rules! arguments {
    ($body:block $($arg:ident: $type:ty),*) => {
        move || -> $crate::errno::Result<_> {
            // SAFETY: the program keeps to the contract of the C function.
            $(let $arg = unsafe { <$type as $crate::argument::Argument>::from_c($arg)? };)*
            $body
        }
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

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

// A thread that is cancelled in one of these leaves its stack by unwinding.
unsafe extern "C-unwind" {
    fn pthread_testcancel();
    fn poll(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int) -> c_int;
    fn pause() -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE`.
const DISABLE: c_int = 1;

/// Runs a body in which the thread is not cancelled: the C library would unwind through it, and
/// what catches panics ends the process then.
pub fn uncancelled<T>(body: impl FnOnce() -> T) -> T {
    let mut before = 0;
    // SAFETY: a number is written.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
    let result = body();
    // SAFETY: NULL says that nobody wants to know.
    unsafe { pthread_setcancelstate(before, core::ptr::null_mut()) };
    result
}

/// How far a call has come that may have to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step<T> {
    Done(T),
    /// Once more, when the descriptor can be read.
    Once(RawFd),
    /// As above, unless a signal comes before.
    OnceOrSignal(RawFd),
    /// Once more, now.
    Again,
    /// Only a signal ends the call.
    Signal,
}

impl<T> Step<T> {
    pub fn map<U>(self, result: impl FnOnce(T) -> U) -> Step<U> {
        match self {
            Self::Done(done) => Step::Done(result(done)),
            Self::Once(fd) => Step::Once(fd),
            Self::OnceOrSignal(fd) => Step::OnceOrSignal(fd),
            Self::Again => Step::Again,
            Self::Signal => Step::Signal,
        }
    }
}

/// Takes steps until the last one. Between them, while it waits, the thread may be cancelled: it
/// has nothing on its stack that anybody misses, and no lock.
pub fn waiting<T: Copy>(step: &impl Fn() -> Result<Step<T>>) -> Result<T> {
    loop {
        let woken = match uncancelled(|| caught(step))? {
            Step::Done(result) => return Ok(result),
            Step::Again => {
                // SAFETY: it takes nothing.
                unsafe { pthread_testcancel() };
                0
            }
            // SAFETY: it takes nothing.
            Step::Signal => unsafe { pause() },
            Step::Once(fd) if poll_one(fd) < 0 && Errno::last() != Errno::INTERRUPTED => -1,
            Step::Once(_) => 0,
            Step::OnceOrSignal(fd) => poll_one(fd),
        };
        if woken < 0 {
            return Err(Errno::last());
        }
    }
}

/// Waits until a descriptor can be read.
fn poll_one(fd: RawFd) -> c_int {
    let mut watched = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: it is one.
    unsafe { poll(&raw mut watched, 1, -1) }
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
