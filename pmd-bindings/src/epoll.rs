//! Looks whether an epoll instance of other code has something to report.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::{fs, thread, time};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::{Errno, retry_on_intr};

use crate::unix;

/// How long to wait when there is no telling.
pub(crate) const BLIND_MS: u64 = 2;
/// Asks without waiting.
const NOW: Option<&Timespec> = Some(&Timespec { tv_sec: 0, tv_nsec: 0 });
/// No descriptor.
const NONE: RawFd = -1;

/// The sources that an epoll instance of this process watches.
///
/// Valid while the instance cannot be closed: inside a callback of the thread that owns it.
#[derive(Debug)]
pub(crate) struct Readiness {
    /// [`NONE`] if it was not found.
    epoll: RawFd,
}

impl Readiness {
    /// Finds the instance that watches `source`, an eventfd that is not raised; `hint` is where it
    /// was the last time.
    pub(crate) fn find(source: &OwnedFd, hint: RawFd) -> Self {
        if hint != NONE && sources(hint).contains(&source.as_raw_fd()) {
            return Self { epoll: hint };
        }
        Self { epoll: search(source).unwrap_or(NONE) }
    }

    /// Where it was found, as a hint for the next search.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.epoll
    }

    /// Returns `true` if a source is ready. `false` if there is no telling.
    pub(crate) fn now(&self) -> bool {
        self.epoll != NONE && poll(self.epoll, NOW) == Ok(true)
    }

    /// Keeps the instance and its sources out of processes that this one starts. EAL and its
    /// drivers do not, and a peer would learn of this process's end only at the end of its
    /// children.
    pub(crate) fn close_on_exec(&self) {
        for fd in sources(self.epoll).into_iter().chain([self.epoll]) {
            // SAFETY: no pointers. A descriptor that is closed meanwhile is an error, and no harm.
            unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }

    /// Returns when a source is ready, or after [`BLIND_MS`] if there is no telling.
    pub(crate) fn wait(&self) {
        if self.epoll == NONE || poll(self.epoll, None) != Ok(true) {
            pause();
        }
    }
}

/// Waits for [`BLIND_MS`].
pub(crate) fn pause() {
    thread::sleep(time::Duration::from_millis(BLIND_MS));
}

/// Returns `true` if `fd` is readable within `timeout`, or ever. An epoll instance is when one of
/// its sources is ready.
fn poll(fd: RawFd, timeout: Option<&Timespec>) -> Result<bool, Errno> {
    // SAFETY: it is not -1, and is borrowed for this call only. Its owner is EAL, which may close
    // it: then it is an error, or another file of this process, of which nothing but its readiness
    // is asked.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let mut entry = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let ready = retry_on_intr(|| rustix::event::poll(&mut entry, timeout))?;
    match ready {
        0 => Ok(false),
        _ if entry[0].revents().contains(PollFlags::IN) => Ok(true),
        _ => Err(Errno::BADF),
    }
}

fn search(source: &OwnedFd) -> Option<RawFd> {
    let descriptors = fs::read_dir("/proc/self/fd").ok()?;
    descriptors.flatten().find_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        let fd: RawFd = entry.file_name().to_str()?.parse().ok()?;
        (target.as_os_str() == "anon_inode:[eventpoll]" && watches(fd, source)).then_some(fd)
    })
}

/// Returns `true` if the instance `epoll` watches `source` itself. A number that it lists may mean
/// another file: this process may have inherited the instance of its parent, where the number meant
/// something else. So it must follow the source up and down. An instance that is ready for another
/// reason at this moment is not recognised; there is a next time.
fn watches(epoll: RawFd, source: &OwnedFd) -> bool {
    if !sources(epoll).contains(&source.as_raw_fd()) {
        return false;
    }
    unix::raise(source);
    let up = poll(epoll, NOW) == Ok(true);
    unix::lower(source);
    up && poll(epoll, NOW) == Ok(false)
}

/// What the epoll instance `fd` watches: nothing if it is none. The kernel has a line `tfd:
/// <source> events: ..` for each.
fn sources(fd: RawFd) -> Vec<RawFd> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
    let lines = info.lines().filter_map(|line| line.strip_prefix("tfd:"));
    lines.filter_map(|rest| rest.split_whitespace().next()?.parse().ok()).collect()
}

#[cfg(test)]
#[path = "epoll_tests.rs"]
mod tests;
