//! Where links lead. None of our paths is one.

use crate::next::fail;
use crate::ours;
use core::ffi::{c_char, c_int};
use core::ptr::null_mut;

/// # Safety
/// `path` is a C string.
unsafe fn read_ours(path: *const c_char) -> isize {
    // SAFETY: the caller's promise.
    fail(unsafe { ours::status(path) }.err().unwrap_or(libc::EINVAL))
}

/// # Safety
/// `path` is a C string; `real` is NULL, or has `PATH_MAX` bytes.
unsafe fn real_ours(path: *const c_char, real: *mut c_char) -> *mut c_char {
    let mut buffer = [0; libc::PATH_MAX as usize];
    // SAFETY: the caller's promise. What is NULL the caller frees, as it does the C library's.
    ours::answer(unsafe { ours::real(path, buffer.as_mut_ptr()) }, |_| unsafe {
        if real.is_null() { libc::strdup(buffer.as_ptr()) } else { libc::strcpy(real, buffer.as_ptr()) }
    })
}

hooks! {
    fn readlink(path: *const c_char, target: *mut c_char, size: usize) -> isize = |next| {
        // SAFETY: the caller gave a path.
        if unsafe { ours::is_ours(path) } { unsafe { read_ours(path) } } else { next() }
    }

    fn __readlink_chk(path: *const c_char, target: *mut c_char, size: usize, room: usize) -> isize = |next| {
        // SAFETY: as above.
        if unsafe { ours::is_ours(path) } { unsafe { read_ours(path) } } else { next() }
    }

    fn readlinkat(directory: c_int, path: *const c_char, target: *mut c_char, size: usize) -> isize = |next| {
        // SAFETY: as above.
        if unsafe { ours::is_ours(path) } { unsafe { read_ours(path) } } else { next() }
    }

    fn realpath(path: *const c_char, real: *mut c_char) -> *mut c_char = |next| {
        // SAFETY: as above, with room for the result.
        if unsafe { ours::is_ours(path) } { unsafe { real_ours(path, real) } } else { next() }
    }

    fn __realpath_chk(path: *const c_char, real: *mut c_char, room: usize) -> *mut c_char = |next| {
        // SAFETY: as above.
        if unsafe { ours::is_ours(path) } { unsafe { real_ours(path, real) } } else { next() }
    }

    fn canonicalize_file_name(path: *const c_char) -> *mut c_char = |next| {
        // SAFETY: the caller gave a path.
        if unsafe { ours::is_ours(path) } { unsafe { real_ours(path, null_mut()) } } else { next() }
    }
}
