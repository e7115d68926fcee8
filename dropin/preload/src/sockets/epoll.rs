//! `epoll` where some of the descriptors are rsockets. The kernel's set has all others; it refuses
//! the descriptor that stands for an rsocket (EPERM). Such a one is kept here, and whoever waits
//! polls those that are kept together with the kernel's set.
//!
//! A thread may be cancelled while it polls, and leaves its stack by unwinding then: what it has
//! there is not dropped, so a list and a descriptor at most are lost.

mod entry;
mod set;

use super::{are_rsockets, errno, is_rsocket};
use crate::next::fail;
use crate::numbers::Numbers;
use core::ffi::{c_int, c_long, c_short};
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::RangeInclusive;
use core::ptr::null_mut;
use core::time::Duration;
use libc::{epoll_event, sigset_t, timespec};
use set::Set;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The sets of the kernel's that are followed, and the rsockets that are in some set, by numbers.
static FOLLOWED: Numbers = Numbers::new();
static RSOCKETS: Numbers = Numbers::new();
static SETS: Mutex<Vec<Arc<Set>>> = Mutex::new(Vec::new());

fn sets() -> MutexGuard<'static, Vec<Arc<Set>>> {
    SETS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn set(fd: c_int) -> Option<Arc<Set>> {
    if !FOLLOWED.has(fd) {
        return None;
    }
    sets().iter().find(|set| set.fd() == fd).cloned()
}

/// Makes a set of the kernel's and follows it.
fn make(flags: c_int) -> c_int {
    // SAFETY: the call takes no pointer.
    let made = unsafe { libc::syscall(libc::SYS_epoll_create1, c_long::from(flags)) };
    let Ok(fd @ 0..) = c_int::try_from(made) else { return -1 };
    let Some(set) = Set::new(fd).filter(|_| FOLLOWED.note(fd)) else {
        // SAFETY: the descriptor is new.
        unsafe { libc::syscall(libc::SYS_close, fd) };
        return fail(libc::EMFILE);
    };
    let mut sets = sets();
    sets.retain(|set| set.fd() != fd);
    sets.push(Arc::new(set));
    fd
}

/// A descriptor is about to be closed. Nobody waits for it any more behind this.
pub fn closing(fd: c_int) {
    if FOLLOWED.forget(fd) {
        let mut gone = Vec::new();
        sets().retain(|set| {
            let stays = set.fd() != fd;
            if !stays {
                gone.push(Arc::clone(set));
            }
            stays
        });
        gone.iter().for_each(|set| set.end());
    }
    if RSOCKETS.forget(fd) {
        let all = sets().clone();
        all.iter().for_each(|set| set.forget(fd));
    }
}

/// As above, of all that are noted among these numbers.
pub fn closing_all(numbers: RangeInclusive<c_int>) {
    let (first, last) = ((*numbers.start()).max(0), (*numbers.end()).min(Numbers::LAST));
    (first..=last).filter(|fd| FOLLOWED.has(*fd) || RSOCKETS.has(*fd)).for_each(closing);
}

/// A call for an rsocket found that it has to wait for these events: when they come next, they are
/// new ones.
pub fn blocked(fd: c_int, events: c_short) {
    if RSOCKETS.has(fd) {
        let events = entry::bits(events);
        sets().iter().for_each(|set| set.blocked(fd, events));
    }
}

/// Waits in a set that is followed.
///
/// # Safety
/// There is room for `most` events.
unsafe fn wait(set: Arc<Set>, events: *mut epoll_event, most: c_int, limit: Option<Duration>) -> c_int {
    let set = ManuallyDrop::new(set);
    let found = match usize::try_from(most) {
        Ok(len @ 1..) if !events.is_null() => {
            // SAFETY: the caller's promise.
            let events = unsafe { core::slice::from_raw_parts_mut(events, len) };
            set.wait(events, limit.and_then(|limit| Instant::now().checked_add(limit)))
        }
        Ok(1..) => Err(libc::EFAULT),
        _ => Err(libc::EINVAL),
    };
    drop(ManuallyDrop::into_inner(set));
    found.map_or_else(fail, |found| c_int::try_from(found).unwrap_or(c_int::MAX))
}

/// As above, with another mask of signals meanwhile.
///
/// # Safety
/// As above, and `mask` is NULL or a mask.
unsafe fn wait_masked(
    set: Arc<Set>,
    events: *mut epoll_event,
    most: c_int,
    limit: Option<Duration>,
    mask: *const sigset_t,
) -> c_int {
    let mut before = MaybeUninit::<sigset_t>::uninit();
    // SAFETY: the caller's promises; the mask before is put back where there was one.
    unsafe {
        if mask.is_null() {
            return wait(set, events, most, limit);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, mask, before.as_mut_ptr());
        let found = wait(set, events, most, limit);
        let errno = errno();
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut());
        if found < 0 { fail(errno) } else { found }
    }
}

/// Milliseconds as a limit; none if they are negative.
fn millis(timeout: c_int) -> Option<Duration> {
    u64::try_from(timeout).ok().map(Duration::from_millis)
}

hooks! {
    fn epoll_create(size: c_int) -> c_int = |next| {
        match size {
            _ if !are_rsockets() => next(),
            1.. => make(0),
            _ => fail(libc::EINVAL),
        }
    }

    fn epoll_create1(flags: c_int) -> c_int = |next| {
        if are_rsockets() { make(flags) } else { next() }
    }

    fn epoll_ctl(fd: c_int, operation: c_int, of: c_int, event: *mut epoll_event) -> c_int = |next| {
        let Some(set) = set(fd) else { return next() };
        // SAFETY: the caller gave NULL or an event.
        let known = unsafe { event.as_ref() };
        if !RSOCKETS.has(of) {
            // SAFETY: the caller gave what it takes.
            let done = unsafe { libc::syscall(libc::SYS_epoll_ctl, fd, operation, of, event) };
            if done == 0 || errno() != libc::EPERM {
                return if done == 0 { 0 } else { -1 };
            }
            if !is_rsocket(of) || !RSOCKETS.note(of) {
                return fail(libc::EPERM);
            }
        }
        match set.control(operation, of, known) {
            0 => 0,
            errno => fail(errno),
        }
    }

    fn epoll_wait(fd: c_int, events: *mut epoll_event, most: c_int, timeout: c_int) -> c_int = |next| {
        let Some(set) = set(fd).map(ManuallyDrop::new) else { return next() };
        // SAFETY: the caller gave room for as many as it says.
        unsafe { wait(ManuallyDrop::into_inner(set), events, most, millis(timeout)) }
    }

    fn epoll_pwait(fd: c_int, events: *mut epoll_event, most: c_int, timeout: c_int, mask: *const sigset_t) -> c_int = |next| {
        let Some(set) = set(fd).map(ManuallyDrop::new) else { return next() };
        // SAFETY: the caller gave room for as many as it says, and NULL or a mask.
        unsafe { wait_masked(ManuallyDrop::into_inner(set), events, most, millis(timeout), mask) }
    }

    fn epoll_pwait2(fd: c_int, events: *mut epoll_event, most: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int = |next| {
        let Some(set) = set(fd).map(ManuallyDrop::new) else { return next() };
        // SAFETY: the caller gave NULL or a time.
        let limit = unsafe { timeout.as_ref() }.map(|time| {
            let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
            Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
        });
        // SAFETY: as above.
        unsafe { wait_masked(ManuallyDrop::into_inner(set), events, most, limit, mask) }
    }
}
