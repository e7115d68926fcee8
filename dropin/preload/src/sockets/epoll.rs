//! `epoll` where some of the descriptors are rsockets. The kernel's set has all others; it refuses
//! the descriptor that stands for an rsocket (EPERM). Such a one is kept here, and whoever waits
//! polls those that are kept together with the kernel's set.
//!
//! An edge (`EPOLLET`) is told again while it lasts: of what can be read at every call, of what can
//! be written every few milliseconds. A program that waits for edges takes all there is each time.

use super::{Theirs, are_rsockets, errno, is_rsocket, millis};
use crate::next::fail;
use crate::numbers::Numbers;
use core::ffi::{c_int, c_short};
use core::mem::transmute;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use libc::{epoll_event, pollfd, sigset_t};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// How long an edge that something can be written is not told again.
const EDGE: Duration = Duration::from_millis(10);
/// What is told whether it is asked for or not.
const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP).cast_unsigned();
const WRITABLE: u32 = libc::EPOLLOUT.cast_unsigned();
const EDGES: u32 = libc::EPOLLET.cast_unsigned();
const ONCE: u32 = libc::EPOLLONESHOT.cast_unsigned();
/// The events proper, which are those of `poll`.
const EVENTS: u32 = 0xffff;

static CREATE: Theirs = Theirs::new(c"epoll_create1");
static WAIT: Theirs = Theirs::new(c"epoll_wait");

/// An rsocket in a set.
#[derive(Clone, Copy)]
struct Entry {
    fd: c_int,
    /// Events and flags; 0 once it was told, if it is told once.
    events: u32,
    data: u64,
    /// Until when it is not told again that it can be written.
    quiet_until: Option<Instant>,
}

impl Entry {
    fn new(fd: c_int, event: &epoll_event) -> Self {
        Self { fd, events: event.events, data: event.u64, quiet_until: None }
    }

    fn is_quiet(&self, now: Instant) -> bool {
        self.quiet_until.is_some_and(|until| now < until)
    }

    /// What it is polled for; `None` while it is not.
    fn polled(&self, now: Instant) -> Option<pollfd> {
        let asked = self.events & EVENTS & !if self.is_quiet(now) { WRITABLE } else { 0 };
        let events = c_short::from_ne_bytes((asked as u16).to_ne_bytes());
        (self.events != 0).then_some(pollfd { fd: self.fd, events, revents: 0 })
    }

    /// What is told of it, if anything is.
    fn tell(&mut self, revents: c_short, now: Instant) -> Option<epoll_event> {
        let ready = u32::from(u16::from_ne_bytes(revents.to_ne_bytes())) & (self.events & EVENTS | ALWAYS);
        if ready == 0 || self.events == 0 {
            return None;
        }
        if self.events & ONCE != 0 {
            self.events = 0;
        } else if self.events & EDGES != 0 && ready & WRITABLE != 0 {
            self.quiet_until = Some(now + EDGE);
        }
        Some(epoll_event { events: ready, u64: self.data })
    }
}

/// The rsockets of one set of the kernel's.
struct Set {
    /// The kernel's.
    fd: c_int,
    /// In the kernel's set, and readable once the rsockets have changed while somebody waits.
    changed: c_int,
    waiting: AtomicUsize,
    entries: Mutex<Vec<Entry>>,
}

impl Set {
    /// Follows a set of the kernel's; `None` if the process has too many descriptors.
    fn new(fd: c_int) -> Option<Arc<Self>> {
        // SAFETY: the call takes no pointer.
        let changed = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if changed < 0 {
            return None;
        }
        let set = Arc::new(Self { fd, changed, waiting: AtomicUsize::new(0), entries: Mutex::default() });
        let mut event = epoll_event { events: libc::EPOLLIN.cast_unsigned(), u64: set.mark() };
        // SAFETY: the event is there for the call.
        let added =
            unsafe { libc::syscall(libc::SYS_epoll_ctl, fd, libc::EPOLL_CTL_ADD, changed, &raw mut event) };
        (added == 0).then_some(set)
    }

