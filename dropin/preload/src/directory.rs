//! Listing directories. The C library's `DIR` is opaque, so that of a directory of ours may be a
//! structure of ours.

use crate::next::fail;
use crate::ours;
use core::ffi::{CStr, c_char, c_int};
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};
use libc::{DIR, dirent};
use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A directory that is being listed.
struct Listing {
    path: CString,
    next: usize,
    entry: MaybeUninit<dirent>,
}

/// The addresses of those that are open, which tell them from the C library's.
static OPEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// How many they are: most programs have none, and never lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn open() -> MutexGuard<'static, Vec<usize>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_ours(stream: *mut DIR) -> bool {
    COUNT.load(Ordering::Acquire) != 0 && open().contains(&stream.addr())
}

/// # Safety
/// `path` is a C string.
unsafe fn open_ours(path: *const c_char) -> *mut DIR {
    // SAFETY: the caller's promise.
    let (status, path) = unsafe { (ours::status(path), CStr::from_ptr(path).to_owned()) };
    match status {
        Err(errno) => fail(errno),
        Ok(status) if status.st_mode & libc::S_IFMT != libc::S_IFDIR => fail(libc::ENOTDIR),
        Ok(_) => {
            let listing = Box::into_raw(Box::new(Listing { path, next: 0, entry: MaybeUninit::zeroed() }));
            open().push(listing.addr());
            COUNT.fetch_add(1, Ordering::Release);
            listing.cast()
        }
    }
}

/// # Safety
/// The stream is one of ours, and no other thread uses it.
unsafe fn listing<'a>(stream: *mut DIR) -> &'a mut Listing {
    // SAFETY: it was made by `open_ours`.
    unsafe { &mut *stream.cast() }
}

/// # Safety
/// As above.
unsafe fn read_ours(stream: *mut DIR) -> *mut dirent {
    // SAFETY: the caller's promise.
    let listing = unsafe { listing(stream) };
    // SAFETY: the path is a C string, and there is room for the entry.
    let found = unsafe { ours::entry(listing.path.as_ptr(), listing.next, listing.entry.as_mut_ptr()) };
    if found <= 0 {
        // The end is not an error.
        return if found < 0 { fail(-found) } else { null_mut() };
    }
    listing.next += 1;
    listing.entry.as_mut_ptr()
}

/// # Safety
/// As above; the stream is not used any more.
unsafe fn close_ours(stream: *mut DIR) -> c_int {
    open().retain(|open| *open != stream.addr());
    COUNT.fetch_sub(1, Ordering::Release);
    // SAFETY: it was made by `open_ours`.
    drop(unsafe { Box::from_raw(stream.cast::<Listing>()) });
    0
}

hooks! {
    fn opendir(path: *const c_char) -> *mut DIR = |next| {
        // SAFETY: the caller gave a path.
        if unsafe { ours::is_ours(path) } { unsafe { open_ours(path) } } else { next() }
    }

    fn readdir(stream: *mut DIR) -> *mut dirent = |next| {
        // SAFETY: the stream is open, and ours.
        if is_ours(stream) { unsafe { read_ours(stream) } } else { next() }
    }

    // `dirent64` is the structure of `dirent` on 64-bit machines.
    fn readdir64(stream: *mut DIR) -> *mut dirent = |next| {
        // SAFETY: as above.
        if is_ours(stream) { unsafe { read_ours(stream) } } else { next() }
    }

    fn closedir(stream: *mut DIR) -> c_int = |next| {
        // SAFETY: as above.
        if is_ours(stream) { unsafe { close_ours(stream) } } else { next() }
    }

    fn dirfd(stream: *mut DIR) -> c_int = |next| {
        // There is no descriptor of it.
        if is_ours(stream) { fail(libc::ENOTSUP) } else { next() }
    }

    // `long` is as wide as an address.
    fn telldir(stream: *mut DIR) -> isize = |next| {
        // SAFETY: as above.
        if is_ours(stream) { unsafe { listing(stream) }.next.cast_signed() } else { next() }
    }
}

/// Functions that return nothing.
macro_rules! moves {
    ($($name:ident($($at:ident: $type:ty)?) = $to:expr;)+) => {
        hooks! {
            $(fn $name(stream: *mut DIR $(, $at: $type)?) -> () = |next| {
                // SAFETY: the stream is open, and ours.
                if is_ours(stream) { unsafe { listing(stream) }.next = $to } else { next() }
            })+
        }
    };
}

moves! {
    rewinddir() = 0;
    seekdir(at: isize) = usize::try_from(at).unwrap_or_default();
}
