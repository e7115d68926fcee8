//! Calls that librdmacm's preload got late: without them a program's rsocket goes on blocking, or
//! cannot be accepted.

use super::{Theirs, are_rsockets, errno, is_rsocket};
use crate::next::fail;
use core::ffi::{c_int, c_long};
use libc::{sockaddr, socklen_t};

hooks! {
    fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int = |next| {
        static ACCEPT4: Theirs = Theirs::new(c"accept4");
        let accepted = next();
        if accepted >= 0 || errno() != libc::ENOTSOCK || !are_rsockets() || ACCEPT4.has() {
            return accepted;
        }
        if !is_rsocket(fd) {
            return fail(libc::ENOTSOCK);
        }
        // SAFETY: the caller gave what `accept` takes.
        let accepted = unsafe { libc::accept(fd, address, len) };
        if accepted >= 0 {
            // SAFETY: the calls take no pointer. The kernel's flag is one of the descriptor that
            // stands for the rsocket.
            unsafe {
                if flags & libc::SOCK_CLOEXEC != 0 {
                    libc::syscall(libc::SYS_fcntl, accepted, libc::F_SETFD, libc::FD_CLOEXEC);
                }
                if flags & libc::SOCK_NONBLOCK != 0 {
                    libc::fcntl(accepted, libc::F_SETFL, libc::O_NONBLOCK);
                }
            }
        }
        accepted
    }

    /// The third argument is handed on, whatever it is, in the register that it came in.
    fn fcntl64(fd: c_int, command: c_int, argument: c_long) -> c_int = |next| {
        static FCNTL64: Theirs = Theirs::new(c"fcntl64");
        let is_of_descriptor = matches!(command, libc::F_GETFD | libc::F_SETFD);
        if is_of_descriptor || !are_rsockets() || FCNTL64.has() {
            return next();
        }
        // SAFETY: where `long` has 64 bits, `fcntl` is the same call.
        unsafe { libc::fcntl(fd, command, argument) }
    }
}
