//! An rsocket in a set: what it is polled for, and what is told of it.
//!
//! Of an edge (`EPOLLET`) what was told is not told again while it lasts. A call that found the
//! rsocket not ready, or a look that did, ends that. Because another edge may be hidden by one that
//! lasts, such as more bytes behind those that nobody has read, it is told once more after a while,
//! and then ever less often.

use core::ffi::{c_int, c_short};
use core::time::Duration;
use libc::{epoll_event, pollfd};
use std::time::Instant;

/// How long what was told is not told again while it lasts, at first and at most.
const QUIET: Duration = Duration::from_millis(10);
const QUIET_MAX: Duration = Duration::from_secs(1);
/// What is told whether it is asked for or not.
const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP).cast_unsigned();
const EDGES: u32 = libc::EPOLLET.cast_unsigned();
const ONCE: u32 = libc::EPOLLONESHOT.cast_unsigned();
/// The events proper, which are those of `poll`.
const EVENTS: u32 = 0xffff;

/// Events of `poll` as those of `epoll`.
pub fn bits(events: c_short) -> u32 {
    u16::from_ne_bytes(events.to_ne_bytes()).into()
}

#[derive(Clone, Copy)]
pub struct Entry {
    pub fd: c_int,
    /// Events and flags.
    events: u32,
    data: u64,
    /// It is told once, and was.
    is_spent: bool,
    /// Edges that were told and last.
    told: u32,
    /// Until when they are not told again, and how long that is.
    quiet_until: Option<Instant>,
    quiet: Duration,
}

impl Entry {
    pub const fn new(fd: c_int, event: &epoll_event) -> Self {
        let (events, data) = (event.events, event.u64);
        Self { fd, events, data, is_spent: false, told: 0, quiet_until: None, quiet: QUIET }
    }

    fn asked(&self) -> u32 {
        self.events & EVENTS | ALWAYS
    }

    /// What has to be looked at before it is waited for: edges that were told, and may be over.
    pub fn looked_at(&self) -> Option<pollfd> {
        (self.told != 0 && !self.is_spent).then(|| self.polled_for(self.asked()))
    }

    /// What it is waited for; `None` while there is nothing to be told of it.
    pub fn waited_for(&self) -> Option<pollfd> {
        // `poll` tells of those that are told always, whatever it is asked for.
        let says_nothing = self.is_spent || self.told & ALWAYS != 0;
        (!says_nothing).then(|| self.polled_for(self.asked() & !self.told))
    }

    fn polled_for(&self, events: u32) -> pollfd {
        let [low, high, ..] = (events & EVENTS).to_le_bytes();
        pollfd { fd: self.fd, events: c_short::from_le_bytes([low, high]), revents: 0 }
    }

    /// When what was told is to be told again if it still lasts.
    pub const fn quiet_until(&self) -> Option<Instant> {
        self.quiet_until
    }

    /// A call or a look has found that it is not ready for these events.
    pub fn is_over(&mut self, events: u32) {
        self.told &= !events;
        if self.told == 0 {
            (self.quiet_until, self.quiet) = (None, QUIET);
        }
    }

    /// A look has found that it is ready for these events, and no other.
    pub fn looked(&mut self, ready: u32, now: Instant) {
        self.is_over(!ready);
        if self.quiet_until.is_some_and(|until| now >= until) {
            (self.told, self.quiet_until) = (0, None);
            self.quiet = (self.quiet * 2).min(QUIET_MAX);
        }
    }

    /// What is told of it now that it is ready for these events, if anything is.
    pub fn tell(&mut self, ready: u32, now: Instant) -> Option<epoll_event> {
        let fresh = ready & self.asked() & !self.told;
        if fresh == 0 || self.is_spent {
            return None;
        }
        self.is_spent = self.events & ONCE != 0;
        if self.events & EDGES != 0 {
            self.told |= fresh;
            self.quiet_until = Some(now + self.quiet);
        }
        Some(epoll_event { events: fresh, u64: self.data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN: u32 = libc::EPOLLIN.cast_unsigned();
    const OUT: u32 = libc::EPOLLOUT.cast_unsigned();
    const HUP: u32 = libc::EPOLLHUP.cast_unsigned();

    fn entry(events: u32) -> Entry {
        Entry::new(3, &epoll_event { events, u64: 7 })
    }

    fn told(entry: &mut Entry, ready: u32, now: Instant) -> u32 {
        entry.tell(ready, now).map_or(0, |event| event.events)
    }

    #[test]
    fn a_level_is_told_while_it_lasts() {
        let (mut entry, now) = (entry(IN), Instant::now());
        assert_eq!([told(&mut entry, IN | OUT, now), told(&mut entry, IN, now)], [IN, IN]);
        assert!(entry.looked_at().is_none());
        assert_eq!(told(&mut entry, HUP, now), HUP);
    }

    #[test]
    fn an_edge_is_told_once_until_it_was_over_or_some_time_has_passed() {
        let (mut entry, now) = (entry(IN | OUT | EDGES), Instant::now());
        assert_eq!(told(&mut entry, OUT, now), OUT);
        assert_eq!(told(&mut entry, OUT, now), 0);
        assert_eq!(entry.waited_for().map(|polled| bits(polled.events) & (IN | OUT)), Some(IN));
        // The one does not hide the other.
        assert_eq!(told(&mut entry, IN | OUT, now), IN);
        entry.is_over(OUT);
        assert_eq!(told(&mut entry, IN | OUT, now), OUT);
        entry.looked(OUT, now);
        assert_eq!(told(&mut entry, IN | OUT, now), IN);
        let later = now + QUIET;
        entry.looked(IN | OUT, later);
        assert_eq!(told(&mut entry, IN | OUT, later), IN | OUT);
        entry.looked(IN | OUT, later + QUIET);
        assert_eq!(told(&mut entry, IN | OUT, later + QUIET), 0, "the second time it takes twice as long");
    }

    #[test]
    fn an_end_is_told_once() {
        let (mut entry, now) = (entry(IN | EDGES), Instant::now());
        assert_eq!(told(&mut entry, IN | HUP, now), IN | HUP);
        assert!(entry.waited_for().is_none() && entry.looked_at().is_some());
    }

    #[test]
    fn what_is_told_once_is_told_once() {
        let (mut entry, now) = (entry(IN | ONCE), Instant::now());
        assert_eq!([told(&mut entry, IN, now), told(&mut entry, IN | HUP, now)], [IN, 0]);
        assert!(entry.waited_for().is_none());
    }
}
