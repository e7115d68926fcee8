//! Whether somebody else's epoll instance has something to report.

use std::os::fd::RawFd;
use std::{fs, io, thread, time};

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
    /// Finds the instance that watches `source`; `hint` is where it was the last time.
    pub(crate) fn find(source: RawFd, hint: RawFd) -> Self {
        if hint != NONE && watches(hint, source) {
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

fn search(source: RawFd) -> Option<RawFd> {
    let descriptors = fs::read_dir("/proc/self/fd").ok()?;
    descriptors.flatten().find_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        let fd: RawFd = entry.file_name().to_str()?.parse().ok()?;
        (target.as_os_str() == "anon_inode:[eventpoll]" && watches(fd, source)).then_some(fd)
    })
}

/// Whether `fd` is an epoll instance that watches `source`: one line `tfd: <source> events: ..` for each it watches.
fn watches(fd: RawFd, source: RawFd) -> bool {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
    info.lines()
        .filter_map(|line| line.strip_prefix("tfd:"))
        .any(|rest| rest.split_whitespace().next().and_then(|number| number.parse().ok()) == Some(source))
}

#[cfg(test)]
#[path = "epoll_tests.rs"]
mod tests;