    /// What the kernel's set says for a change: no pointer of the program's.
    fn mark(&self) -> u64 {
        (&raw const *self).addr() as u64
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_change(&self) {
        if self.waiting.load(Ordering::SeqCst) != 0 {
            let one = 1u64;
            // SAFETY: eight bytes, as it takes.
            unsafe { libc::syscall(libc::SYS_write, self.changed, &raw const one, size_of::<u64>()) };
        }
    }

    /// Adds, changes or removes an rsocket. Returns 0, or an errno.
    fn control(&self, operation: c_int, fd: c_int, event: Option<&epoll_event>) -> c_int {
        let mut entries = self.entries();
        let at = entries.iter().position(|entry| entry.fd == fd);
        match (operation, at, event) {
            (libc::EPOLL_CTL_ADD, None, Some(event)) => entries.push(Entry::new(fd, event)),
            (libc::EPOLL_CTL_ADD, Some(_), _) => return libc::EEXIST,
            (libc::EPOLL_CTL_MOD, Some(at), Some(event)) => entries[at] = Entry::new(fd, event),
            (libc::EPOLL_CTL_DEL, Some(at), _) => drop(entries.remove(at)),
            (_, None, _) => return libc::ENOENT,
            _ => return libc::EFAULT,
        }
        drop(entries);
        self.tell_change();
        0
    }

    /// What the kernel's set has, without the mark of a change; or minus one.
    fn of_kernel(&self, events: &mut [epoll_event], timeout: c_int) -> c_int {
        if events.is_empty() {
            return 0;
        }
        let most = c_int::try_from(events.len()).unwrap_or(c_int::MAX);
        // SAFETY: a function of this name has this type, and there is room for as many as it says.
        let found = unsafe {
            transmute::<
                *mut core::ffi::c_void,
                unsafe extern "C" fn(c_int, *mut epoll_event, c_int, c_int) -> c_int,
            >(WAIT.next.address())(self.fd, events.as_mut_ptr(), most, timeout)
        };
        let Some(of) = usize::try_from(found).ok().and_then(|found| events.get_mut(..found)) else {
            return found;
        };
        let mark = self.mark();
        let Some(at) = of.iter().position(|event| event.u64 == mark) else { return found };
        let mut count = 0u64;
        // SAFETY: eight bytes, as it takes.
        unsafe { libc::syscall(libc::SYS_read, self.changed, &raw mut count, size_of::<u64>()) };
        of[at..].rotate_left(1);
        found - 1
    }

    /// Fills `events` with what is ready of the rsockets that were polled; returns how many.
    fn of_rsockets(&self, polled: &[pollfd], events: &mut [epoll_event]) -> usize {
        let now = Instant::now();
        let mut entries = self.entries();
        let mut told = 0;
        for polled in polled.iter().filter(|polled| polled.revents != 0) {
            let Some(place) = events.get_mut(told) else { break };
            let Some(at) = entries.iter().position(|entry| entry.fd == polled.fd) else { continue };
            if let Some(event) = entries[at].tell(polled.revents, now) {
                *place = event;
                told += 1;
            }
        }
        if told == events.len() && !entries.is_empty() {
            // Those behind are next.
            let by = told % entries.len();
            entries.rotate_left(by);
        }
        told
    }

    /// Waits until something of the set is ready; returns how many events there are, or minus one.
    fn wait(&self, events: &mut [epoll_event], until: Option<Instant>) -> c_int {
        let mut polled = Vec::new();
        loop {
            let now = Instant::now();
            let mut wake = until;
            polled.clear();
            for entry in self.entries().iter() {
                polled.extend(entry.polled(now));
                if entry.is_quiet(now) {
                    wake = wake.into_iter().chain(entry.quiet_until).min();
                }
            }
            if polled.is_empty() {
                let found = self.of_kernel(events, millis(until));
                if found != 0 || until.is_some_and(|until| Instant::now() >= until) {
                    return found;
                }
                continue;
            }
            polled.push(pollfd { fd: self.fd, events: libc::POLLIN, revents: 0 });
            // SAFETY: the list has as many as it says.
            let ready =
                unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, millis(wake)) };
            if ready < 0 {
                return ready;
            }
            let kernel = polled.pop().is_some_and(|kernel| kernel.revents != 0);
            let told = self.of_rsockets(&polled, events);
            let found = if kernel { self.of_kernel(&mut events[told..], 0).max(0) } else { 0 };
            let told = c_int::try_from(told).unwrap_or(c_int::MAX).saturating_add(found);
            if told != 0 || until.is_some_and(|until| Instant::now() >= until) {
                return told;
            }
        }
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this one's alone.
        unsafe { libc::syscall(libc::SYS_close, self.changed) };
    }
}

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
    sets().iter().find(|set| set.fd == fd).cloned()
}

