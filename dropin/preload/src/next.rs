//! The functions that programs would have reached without this library.

use core::ffi::{CStr, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

/// It has functions that the C library has not.
const LIBRDMACM: &CStr = c"librdmacm.so.1";

/// A function of the C library, or of the next library that is loaded before it.
pub struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    pub const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(null_mut()) }
    }

    /// Its address; NULL if there is none.
    pub fn address(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Acquire);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the names are C strings. librdmacm may be loaded where only who loaded it looks.
        let found = unsafe {
            let next = libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr());
            let library = if next.is_null() {
                libc::dlopen(LIBRDMACM.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD)
            } else {
                null_mut()
            };
            if library.is_null() { next } else { libc::dlsym(library, self.name.as_ptr()) }
        };
        self.address.store(found, Ordering::Release);
        found
    }

    /// The name of the library that has it.
    pub fn library(&self) -> Option<&'static CStr> {
        let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: there is room, and all zeros is a value. The name lasts as long as the library,
        // which whoever calls its function keeps.
        unsafe {
            if libc::dladdr(self.address(), found.as_mut_ptr()) == 0 {
                return None;
            }
            let name = found.assume_init().dli_fname;
            (!name.is_null()).then(|| CStr::from_ptr(name))
        }
    }
}

/// What a call returns that failed; `errno` says why.
pub trait Failed {
    const FAILED: Self;
}

impl Failed for c_int {
    const FAILED: Self = -1;
}

impl Failed for isize {
    const FAILED: Self = -1;
}

impl Failed for () {
    const FAILED: Self = ();
}

impl<T> Failed for *mut T {
    const FAILED: Self = null_mut();
}

/// Makes `errno` the calling thread's, and fails.
pub fn fail<T: Failed>(errno: c_int) -> T {
    // SAFETY: the location is the calling thread's own.
    unsafe { *libc::__errno_location() = errno };
    T::FAILED
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Runs what must not be left half done: the thread is not cancelled in it.
pub fn uncancelled<T>(body: impl FnOnce() -> T) -> T {
    /// `PTHREAD_CANCEL_DISABLE`.
    const DISABLE: c_int = 1;
    let mut before = 0;
    // SAFETY: a number is written; behind that, NULL says that nobody wants to know.
    unsafe {
        pthread_setcancelstate(DISABLE, &raw mut before);
        let result = body();
        pthread_setcancelstate(before, null_mut());
        result
    }
}

/// Functions that take the place of the C library's. In the body, the name behind the arrow calls
/// the next function with what this one was given. A thread may be cancelled there, and leaves its
/// stack by unwinding: nothing that is to be dropped may be on it meanwhile.
macro_rules! hooks {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty = |$next:ident| $body:block)+) => {
        $($(#[$meta])*
        #[doc = concat!("`", stringify!($name), "` of the C library.")]
        ///
        /// # Safety
        /// As for that function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $ret {
            // The compiler takes `name` for the function itself, and wants no literal of it.
            static NEXT: $crate::next::Next = $crate::next::Next::new(
                match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
            );
            let $next = || {
                let address = NEXT.address();
                if address.is_null() {
                    return $crate::next::fail(libc::ENOSYS);
                }
                // SAFETY: a function of this name has this type, and the caller promised what it
                // wants.
                unsafe {
                    core::mem::transmute::<*mut core::ffi::c_void, unsafe extern "C-unwind" fn($($type),*) -> $ret>(
                        address,
                    )($($arg),*)
                }
            };
            $body
        })+
    };
}
