//! What files are, and who may open them.

use crate::next::fail;
use crate::ours;
use core::ffi::{c_char, c_int, c_uint};

/// # Safety
/// `path` is a C string, and there is room for the status.
unsafe fn stat_ours(path: *const c_char, status: *mut libc::stat) -> c_int {
    // SAFETY: the caller's promise.
    ours::answer(unsafe { ours::stat(path, status) }, |_| 0)
}

/// # Safety
/// As above.
unsafe fn statx_ours(path: *const c_char, status: *mut libc::statx) -> c_int {
    // SAFETY: the caller's promise; all zeros is a value of the structure.
    unsafe {
        let from = match ours::status(path) {
            Ok(status) => status,
            Err(errno) => return fail(errno),
        };
        let mut to: libc::statx = core::mem::zeroed();
        to.stx_mask =
            libc::STATX_TYPE | libc::STATX_MODE | libc::STATX_NLINK | libc::STATX_INO | libc::STATX_SIZE;
        to.stx_mode = u16::try_from(from.st_mode).unwrap_or_default();
        to.stx_nlink = 1;
        to.stx_ino = from.st_ino;
        to.stx_size = u64::try_from(from.st_size).unwrap_or_default();
        to.stx_blksize = 4096;
        (to.stx_rdev_major, to.stx_rdev_minor) = (libc::major(from.st_rdev), libc::minor(from.st_rdev));
        status.write(to);
        0
    }
}

/// # Safety
/// `path` is a C string.
unsafe fn access_ours(path: *const c_char, wanted: c_int) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { ours::status(path) } {
        Err(errno) => fail(errno),
        Ok(status) => {
            // As it is for everybody: the last three bits.
            let missing = wanted.cast_unsigned() & !status.st_mode & 0o7;
            if missing == 0 { 0 } else { fail(libc::EACCES) }
        }
    }
}

/// Hooks with one body, for each name, with the parameters before the path and behind the status.
macro_rules! telling {
    ($($name:ident [$($before:ident),*] [$($flags:ident)?])+) => {
        hooks! {
            $(fn $name($($before: c_int,)* path: *const c_char, status: *mut libc::stat, $($flags: c_int,)?) -> c_int = |next| {
                // SAFETY: the caller gave a path, and room.
                if unsafe { ours::is_ours(path) } { unsafe { stat_ours(path, status) } } else { next() }
            })+
        }
    };
}

// `stat64` is the structure of `stat` on 64-bit machines. Programs that were linked with a C
// library of before 2021 call the names that begin with two lines.
telling! {
    stat [] []
    stat64 [] []
    lstat [] []
    lstat64 [] []
    fstatat [directory] [flags]
    fstatat64 [directory] [flags]
    __xstat [version] []
    __xstat64 [version] []
    __lxstat [version] []
    __lxstat64 [version] []
    __fxstatat [version, directory] [flags]
    __fxstatat64 [version, directory] [flags]
}

hooks! {
    fn statx(directory: c_int, path: *const c_char, flags: c_int, mask: c_uint, status: *mut libc::statx) -> c_int = |next| {
        // SAFETY: the caller gave a path, and room.
        if unsafe { ours::is_ours(path) } { unsafe { statx_ours(path, status) } } else { next() }
    }

    fn access(path: *const c_char, wanted: c_int) -> c_int = |next| {
        // SAFETY: the caller gave a path.
        if unsafe { ours::is_ours(path) } { unsafe { access_ours(path, wanted) } } else { next() }
    }

    fn euidaccess(path: *const c_char, wanted: c_int) -> c_int = |next| {
        // SAFETY: as above.
        if unsafe { ours::is_ours(path) } { unsafe { access_ours(path, wanted) } } else { next() }
    }

    fn eaccess(path: *const c_char, wanted: c_int) -> c_int = |next| {
        // SAFETY: as above.
        if unsafe { ours::is_ours(path) } { unsafe { access_ours(path, wanted) } } else { next() }
    }

    fn faccessat(directory: c_int, path: *const c_char, wanted: c_int, flags: c_int) -> c_int = |next| {
        // SAFETY: as above.
        if unsafe { ours::is_ours(path) } { unsafe { access_ours(path, wanted) } } else { next() }
    }
}
