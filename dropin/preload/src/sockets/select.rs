//! `select` by `poll`. Before rdma-core 63 the one of librdmacm's preload tells the bits of other
//! descriptors wherever the numbers of rsockets and of descriptors of the kernel's meet.

use super::{are_rsockets, errno, millis, poll_all};
use crate::next::fail;
use core::ffi::{c_int, c_short, c_ulong};
use core::mem::ManuallyDrop;
use libc::{fd_set, pollfd, timeval};
use std::time::{Duration, Instant};

/// What is asked by each of the three sets, and what is told there, as in Linux.
const SETS: [(c_short, c_short); 3] = [
    (libc::POLLIN, libc::POLLIN | libc::POLLHUP | libc::POLLERR),
    (libc::POLLOUT, libc::POLLOUT | libc::POLLERR),
    (libc::POLLPRI, libc::POLLPRI),
];

/// Descriptors that a `fd_set` has.
const FD_SETSIZE: c_int = 1024;

/// One more than the largest descriptor that is open. Linux looks at no bits above, and programs
/// that give the most descriptors that they may have rely on that.
fn open_below() -> c_int {
    let numbers = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<c_int>().ok());
    numbers.max().map_or(FD_SETSIZE, |last| last.saturating_add(1))
}

/// The word of a set that has a descriptor's bit, and the bit. Programs have sets that are longer
/// than `fd_set`.
fn place(set: *mut fd_set, fd: c_int) -> (*mut c_ulong, c_ulong) {
    const BITS: usize = c_ulong::BITS as usize;
    let fd = usize::try_from(fd).unwrap_or(0);
    (set.cast::<c_ulong>().wrapping_add(fd / BITS), 1 << (fd % BITS))
}

/// The descriptors that are in a set.
///
/// # Safety
/// Each set is NULL, or one of at least `count` descriptors.
unsafe fn asked(sets: [*mut fd_set; 3], count: c_int) -> Vec<pollfd> {
    let has = |set, fd| {
        let (word, bit) = place(set, fd);
        // SAFETY: the caller's promise.
        unsafe { *word & bit != 0 }
    };
    let events = |fd| {
        let of = sets.iter().zip(SETS).filter(|(set, _)| !set.is_null() && has(**set, fd));
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
                let (word, bit) = place(set, polled.fd);
                // SAFETY: the caller's promise.
                unsafe { *word &= !bit };
            } else {
                bits += 1;
            }
        }
    }
    bits
}

/// A limit as a time; `None` for one that makes no sense.
fn duration(timeout: &timeval) -> Option<Duration> {
    let (seconds, micros) = (u64::try_from(timeout.tv_sec).ok()?, u64::try_from(timeout.tv_usec).ok()?);
    Duration::from_secs(seconds).checked_add(Duration::from_micros(micros))
}

/// What is left of a limit, as Linux tells it.
fn left(limit: Duration, since: Instant) -> timeval {
    let left = limit.saturating_sub(since.elapsed());
    timeval {
        tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_usec: left.subsec_micros().into(),
    }
}

hooks! {
    fn select(count: c_int, reads: *mut fd_set, writes: *mut fd_set, others: *mut fd_set, timeout: *mut timeval) -> c_int = |next| {
        if !are_rsockets() {
            return next();
        }
        // SAFETY: the caller gave NULL or a time.
        let timeout = unsafe { timeout.as_mut() };
        let limit = match timeout.as_ref().map(|timeout| duration(timeout)) {
            Some(None) => return fail(libc::EINVAL),
            None => None,
            Some(limit) => limit,
        };
        if count < 0 {
            return fail(libc::EINVAL);
        }
        let count = if count > FD_SETSIZE { count.min(open_below()) } else { count };
        let (sets, since) = ([reads, writes, others], Instant::now());
        // SAFETY: the caller gave sets of this many descriptors.
        let mut polled = ManuallyDrop::new(unsafe { asked(sets, count) });
        let ready = poll_all(&mut polled, millis(limit.and_then(|limit| since.checked_add(limit))));
        let (polled, failed) = (ManuallyDrop::into_inner(polled), errno());
        if let (Some(timeout), Some(limit)) = (timeout, limit) {
            *timeout = left(limit, since);
        }
        if ready < 0 {
            return fail(failed);
        }
        if polled.iter().any(|polled| polled.revents & libc::POLLNVAL != 0) {
            return fail(libc::EBADF);
        }
        // SAFETY: as above.
        unsafe { told(sets, &polled) }
    }
}
