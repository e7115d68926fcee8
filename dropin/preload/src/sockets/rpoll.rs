//! `rpoll` of librdmacm, called in ways that it gets right.
//!
//! A limit that passes while it waits leaves it, before rdma-core 55, in a state in which no later
//! call sleeps or ends by its limit. So it waits without one, and an alarm is among what it waits
//! for. A listener's event may be taken by a thread of its own while it waits, which wakes it
//! after seconds; so it looks again every few
//! milliseconds where a listener is among what it waits for.

use super::{list, millis};
use crate::next::{Next, fail};
use crate::numbers::Numbers;
use core::cell::RefCell;
use core::ffi::c_int;
use core::mem::transmute;
use core::ptr::null_mut;
use core::time::Duration;
use libc::{nfds_t, pollfd};
use std::time::Instant;

/// How often it looks again if a listener may have heard.
const LOOK: Duration = Duration::from_millis(5);

/// The rsockets that listen.
static LISTENERS: Numbers = Numbers::new();
static RPOLL: Next = Next::new(c"rpoll");

/// A descriptor that can be read once a time has come.
struct Alarm(c_int);

impl Alarm {
    fn new() -> Option<Self> {
        // SAFETY: the call takes no pointer.
        let fd =
            unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
        (fd >= 0).then_some(Self(fd))
    }

    /// Sets it anew, to a time from now on.
    fn set(&self, after: Duration) -> bool {
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let after = after.max(Duration::from_nanos(1));
        let seconds = libc::time_t::try_from(after.as_secs()).unwrap_or(libc::time_t::MAX);
        let value = libc::timespec { tv_sec: seconds, tv_nsec: after.subsec_nanos().into() };
        let time = libc::itimerspec { it_interval: zero, it_value: value };
        // SAFETY: the time is there for the call.
        unsafe { libc::timerfd_settime(self.0, 0, &raw const time, null_mut()) == 0 }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this one's alone.
        unsafe { libc::close(self.0) };
    }
}

/// What a thread keeps between calls.
#[derive(Default)]
struct Kept {
    alarm: Option<Alarm>,
    polled: Vec<pollfd>,
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
}

/// # Safety
/// There are `count` descriptors, and librdmacm has the function.
unsafe fn their(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    // SAFETY: a function of this name has this type, and the caller's promise.
    unsafe {
        transmute::<*mut core::ffi::c_void, unsafe extern "C" fn(*mut pollfd, nfds_t, c_int) -> c_int>(
            RPOLL.address(),
        )(fds, count, timeout)
    }
}

/// Waits until one of them is ready, an error, or until the alarm rings (0).
///
/// # Safety
/// As of [`their`].
unsafe fn wait(fds: &mut [pollfd], after: Duration) -> c_int {
    KEPT.with_borrow_mut(|kept| {
        if kept.alarm.is_none() {
            kept.alarm = Alarm::new();
        }
        let Some(alarm) = kept.alarm.as_ref().filter(|alarm| alarm.set(after)) else {
            return fail(libc::ENOMEM);
        };
        kept.polled.clear();
        kept.polled.extend_from_slice(fds);
        kept.polled.push(pollfd { fd: alarm.0, events: libc::POLLIN, revents: 0 });
        // SAFETY: the list has as many as it says, and the caller's promise.
        let ready = unsafe { their(kept.polled.as_mut_ptr(), kept.polled.len() as nfds_t, -1) };
        if ready < 0 {
            return ready;
        }
        fds.iter_mut().zip(&kept.polled).for_each(|(fd, polled)| fd.revents = polled.revents);
        ready - c_int::from(kept.polled.last().is_some_and(|alarm| alarm.revents != 0))
    })
}

hooks! {
    fn rpoll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int = |next| {
        if RPOLL.address().is_null() || timeout == 0 {
            return next();
        }
        let until = u64::try_from(timeout).ok().map(|millis| Instant::now() + Duration::from_millis(millis));
        let Ok(len) = usize::try_from(count) else { return fail(libc::EINVAL) };
        // SAFETY: the caller gave as many as it says.
        let fds = if len == 0 { &mut [] } else { unsafe { core::slice::from_raw_parts_mut(fds, len) } };
        loop {
            // SAFETY: the list has as many as it says, and there is such a function.
            let ready = unsafe { their(list(fds), count, 0) };
            if ready != 0 || until.is_some_and(|until| Instant::now() >= until) {
                return ready;
            }
            let look = fds.iter().any(|fd| LISTENERS.has(fd.fd));
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let ready = match left {
                // SAFETY: as above.
                None if !look => unsafe { their(list(fds), count, millis(None)) },
                left => {
                    let after = left.into_iter().chain(look.then_some(LOOK)).min().unwrap_or(LOOK);
                    // SAFETY: as above.
                    unsafe { wait(fds, after) }
                }
            };
            if ready != 0 {
                return ready;
            }
        }
    }

    fn rlisten(socket: c_int, backlog: c_int) -> c_int = |next| {
        let result = next();
        if result == 0 {
            LISTENERS.note(socket);
        }
        result
    }

    fn rclose(socket: c_int) -> c_int = |next| {
        LISTENERS.forget(socket);
        next()
    }
}
