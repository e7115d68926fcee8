//! `rpoll` of librdmacm, called in ways that it gets right.
//!
//! Before rdma-core 63 a call whose limit passes while it waits spoils all later ones: they do not
//! sleep, and do not end by their limits. So it waits without a limit, and an alarm is among what
//! it waits for. A listener's event may be taken by a thread of its own while it waits, which wakes
//! it after seconds; so it looks again every few milliseconds where a listener is among what it
//! waits for. A thread that is cancelled while it waits would spoil later calls as well; it is
//! cancelled between two looks.

use crate::next::{Next, fail, uncancelled};
use crate::numbers::Numbers;
use core::cell::{Cell, UnsafeCell};
use core::ffi::c_int;
use core::mem::transmute;
use core::ptr::null_mut;
use core::time::Duration;
use libc::{nfds_t, pollfd};
use std::time::Instant;

/// How often it looks again if a listener may have heard.
const LOOK: Duration = Duration::from_millis(5);
/// How often it looks again otherwise.
const WHILE: Duration = Duration::from_millis(100);
/// How often it looks while it waits inside of a call that waits.
const NAP: Duration = Duration::from_millis(1);

unsafe extern "C-unwind" {
    fn pthread_testcancel();
}

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
    alarm: Cell<Option<Alarm>>,
    polled: UnsafeCell<Vec<pollfd>>,
    /// It waits.
    is_in_use: Cell<bool>,
}

impl Kept {
    /// The number of an alarm that rings then, if there is a descriptor for it.
    fn alarm(&self, after: Duration) -> Option<c_int> {
        let known = self.alarm.take();
        let alarm = match known {
            Some(alarm) if alarm.set(after) => alarm,
            known => {
                // The program has closed the descriptor of the one that there was.
                core::mem::forget(known);
                let alarm = Alarm::new()?;
                alarm.set(after);
                alarm
            }
        };
        let fd = alarm.0;
        self.alarm.set(Some(alarm));
        Some(fd)
    }

    /// Waits until one of them is ready, an error, or until the alarm rings (0).
    ///
    /// # Safety
    /// As of [`their`].
    unsafe fn wait(&self, fds: &mut [pollfd], after: Duration) -> c_int {
        let Some(alarm) = self.alarm(after) else { return fail(libc::ENOMEM) };
        // SAFETY: it is in use by this call, and by no other of this thread.
        let polled = unsafe { &mut *self.polled.get() };
        polled.clear();
        polled.extend_from_slice(fds);
        polled.push(pollfd { fd: alarm, events: libc::POLLIN, revents: 0 });
        // SAFETY: the list has as many as it says, and the caller's promise.
        let ready = unsafe { their(polled.as_mut_ptr(), polled.len() as nfds_t, -1) };
        if ready < 0 {
            return ready;
        }
        fds.iter_mut().zip(&*polled).for_each(|(fd, polled)| fd.revents = polled.revents);
        ready - c_int::from(polled.last().is_some_and(|alarm| alarm.revents != 0))
    }
}

thread_local! {
    static KEPT: Kept = Kept::default();
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

/// Waits so long, or until one of them is ready: how many are, or an error.
///
/// # Safety
/// As of [`their`].
unsafe fn wait(fds: &mut [pollfd], after: Duration) -> c_int {
    let waited = KEPT.try_with(|kept| {
        (!kept.is_in_use.replace(true)).then(|| {
            // SAFETY: the caller's promise.
            let ready = unsafe { kept.wait(fds, after) };
            kept.is_in_use.set(false);
            ready
        })
    });
    if let Ok(Some(ready)) = waited {
        return ready;
    }
    // A signal's handler. A call that waits there would wait for the one that it interrupts.
    std::thread::sleep(after.min(NAP));
    0
}

/// Looks, and waits for a while: how many are ready, or an error; `None` if it is to be called once
/// more.
///
/// # Safety
/// As of [`their`].
unsafe fn step(fds: &mut [pollfd], until: Option<Instant>) -> Option<c_int> {
    // SAFETY: the caller's promise.
    let ready = unsafe { their(fds.as_mut_ptr(), fds.len() as nfds_t, 0) };
    let left = until.map_or(WHILE, |until| until.saturating_duration_since(Instant::now()));
    if ready != 0 || left.is_zero() {
        return Some(ready);
    }
    let most = if fds.iter().any(|fd| LISTENERS.has(fd.fd)) { LOOK } else { WHILE };
    // SAFETY: the caller's promise.
    let ready = unsafe { wait(fds, left.min(most)) };
    (ready != 0).then_some(ready)
}

hooks! {
    fn rpoll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int = |next| {
        if RPOLL.address().is_null() {
            return next();
        }
        let until = u64::try_from(timeout).ok().map(|millis| Instant::now() + Duration::from_millis(millis));
        let Ok(len) = usize::try_from(count) else { return fail(libc::EINVAL) };
        // SAFETY: the caller gave as many as it says.
        let fds = if len == 0 { &mut [] } else { unsafe { core::slice::from_raw_parts_mut(fds, len) } };
        loop {
            // SAFETY: the list has as many as it says, and there is such a function.
            if let Some(ready) = uncancelled(|| unsafe { step(fds, until) }) {
                return ready;
            }
            // SAFETY: it takes nothing.
            unsafe { pthread_testcancel() };
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
