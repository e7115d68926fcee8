//! What a long run has done so far, on standard error: for a person who watches, not for the table.

use crate::perf::cli::Basics;
use std::io::{IsTerminal as _, Write as _, stderr};
use std::time::{Duration, Instant};

/// Time between two lines, and before the first: a short run shows none.
const INTERVAL: Duration = Duration::from_secs(1);

/// Shows messages and time once a second.
#[derive(Debug)]
pub struct Progress {
    start: Instant,
    next: Instant,
    /// Whether one line is written over the other.
    terminal: bool,
    /// Whether a line stands on the terminal.
    open: bool,
}

impl Progress {
    /// On a terminal, or when asked; else `None`.
    #[must_use]
    pub fn of(basics: &Basics) -> Option<Self> {
        let terminal = stderr().is_terminal();
        let now = Instant::now();
        (terminal || basics.progress).then(|| Self {
            start: now,
            next: now + INTERVAL,
            terminal,
            open: false,
        })
    }

    /// So many messages by `now`.
    #[inline]
    pub fn done(&mut self, messages: u64, now: Instant) {
        if now >= self.next {
            self.show(messages, now);
        }
    }

    #[cold]
    fn show(&mut self, messages: u64, now: Instant) {
        self.next = now + INTERVAL;
        let seconds = (now - self.start).as_secs();
        // Nobody is harmed by a line that cannot be written.
        let _ = if self.terminal {
            self.open = true;
            write!(stderr(), "\r\x1b[K{messages} messages in {seconds} s")
        } else {
            writeln!(stderr(), "{messages} messages in {seconds} s")
        };
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.open {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}
