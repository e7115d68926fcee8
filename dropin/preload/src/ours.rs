//! Which paths are not the kernel's, and what is there: the drop-in libibverbs knows.

use crate::next::{Failed, fail};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

/// How paths begin that are ours. Those of `infiniband_verbs` and the like are among them.
const BEGINNINGS: [&[u8]; 2] = [b"/sys/class/infiniband", b"/dev/infiniband"];
const LIBRARY: &CStr = c"libibverbs.so.1";

/// Returns `true` for a path that the library answers for.
///
/// # Safety
/// `path` is NULL or a C string.
pub unsafe fn is_ours(path: *const c_char) -> bool {
    // SAFETY: the caller's promise; comparing ends at the first byte that differs, such as the
    // string's last.
    BEGINNINGS.iter().any(|beginning| !path.is_null() && unsafe { begins(path, beginning) })
}

/// # Safety
/// `path` is a C string.
unsafe fn begins(path: *const c_char, beginning: &[u8]) -> bool {
    // SAFETY: no byte behind the string's last is read: it equals none of `beginning`.
    beginning.iter().enumerate().all(|(at, byte)| unsafe { *path.add(at) }.cast_unsigned() == *byte)
}

/// A function of the library's.
struct Asked {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Asked {
    const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(null_mut()) }
    }

    /// Its address. The library is loaded if it is not yet; NULL if it is not ours.
    fn address(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Acquire);
        if !known.is_null() {
            return known;
        }
        // SAFETY: both are C strings; the library stays loaded.
        let found = unsafe {
            let library = libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL);
            if library.is_null() { null_mut() } else { libc::dlsym(library, self.name.as_ptr()) }
        };
        self.address.store(found, Ordering::Release);
        found
    }
}

/// Functions of the library's, each of which returns minus an errno if it fails.
macro_rules! asked {
    ($($(#[$meta:meta])* fn $rust:ident = $name:literal($($arg:ident: $type:ty),*);)+) => {
        $($(#[$meta])*
        ///
        /// # Safety
        /// Pointers are what the name says, and valid for the call.
        pub unsafe fn $rust($($arg: $type),*) -> c_int {
            static ASKED: Asked = Asked::new($name);
            let address = ASKED.address();
            if address.is_null() {
                return -libc::ENOENT;
            }
            // SAFETY: a function of this name has this type (dropin/src/paths/calls.rs,
            // dropin/src/ucma/calls.rs).
            unsafe {
                core::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn($($type),*) -> c_int>(address)($($arg),*)
            }
        })+
    };
}

asked! {
    /// A new descriptor.
    fn open = c"srnic_path_open"(path: *const c_char, flags: c_int);
    /// What `stat` tells.
    fn stat = c"srnic_path_stat"(path: *const c_char, status: *mut libc::stat);
    /// The entry of that number of a directory: 1, or 0 if there are no more.
    fn entry = c"srnic_path_entry"(path: *const c_char, index: usize, entry: *mut libc::dirent);
    /// The interface of that number: 1, or 0 if there are no more. The name has `IFNAMSIZ` bytes.
    fn interface = c"srnic_interface"(index: usize, name: *mut c_char, address: *mut libc::sockaddr_storage, mask: *mut libc::sockaddr_storage);
    /// The path without `.` and `..`, in `PATH_MAX` bytes.
    fn real = c"srnic_path_real"(path: *const c_char, real: *mut c_char);
    /// 1 for the inode of a descriptor of the connection manager's device.
    fn cm_has = c"srnic_cm_has"(inode: u64);
    /// A command of `len` bytes is written to it.
    fn cm_write = c"srnic_cm_write"(fd: c_int, inode: u64, bytes: *const c_void, len: usize);
    /// One was closed.
    fn cm_closed = c"srnic_cm_closed"();
}

/// What a call of the C library's returns for an answer.
pub fn answer<T: Failed>(answer: c_int, good: impl FnOnce(c_int) -> T) -> T {
    if answer < 0 { fail(-answer) } else { good(answer) }
}

/// What `stat` tells of a path of ours, or an errno.
///
/// # Safety
/// `path` is a C string.
pub unsafe fn status(path: *const c_char) -> Result<libc::stat, c_int> {
    let mut status = MaybeUninit::zeroed();
    // SAFETY: the caller's promise, and all zeros is a value of the structure.
    unsafe {
        match stat(path, status.as_mut_ptr()) {
            errno if errno < 0 => Err(-errno),
            _ => Ok(status.assume_init()),
        }
    }
}
