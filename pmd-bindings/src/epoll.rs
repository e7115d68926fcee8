//! Whether somebody else's epoll instance has something to report.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::{fs, io, thread, time};

use crate::unix;

/// How long to wait when there is no telling.
pub(crate) const BLIND_MS: u64 = 2;
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
    /// Finds the instance that watches `source`, an eventfd that is not raised; `hint` is where it was the last time.
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

    /// Whether a source is ready. `false` if there is no telling.
    pub(crate) fn now(&self) -> bool {
        self.epoll != NONE && poll(self.epoll, 0) == Ok(true)
    }

    /// Keeps the instance and its sources out of processes that this one starts. EAL and its drivers do not, and a
    /// peer would learn of this process's end only at the end of its children.
    pub(crate) fn close_on_exec(&self) {
        for fd in sources(self.epoll).into_iter().chain([self.epoll]) {
            // SAFETY: no pointers. A descriptor that is closed meanwhile is an error, and no harm.
            unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }

    /// Returns when a source is ready, or after [`BLIND_MS`] if there is no telling.
    pub(crate) fn wait(&self) {
        const FOR_EVER: i32 = -1;
        if self.epoll == NONE || poll(self.epoll, FOR_EVER) != Ok(true) {
            pause();
        }
    }
}

/// Waits for [`BLIND_MS`].
pub(crate) fn pause() {
    thread::sleep(time::Duration::from_millis(BLIND_MS));
}

/// Whether `fd` is readable within `timeout_ms`. An epoll instance is when one of its sources is ready.
fn poll(fd: RawFd, timeout_ms: i32) -> Result<bool, ()> {
    let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    loop {
        // SAFETY: one entry, writable.
        match unsafe { libc::poll(&raw mut entry, 1, timeout_ms) } {
            0 => return Ok(false),
            1 if entry.revents & libc::POLLIN != 0 => return Ok(true),
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            _ => return Err(()),
        }
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

/// Whether the instance `epoll` watches `source` itself. A number that it lists may mean another file: this process
/// may have inherited the instance of its parent, where the number meant something else. So it must follow the source
/// up and down. An instance that is ready for another reason at this moment is not recognised; there is a next time.
fn watches(epoll: RawFd, source: &OwnedFd) -> bool {
    if !sources(epoll).contains(&source.as_raw_fd()) {
        return false;
    }
    unix::raise(source);
    let up = poll(epoll, 0) == Ok(true);
    unix::lower(source);
    up && poll(epoll, 0) == Ok(false)
}

/// What the epoll instance `fd` watches: nothing if it is none. The kernel has a line `tfd: <source> events: ..` for
/// each.
fn sources(fd: RawFd) -> Vec<RawFd> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
    let lines = info.lines().filter_map(|line| line.strip_prefix("tfd:"));
    lines.filter_map(|rest| rest.split_whitespace().next()?.parse().ok()).collect()
}

#[cfg(test)]
#[path = "epoll_tests.rs"]
mod tests;
