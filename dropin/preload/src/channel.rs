//! Descriptors of `/dev/infiniband/rdma_cm`. The library makes them, and the calls of the kernel's
//! device for them are answered there: a command is written, and nothing is read.
//!
//! Their numbers are noted. A number may be of something else by now; the library knows by the
//! inode.

use crate::next::fail;
use crate::numbers::Numbers;
use crate::ours;
use crate::sockets;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;

const PATH: &CStr = c"/dev/infiniband/rdma_cm";

static NOTED: Numbers = Numbers::new();

/// A path of ours was opened. Returns the descriptor, or minus an errno.
///
/// # Safety
/// `path` is a C string.
pub unsafe fn opened(path: *const c_char, fd: c_int) -> c_int {
    // SAFETY: the caller's promise.
    if fd < 0 || unsafe { CStr::from_ptr(path) } != PATH {
        return fd;
    }
    if !NOTED.note(fd) {
        // SAFETY: the descriptor is new.
        unsafe { libc::close(fd) };
        return -libc::EMFILE;
    }
    fd
}

/// The inode of a descriptor that the library has made.
fn inode(fd: c_int) -> Option<u64> {
    if !NOTED.has(fd) {
        return None;
    }
    // As a system call: the function of this name is a hook.
    let mut status = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: there is room, and all zeros is a value.
    let status = unsafe {
        if libc::syscall(libc::SYS_fstat, fd, status.as_mut_ptr()) < 0 {
            return None;
        }
        status.assume_init()
    };
    // SAFETY: the call takes no pointer.
    (unsafe { ours::cm_has(status.st_ino) } == 1).then_some(status.st_ino)
}

/// # Safety
/// There is a status.
unsafe fn told(fd: c_int, status: *mut libc::stat, result: c_int) -> c_int {
    if result == 0 && inode(fd).is_some() {
        // SAFETY: the caller's promise.
        unsafe { (*status).st_mode = libc::S_IFCHR | 0o666 };
    }
    result
}

hooks! {
    fn write(fd: c_int, bytes: *const c_void, len: usize) -> isize = |next| {
        let Some(inode) = inode(fd) else { return sockets::has_written(fd, next()) };
        // SAFETY: the library copies what is there, and only that.
        ours::answer(unsafe { ours::cm_write(fd, inode, bytes, len) }, |_| len.cast_signed())
    }

    fn read(fd: c_int, bytes: *mut c_void, len: usize) -> isize = |next| {
        // The kernel's device has nothing to be read.
        if inode(fd).is_some() { fail(libc::EINVAL) } else { sockets::has_read(fd, next()) }
    }

    fn close(fd: c_int) -> c_int = |next| {
        let is_ours = inode(fd).is_some();
        NOTED.forget(fd);
        sockets::closing(fd);
        let result = next();
        if is_ours {
            // SAFETY: the call takes nothing.
            unsafe { ours::cm_closed() };
        }
        result
    }

    fn fstat(fd: c_int, status: *mut libc::stat) -> c_int = |next| {
        // SAFETY: the caller gave room.
        unsafe { told(fd, status, next()) }
    }

    fn fstat64(fd: c_int, status: *mut libc::stat) -> c_int = |next| {
        // SAFETY: as above.
        unsafe { told(fd, status, next()) }
    }

    fn __fxstat(version: c_int, fd: c_int, status: *mut libc::stat) -> c_int = |next| {
        // SAFETY: as above.
        unsafe { told(fd, status, next()) }
    }

    fn __fxstat64(version: c_int, fd: c_int, status: *mut libc::stat) -> c_int = |next| {
        // SAFETY: as above.
        unsafe { told(fd, status, next()) }
    }
}
