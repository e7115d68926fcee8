//! Programs of sockets over rsockets (docs/adr/0092). librdmacm's own preload, `librspreload.so`,
//! gives a program a descriptor of `/dev/null` for each rsocket, and takes the calls for it. What
//! it lacks, or has wrong, is here. In a program without it, each of these calls goes on to the C
//! library.
//!
//! | calls | where |
//! |---|---|
//! | `rpoll`: limits, and listeners that hear at once | `rpoll` |
//! | `select`, by `poll` | `select` |
//! | `epoll_*`, by `poll` | `epoll` |
//! | `socket`, `accept4`, `fcntl64`, `ioctl` with flags that it does not know | `calls` |
//! | `dup2`, `dup3`, `close_range`, which close descriptors | `calls` |
//! | `send`, `recv` and their kind, which tell that an edge is over | `calls` |

mod calls;
mod epoll;
mod rpoll;
mod select;

use crate::next::{Next, fail};
use core::ffi::{CStr, c_int, c_short};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::OnceLock;

/// In the name of librdmacm's preload.
const PRELOAD: &[u8] = b"librspreload";

/// Returns `true` where the program's sockets are rsockets: librdmacm's preload is what it would
/// have reached.
fn are_rsockets() -> bool {
    const UNKNOWN: u8 = 0;
    const NO: u8 = 1;
    const YES: u8 = 2;
    static SOCKET: Next = Next::new(c"socket");
    static KNOWN: AtomicU8 = AtomicU8::new(UNKNOWN);
    match KNOWN.load(Ordering::Relaxed) {
        UNKNOWN => {
            let library = SOCKET.library().map(CStr::to_bytes);
            let are = library.is_some_and(|name| name.windows(PRELOAD.len()).any(|part| part == PRELOAD));
            KNOWN.store(if are { YES } else { NO }, Ordering::Relaxed);
            are
        }
        known => known == YES,
    }
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

pub use epoll::closing;

/// What a read tells of a descriptor.
pub fn has_read(fd: c_int, result: isize) -> isize {
    noted(fd, libc::POLLIN, result)
}

/// What a write tells of a descriptor.
pub fn has_written(fd: c_int, result: isize) -> isize {
    noted(fd, libc::POLLOUT, result)
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

// As in the C library, and a thread that waits there may be cancelled: its stack is unwound.
unsafe extern "C-unwind" {
    fn poll(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int) -> c_int;
    fn accept(fd: c_int, address: *mut libc::sockaddr, len: *mut libc::socklen_t) -> c_int;
}

/// The program has made a socket of the Internet's.
static HAS_SOCKETS: AtomicBool = AtomicBool::new(false);

/// An rsocket that is never connected; minus one if there is none, or the program has no sockets.
fn idle() -> c_int {
    static IDLE: OnceLock<c_int> = OnceLock::new();
    if !HAS_SOCKETS.load(Ordering::Relaxed) {
        return -1;
    }
    // SAFETY: the call takes no pointer.
    *IDLE.get_or_init(|| unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) })
}

/// Waits for descriptors of either kind, as `poll` does. The list has its end back behind that.
///
/// An rsocket is always among them: only then librdmacm's preload takes a socket that went back to
/// TCP for what it is.
fn poll_all(fds: &mut Vec<libc::pollfd>, timeout: c_int) -> c_int {
    fds.push(libc::pollfd { fd: idle(), events: 0, revents: 0 });
    // SAFETY: the list has as many as it says.
    let ready = unsafe { poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout) };
    let told = fds.pop().is_some_and(|idle| idle.revents != 0);
    if ready > 0 { ready - c_int::from(told) } else { ready }
}

/// What a call for an rsocket tells: the events that it has to wait for are new ones next time.
fn noted(fd: c_int, events: c_short, result: isize) -> isize {
    if result < 0 && errno() == libc::EAGAIN {
        epoll::blocked(fd, events);
        return fail(libc::EAGAIN);
    }
    result
}
