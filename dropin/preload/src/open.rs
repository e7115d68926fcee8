//! Opening files.
//!
//! `open` and its kind have the mode behind the flags only if a file is made. On x86-64 and AArch64
//! it is in the register of a third parameter, and is handed on unread.

use crate::channel;
use crate::next::fail;
use crate::ours;
use core::ffi::{c_char, c_int, c_uint};
use libc::FILE;

/// # Safety
/// `path` is a C string.
unsafe fn open_ours(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the caller's promise.
    ours::answer(unsafe { channel::opened(path, ours::open(path, flags)) }, |fd| fd)
}

/// # Safety
/// Both are C strings.
unsafe fn stream_ours(path: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: the caller's promise; the descriptor is new.
    unsafe {
        // What is written cannot be opened, whatever else the mode says.
        let is_reading = *mode == b'r'.cast_signed() && libc::strchr(mode, c_int::from(b'+')).is_null();
        let flags = if is_reading { libc::O_RDONLY } else { libc::O_RDWR };
        let fd = ours::open(path, flags | libc::O_CLOEXEC);
        if fd < 0 {
            return fail(-fd);
        }
        let stream = libc::fdopen(fd, mode);
        if stream.is_null() {
            libc::close(fd);
        }
        stream
    }
}

/// Hooks with one body, for each name, with the parameters before the path and behind the flags.
macro_rules! opening {
    ($($name:ident [$($before:ident: $type:ty)?] [$($mode:ident)?])+) => {
        hooks! {
            $(fn $name($($before: $type,)? path: *const c_char, flags: c_int, $($mode: c_uint,)?) -> c_int = |next| {
                // SAFETY: the caller gave a path.
                if unsafe { ours::is_ours(path) } { unsafe { open_ours(path, flags) } } else { next() }
            })+
        }
    };
}

opening! {
    open [] [mode]
    open64 [] [mode]
    openat [directory: c_int] [mode]
    openat64 [directory: c_int] [mode]
    __open_2 [] []
    __open64_2 [] []
    __openat_2 [directory: c_int] []
    __openat64_2 [directory: c_int] []
}

hooks! {
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE = |next| {
        // SAFETY: the caller gave a path and a mode.
        if unsafe { ours::is_ours(path) } { unsafe { stream_ours(path, mode) } } else { next() }
    }

    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE = |next| {
        // SAFETY: as above.
        if unsafe { ours::is_ours(path) } { unsafe { stream_ours(path, mode) } } else { next() }
    }
}