/// The kernel has made a set, or has failed.
fn made(fd: c_int) -> c_int {
    if fd < 0 || !are_rsockets() || CREATE.has() {
        return fd;
    }
    if let Some(set) = Set::new(fd).filter(|_| FOLLOWED.note(fd)) {
        sets().push(set);
        return fd;
    }
    // SAFETY: the descriptor is new.
    unsafe { libc::syscall(libc::SYS_close, fd) };
    fail(libc::EMFILE)
}

/// A descriptor is about to be closed.
pub fn closing(fd: c_int) {
    if FOLLOWED.forget(fd) {
        sets().retain(|set| set.fd != fd);
    }
    if RSOCKETS.forget(fd) {
        sets().iter().for_each(|set| set.entries().retain(|entry| entry.fd != fd));
    }
}

/// Waits in a set that is followed.
///
/// # Safety
/// There is room for `most` events.
unsafe fn wait(set: &Set, events: *mut epoll_event, most: c_int, timeout: c_int) -> c_int {
    let (Ok(len @ 1..), false) = (usize::try_from(most), events.is_null()) else {
        return fail(libc::EINVAL);
    };
    // SAFETY: the caller's promise.
    let events = unsafe { core::slice::from_raw_parts_mut(events, len) };
    let until = u64::try_from(timeout).ok().map(|millis| Instant::now() + Duration::from_millis(millis));
    set.waiting.fetch_add(1, Ordering::SeqCst);
    let found = set.wait(events, until);
    set.waiting.fetch_sub(1, Ordering::SeqCst);
    found
}

hooks! {
    fn epoll_create(size: c_int) -> c_int = |next| {
        made(next())
    }

    fn epoll_create1(flags: c_int) -> c_int = |next| {
        made(next())
    }

    fn epoll_ctl(fd: c_int, operation: c_int, of: c_int, event: *mut epoll_event) -> c_int = |next| {
        let Some(set) = set(fd) else { return next() };
        // SAFETY: the caller gave NULL or an event.
        let event = unsafe { event.as_ref() };
        if RSOCKETS.has(of) {
            let answer = set.control(operation, of, event);
            return if answer == 0 { 0 } else { fail(answer) };
        }
        let done = next();
        if done == 0 || operation != libc::EPOLL_CTL_ADD || errno() != libc::EPERM {
            return done;
        }
        if !is_rsocket(of) || !RSOCKETS.note(of) {
            return fail(libc::EPERM);
        }
        let answer = set.control(operation, of, event);
        if answer == 0 { 0 } else { fail(answer) }
    }

    fn epoll_wait(fd: c_int, events: *mut epoll_event, most: c_int, timeout: c_int) -> c_int = |next| {
        let Some(set) = set(fd) else { return next() };
        // SAFETY: the caller gave room for as many as it says.
        unsafe { wait(&set, events, most, timeout) }
    }

    fn epoll_pwait(fd: c_int, events: *mut epoll_event, most: c_int, timeout: c_int, mask: *const sigset_t) -> c_int = |next| {
        let Some(set) = set(fd) else { return next() };
        let mut before = core::mem::MaybeUninit::<sigset_t>::uninit();
        // SAFETY: the caller gave NULL or a mask, and room for as many events as it says. The mask
        // before is put back where there was one.
        unsafe {
            if mask.is_null() {
                return wait(&set, events, most, timeout);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, mask, before.as_mut_ptr());
            let found = wait(&set, events, most, timeout);
            let errno = errno();
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), core::ptr::null_mut());
            if found < 0 { fail(errno) } else { found }
        }
    }
}
