//! Calls of sockets that librdmacm's preload got late, or has not: without them a program's rsocket
//! goes on blocking, cannot be accepted, or is none.

use super::{HAS_SOCKETS, accept, are_rsockets, errno, has_read, has_written, is_rsocket};
use crate::next::fail;
use core::ffi::{c_int, c_long, c_uint, c_ulong, c_void};
use core::sync::atomic::Ordering;
use libc::{iovec, msghdr, sockaddr, socklen_t};

/// Gives a new descriptor the flags that a call was to give it.
fn with_flags(fd: c_int, flags: c_int) -> c_int {
    if fd >= 0 {
        // SAFETY: the calls take no pointer. The flag of a descriptor is the kernel's, also of one
        // that stands for an rsocket.
        unsafe {
            if flags & libc::SOCK_CLOEXEC != 0 {
                libc::syscall(libc::SYS_fcntl, fd, libc::F_SETFD, libc::FD_CLOEXEC);
            }
            if flags & libc::SOCK_NONBLOCK != 0 {
                libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK);
            }
        }
    }
    fd
}

hooks! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int = |next| {
        const FLAGS: c_int = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        if !are_rsockets() {
            return next();
        }
        if matches!(domain, libc::AF_INET | libc::AF_INET6) {
            HAS_SOCKETS.store(true, Ordering::Relaxed);
        }
        if kind & FLAGS == 0 {
            return next();
        }
        // SAFETY: the call takes no pointer. It comes here once more, without flags.
        with_flags(unsafe { libc::socket(domain, kind & !FLAGS, protocol) }, kind & FLAGS)
    }

    fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int = |next| {
        let accepted = next();
        if accepted >= 0 || errno() != libc::ENOTSOCK || !are_rsockets() {
            return accepted;
        }
        if !is_rsocket(fd) {
            return fail(libc::ENOTSOCK);
        }
        // SAFETY: the caller gave what `accept` takes.
        with_flags(unsafe { accept(fd, address, len) }, flags)
    }

    /// The third argument is handed on, whatever it is, in the register that it came in.
    fn fcntl64(fd: c_int, command: c_int, argument: c_long) -> c_int = |next| {
        let is_of_descriptor = matches!(command, libc::F_GETFD | libc::F_SETFD);
        if is_of_descriptor || !are_rsockets() {
            return next();
        }
        // SAFETY: where `long` has 64 bits, `fcntl` is the same call.
        unsafe { libc::fcntl(fd, command, argument) }
    }

    /// As above.
    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int = |next| {
        if request != libc::FIONBIO || argument.is_null() || !are_rsockets() || !is_rsocket(fd) {
            return next();
        }
        // SAFETY: the request has a number behind its argument.
        let flag = if unsafe { *argument.cast::<c_int>() } == 0 { 0 } else { libc::O_NONBLOCK };
        // SAFETY: the calls take no pointer.
        unsafe {
            let flags = libc::fcntl(fd, libc::F_GETFL);
            if flags < 0 { flags } else { libc::fcntl(fd, libc::F_SETFL, flags & !libc::O_NONBLOCK | flag) }
        }
    }

    fn dup2(old: c_int, new: c_int) -> c_int = |next| {
        if old != new {
            super::closing(new);
        }
        next()
    }

    fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int = |next| {
        if old != new {
            super::closing(new);
        }
        next()
    }

    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int = |next| {
        if are_rsockets() && flags == 0 {
            let numbers = c_int::try_from(first).unwrap_or(c_int::MAX)..=c_int::try_from(last).unwrap_or(c_int::MAX);
            super::epoll::closing_all(numbers);
        }
        next()
    }

    fn recv(fd: c_int, bytes: *mut c_void, len: usize, flags: c_int) -> isize = |next| {
        has_read(fd, next())
    }

    fn recvfrom(fd: c_int, bytes: *mut c_void, len: usize, flags: c_int, address: *mut sockaddr, address_len: *mut socklen_t) -> isize = |next| {
        has_read(fd, next())
    }

    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> isize = |next| {
        has_read(fd, next())
    }

    fn readv(fd: c_int, parts: *const iovec, count: c_int) -> isize = |next| {
        has_read(fd, next())
    }

    fn send(fd: c_int, bytes: *const c_void, len: usize, flags: c_int) -> isize = |next| {
        has_written(fd, next())
    }

    fn sendto(fd: c_int, bytes: *const c_void, len: usize, flags: c_int, address: *const sockaddr, address_len: socklen_t) -> isize = |next| {
        has_written(fd, next())
    }

    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> isize = |next| {
        has_written(fd, next())
    }

    fn writev(fd: c_int, parts: *const iovec, count: c_int) -> isize = |next| {
        has_written(fd, next())
    }
}
