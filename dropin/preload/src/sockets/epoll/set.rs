//! The rsockets of one set of the kernel's, and waiting for both.

use super::super::{errno, millis, poll_all};
use super::entry::{Entry, bits};
use core::ffi::c_int;
use core::mem::{ManuallyDrop, take};
use libc::{epoll_event, pollfd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a thread that closes an rsocket waits at most until nobody polls it.
const LEAVE: Duration = Duration::from_secs(1);

/// A descriptor that can be read once what somebody waits for has changed, and stays so.
struct Change(c_int);

impl Change {
    fn new() -> Option<Arc<Self>> {
        // SAFETY: the call takes no pointer.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        (fd >= 0).then(|| Arc::new(Self(fd)))
    }

    fn tell(&self) {
        let one = 1_u64;
        // SAFETY: eight bytes, as it takes.
        unsafe { libc::syscall(libc::SYS_write, self.0, &raw const one, size_of::<u64>()) };
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this one's alone.
        unsafe { libc::syscall(libc::SYS_close, self.0) };
    }
}

pub struct Set {
    /// The kernel's.
    fd: c_int,
    inner: Mutex<Inner>,
}

struct Inner {
    entries: Vec<Entry>,
    /// Of what is there now: whoever waits has it as well.
    change: Arc<Change>,
    is_closed: bool,
    /// The kernel's are told before rsockets, by turns.
    kernel_first: bool,
}

impl Inner {
    /// What is waited for has changed. Returns what those have who wait for what was there before.
    fn changed(&mut self) -> Option<Arc<Change>> {
        if Arc::strong_count(&self.change) == 1 {
            return None;
        }
        self.change.tell();
        // Without another descriptor they stay awake, and look again and again.
        let fresh = Change::new()?;
        Some(core::mem::replace(&mut self.change, fresh))
    }

    fn find(&self, fd: c_int) -> Option<usize> {
        self.entries.iter().position(|entry| entry.fd == fd)
    }
}

impl Set {
    /// Follows a set of the kernel's; `None` if the process has too many descriptors.
    pub fn new(fd: c_int) -> Option<Self> {
        let change = Change::new()?;
        let inner = Inner { entries: Vec::new(), change, is_closed: false, kernel_first: false };
        Some(Self { fd, inner: Mutex::new(inner) })
    }

    pub const fn fd(&self) -> c_int {
        self.fd
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds, changes or removes an rsocket. Returns 0, or an errno.
    pub fn control(&self, operation: c_int, fd: c_int, event: Option<&epoll_event>) -> c_int {
        let mut inner = self.inner();
        let at = inner.find(fd);
        match (operation, at, event) {
            (libc::EPOLL_CTL_ADD, None, Some(event)) => inner.entries.push(Entry::new(fd, event)),
            (libc::EPOLL_CTL_ADD, Some(_), _) => return libc::EEXIST,
            (libc::EPOLL_CTL_MOD, Some(at), Some(event)) => inner.entries[at] = Entry::new(fd, event),
            (libc::EPOLL_CTL_DEL, Some(at), _) => drop(inner.entries.remove(at)),
            (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, None, _) => return libc::ENOENT,
            (libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD, ..) => return libc::EFAULT,
            _ => return libc::EINVAL,
        }
        let _ = inner.changed();
        0
    }

    /// A call for an rsocket has found that it is not ready.
    pub fn blocked(&self, fd: c_int, events: u32) {
        let mut inner = self.inner();
        if let Some(at) = inner.find(fd) {
            inner.entries[at].is_over(events);
        }
    }

    /// An rsocket is about to be closed: it is in the set no more, and whoever polls it leaves.
    pub fn forget(&self, fd: c_int) {
        let mut inner = self.inner();
        let Some(at) = inner.find(fd) else { return };
        inner.entries.remove(at);
        let before = inner.changed();
        drop(inner);
        let end = Instant::now() + LEAVE;
        while before.as_ref().is_some_and(|before| Arc::strong_count(before) > 1) && Instant::now() < end {
            std::thread::yield_now();
        }
    }

    /// The kernel's set is about to be closed: whoever waits fails.
    pub fn end(&self) {
        let mut inner = self.inner();
        inner.is_closed = true;
        let _ = inner.changed();
    }

    /// Waits until something of the set is ready; returns how many events there are, or an errno.
    pub fn wait(&self, events: &mut [epoll_event], until: Option<Instant>) -> Result<usize, c_int> {
        let mut polled = ManuallyDrop::new(Vec::new());
        let found = self.wait_by(&mut polled, events, until);
        drop(ManuallyDrop::into_inner(polled));
        found
    }

    /// As above, with a list to be filled.
    fn wait_by(
        &self,
        polled: &mut Vec<pollfd>,
        events: &mut [epoll_event],
        until: Option<Instant>,
    ) -> Result<usize, c_int> {
        loop {
            self.look(polled);
            let (change, wake) = self.list(polled, until)?;
            let ready = poll_all(polled, millis(wake));
            let failed = (ready < 0).then(errno);
            drop(ManuallyDrop::into_inner(change));
            if let Some(errno) = failed {
                return Err(errno);
            }
            let told = self.tell(polled, events)?;
            if told != 0 || until.is_some_and(|until| Instant::now() >= until) {
                return Ok(told);
            }
        }
    }

    /// Finds which edges that were told are over.
    fn look(&self, polled: &mut Vec<pollfd>) {
        polled.clear();
        polled.extend(self.inner().entries.iter().filter_map(Entry::looked_at));
        if polled.is_empty() || poll_all(polled, 0) < 0 {
            return;
        }
        let (mut inner, now) = (self.inner(), Instant::now());
        for polled in &*polled {
            if let Some(at) = inner.find(polled.fd) {
                inner.entries[at].looked(bits(polled.revents), now);
            }
        }
    }

    /// Lists what is waited for: the rsockets, behind them the kernel's set, and what tells of a
    /// change. Returns that, and when to look again. EBADF if the set is closed.
    fn list(
        &self,
        polled: &mut Vec<pollfd>,
        until: Option<Instant>,
    ) -> Result<(ManuallyDrop<Arc<Change>>, Option<Instant>), c_int> {
        let inner = self.inner();
        if inner.is_closed {
            return Err(libc::EBADF);
        }
        polled.clear();
        polled.extend(inner.entries.iter().filter_map(Entry::waited_for));
        let quiet = inner.entries.iter().filter_map(Entry::quiet_until);
        let wake = until.into_iter().chain(quiet).min();
        let watched = |fd| pollfd { fd, events: libc::POLLIN, revents: 0 };
        polled.extend([watched(self.fd), watched(inner.change.0)]);
        Ok((ManuallyDrop::new(Arc::clone(&inner.change)), wake))
    }

    /// Fills `events` with what is ready of what was polled; returns how many.
    fn tell(&self, polled: &mut Vec<pollfd>, events: &mut [epoll_event]) -> Result<usize, c_int> {
        let _change = polled.pop();
        let is_kernel = polled.pop().is_some_and(|kernel| kernel.revents != 0);
        let mut inner = self.inner();
        let kernel_first = take(&mut inner.kernel_first);
        inner.kernel_first = !kernel_first;
        if inner.is_closed {
            return Err(libc::EBADF);
        }
        drop(inner);
        let mut told = 0;
        if is_kernel && kernel_first {
            told = self.of_kernel(events)?;
        }
        told += self.of_rsockets(polled, &mut events[told..]);
        if is_kernel && !kernel_first && told < events.len() {
            told += self
                .of_kernel(&mut events[told..])
                .or_else(|errno| if told > 0 { Ok(0) } else { Err(errno) })?;
        }
        Ok(told)
    }

    /// What the kernel's set has now; there is room for one at least.
    fn of_kernel(&self, events: &mut [epoll_event]) -> Result<usize, c_int> {
        let most = c_int::try_from(events.len()).unwrap_or(c_int::MAX);
        let no_mask = core::ptr::null::<libc::sigset_t>();
        // SAFETY: there is room for as many as it says. It does not wait.
        let found = unsafe {
            libc::syscall(libc::SYS_epoll_pwait, self.fd, events.as_mut_ptr(), most, 0, no_mask, 0_usize)
        };
        usize::try_from(found).map_err(|_| errno())
    }

    /// What is ready of the rsockets that were polled.
    fn of_rsockets(&self, polled: &[pollfd], events: &mut [epoll_event]) -> usize {
        let (mut inner, now) = (self.inner(), Instant::now());
        let (mut told, mut last) = (0, None);
        for polled in polled.iter().filter(|polled| polled.revents != 0) {
            let Some(place) = events.get_mut(told) else { break };
            let Some(at) = inner.find(polled.fd) else { continue };
            if let Some(event) = inner.entries[at].tell(bits(polled.revents), now) {
                *place = event;
                (told, last) = (told + 1, Some(at));
            }
        }
        if let Some(last) = last.filter(|_| told == events.len()) {
            // Those behind it are next.
            inner.entries.rotate_left(last + 1);
        }
        told
    }
}
