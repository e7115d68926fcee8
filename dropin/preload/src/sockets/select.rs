//! `select` by `poll`. The one of librdmacm's preload tells the bits of other descriptors wherever
//! the numbers of rsockets and of descriptors of the kernel's meet (before rdma-core 55).

use super::{are_rsockets, list};
use crate::next::fail;
use core::ffi::{c_int, c_short};
use libc::{fd_set, pollfd, timeval};

/// What is asked by each of the three sets, and what is told there, as in Linux.
const SETS: [(c_short, c_short); 3] = [
    (libc::POLLIN, libc::POLLIN | libc::POLLHUP | libc::POLLERR),
    (libc::POLLOUT, libc::POLLOUT | libc::POLLERR),
    (libc::POLLPRI, libc::POLLPRI),
];

/// The descriptors that are in a set.
///
/// # Safety
/// Each set is NULL, or one of at least `count` descriptors.
unsafe fn asked(sets: [*mut fd_set; 3], count: c_int) -> Vec<pollfd> {
    let events = |fd| {
        let of = sets.iter().zip(SETS).filter(|(set, _)| {
            // SAFETY: the caller's promise.
            !set.is_null() && unsafe { libc::FD_ISSET(fd, **set) }
        });
        of.fold(0, |events, (_, (asked, _))| events | asked)
    };
    let all = (0..count).map(|fd| pollfd { fd, events: events(fd), revents: 0 });
    all.filter(|asked| asked.events != 0).collect()
}

/// Leaves in the sets what is ready; returns how many bits that is.
///
/// # Safety
/// As of [`asked`].
unsafe fn told(sets: [*mut fd_set; 3], polled: &[pollfd]) -> c_int {
    let mut bits = 0;
    for (set, (asked, told)) in sets.into_iter().zip(SETS).filter(|(set, _)| !set.is_null()) {
        for polled in polled.iter().filter(|polled| polled.events & asked != 0) {
            if polled.revents & told == 0 {
                // SAFETY: the caller's promise.
                unsafe { libc::FD_CLR(polled.fd, set) };
            } else {
                bits += 1;
            }
        }
    }
    bits
}

/// Milliseconds of a limit; minus one for none, and `None` for one that makes no sense.
fn limit(timeout: Option<&timeval>) -> Option<c_int> {
    let Some(timeout) = timeout else { return Some(-1) };
    if timeout.tv_sec < 0 || !(0..1_000_000).contains(&timeout.tv_usec) {
        return None;
    }
    let micros = i128::from(timeout.tv_sec) * 1_000_000 + i128::from(timeout.tv_usec);
    Some(c_int::try_from((micros + 999) / 1_000).unwrap_or(c_int::MAX))
}

hooks! {
    fn select(count: c_int, reads: *mut fd_set, writes: *mut fd_set, others: *mut fd_set, timeout: *mut timeval) -> c_int = |next| {
        if !are_rsockets() {
            return next();
        }
        // SAFETY: the caller gave NULL or a time.
        let limit = limit(unsafe { timeout.as_ref() });
        let (Some(limit), 0..) = (limit, count) else { return fail(libc::EINVAL) };
        let sets = [reads, writes, others];
        // SAFETY: the caller gave sets of this many descriptors.
        let mut polled = unsafe { asked(sets, count) };
        // SAFETY: the list has as many as it says.
        let ready = unsafe { libc::poll(list(&mut polled), polled.len() as libc::nfds_t, limit) };
        if ready < 0 {
            return ready;
        }
        if polled.iter().any(|polled| polled.revents & libc::POLLNVAL != 0) {
            return fail(libc::EBADF);
        }
        // SAFETY: as above.
        unsafe { told(sets, &polled) }
    }
}
