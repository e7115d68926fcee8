//! Programs of sockets over rsockets (docs/adr/0092). librdmacm's own preload, `librspreload.so`,
//! gives a program a descriptor of `/dev/null` for each rsocket, and takes the calls for it. What
//! it lacks, or has wrong before rdma-core 64, is here; where it has a call itself, that one is
//! taken. In a program without it, each of these calls goes on to the C library.
//!
//! | calls | where |
//! |---|---|
//! | `rpoll`: limits, and listeners that hear at once | `rpoll` |
//! | `select`, by `poll` | `select` |
//! | `epoll_*`, by `poll` | `epoll` |
//! | `accept4`, `fcntl64` | `calls` |

mod calls;
mod epoll;
mod rpoll;
mod select;

use crate::next::Next;
use core::ffi::{CStr, c_int};
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU8, Ordering};

/// In the name of librdmacm's preload.
const PRELOAD: &[u8] = b"librspreload";

/// Whether librdmacm's preload has the function that the program would have reached.
struct Theirs {
    next: Next,
    known: AtomicU8,
}

const UNKNOWN: u8 = 0;
const NO: u8 = 1;
const YES: u8 = 2;

impl Theirs {
    const fn new(name: &'static CStr) -> Self {
        Self { next: Next::new(name), known: AtomicU8::new(UNKNOWN) }
    }

    fn has(&self) -> bool {
        match self.known.load(Ordering::Relaxed) {
            UNKNOWN => {
                let has = self
                    .next
                    .library()
                    .is_some_and(|name| name.to_bytes().windows(PRELOAD.len()).any(|part| part == PRELOAD));
                self.known.store(if has { YES } else { NO }, Ordering::Relaxed);
                has
            }
            known => known == YES,
        }
    }
}

/// Returns `true` where the program's sockets are rsockets.
fn are_rsockets() -> bool {
    static SOCKET: Theirs = Theirs::new(c"socket");
    SOCKET.has()
}

/// Bytes that there are for an address; more than any has.
const ADDRESS_LEN: u32 = 128;

/// Returns `true` for an rsocket, of whose descriptor the kernel says that it is no socket.
fn is_rsocket(fd: c_int) -> bool {
    let mut address = MaybeUninit::<libc::sockaddr_storage>::uninit();
    let mut len: libc::socklen_t = ADDRESS_LEN;
    let mut status = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: there is room for what each call tells. The second is librdmacm's, and is asked only
    // of descriptors that are no sockets of the kernel's.
    unsafe {
        libc::syscall(libc::SYS_fstat, fd, status.as_mut_ptr()) == 0
            && status.assume_init().st_mode & libc::S_IFMT != libc::S_IFSOCK
            && libc::getsockname(fd, address.as_mut_ptr().cast(), &raw mut len) == 0
    }
}

/// The descriptor is about to be closed.
pub fn closing(fd: c_int) {
    epoll::closing(fd);
}

fn errno() -> c_int {
    // SAFETY: the location is the calling thread's own.
    unsafe { *libc::__errno_location() }
}

/// The whole milliseconds that `poll` is to wait until a time; minus one for ever.
fn millis(until: Option<std::time::Instant>) -> c_int {
    let Some(until) = until else { return -1 };
    let left = until.saturating_duration_since(std::time::Instant::now());
    c_int::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(c_int::MAX)
}

/// A call of the C library's that takes a list, with an empty list as NULL.
fn list<T>(items: &mut [T]) -> *mut T {
    if items.is_empty() { null_mut() } else { items.as_mut_ptr() }
}
