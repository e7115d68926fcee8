//! The table of neighbors: addresses that are known, looked for, or given up.

use super::Resolution;
use crate::time::Time;
use core::net::IpAddr;

/// Nanoseconds between the first two requests for an address; twice as long between the next two,
/// and so on.
pub const RETRY_NS: u64 = 50_000_000;
/// The longest time between two requests, in nanoseconds.
pub const RETRY_MAX_NS: u64 = 1_000_000_000;
/// Requests before an address is given up.
pub const TRIES: u8 = 6;
/// Nanoseconds from the first request until an address is given up.
pub const SEARCH_NS: u64 = {
    let (mut sum, mut sent) = (0, 1);
    while sent <= TRIES {
        sum += wait_ns(sent);
        sent += 1;
    }
    sum
};

/// Nanoseconds after a request, the first of which is number 1.
const fn wait_ns(sent: u8) -> u64 {
    let wait = RETRY_NS << (sent - 1);
    if wait < RETRY_MAX_NS { wait } else { RETRY_MAX_NS }
}
/// Nanoseconds that an address is believed for.
pub const ENTRY_LIFETIME_NS: u64 = 60_000_000_000;
/// Nanoseconds after giving up before an address is looked for again.
pub const FAILURE_HOLD_NS: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
enum State {
    /// `sent` requests so far; at `next` another, or the end.
    Looking {
        sent: u8,
        next: Time,
    },
    Known {
        mac: [u8; 6],
        until: Time,
    },
    Failed {
        until: Time,
    },
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    ip: IpAddr,
    state: State,
}

/// A bounded table. Searched from end to end: it is small, and asked at connection set-up only.
#[derive(Debug)]
pub struct Table {
    entries: Vec<Entry>,
    capacity: usize,
    /// The earliest `next` of an address looked for.
    deadline: Option<Time>,
}

impl Table {
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Self { entries: Vec::with_capacity(capacity), capacity, deadline: None }
    }

    /// See [`Neighbor::next_deadline`](super::Neighbor::next_deadline).
    pub const fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// Returns `true` if the Ethernet address of `ip` is known.
    pub fn knows(&self, now: Time, ip: IpAddr) -> bool {
        let known = |entry: &Entry| {
            entry.ip == ip && matches!(entry.state, State::Known { until, .. } if now < until)
        };
        self.entries.iter().any(known)
    }

    /// The state of `ip` now. Begins to look for the address if nothing is known of it.
    pub fn lookup(&mut self, now: Time, ip: IpAddr) -> Resolution {
        let found = self.entries.iter().position(|entry| entry.ip == ip);
        match found.map(|index| self.entries[index].state) {
            Some(State::Looking { .. }) => return Resolution::Pending,
            Some(State::Known { mac, until }) if now < until => return Resolution::Known(mac),
            Some(State::Failed { until }) if now < until => return Resolution::Unreachable,
            Some(State::Known { .. } | State::Failed { .. }) | None => {}
        }
        let entry = Entry { ip, state: State::Looking { sent: 0, next: now } };
        match found.or_else(|| self.victim()) {
            Some(index) => self.entries[index] = entry,
            None if self.entries.len() < self.capacity => self.entries.push(entry),
            None => return Resolution::Full,
        }
        self.update_deadline();
        Resolution::Pending
    }

    /// In a full table, the entry to overwrite: the one that expires first, but none that is looked
    /// for.
    fn victim(&self) -> Option<usize> {
        if self.entries.len() < self.capacity {
            return None;
        }
        let expiry = |entry: &Entry| match entry.state {
            State::Looking { .. } => None,
            State::Known { until, .. } | State::Failed { until } => Some(until),
        };
        let expiring =
            self.entries.iter().enumerate().filter_map(|(index, entry)| Some((expiry(entry)?, index)));
        expiring.min().map(|(_, index)| index)
    }

    /// Notes where `ip` is, if it has an entry; one that is known to be elsewhere stays there
    /// unless `overrides`.
    pub fn learn(&mut self, now: Time, ip: IpAddr, mac: [u8; 6], overrides: bool) {
        let elsewhere =
            |state| matches!(state, State::Known { mac: known, until } if known != mac && now < until);
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.ip == ip)
            && (overrides || !elsewhere(entry.state))
        {
            entry.state = State::Known { mac, until: now.after(ENTRY_LIFETIME_NS) };
            self.update_deadline();
        }
    }

    /// The next address to ask for now. Gives up those asked for often enough, and counts them in
    /// `given_up`.
    pub fn poll_request(&mut self, now: Time, given_up: &mut u64) -> Option<IpAddr> {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return None;
        }
        let mut request = None;
        for entry in &mut self.entries {
            let State::Looking { sent, next } = entry.state else { continue };
            if next > now {
                continue;
            }
            if sent < TRIES {
                let sent = sent + 1;
                entry.state = State::Looking { sent, next: now.after(wait_ns(sent)) };
                request = Some(entry.ip);
                break;
            }
            entry.state = State::Failed { until: now.after(FAILURE_HOLD_NS) };
            *given_up += 1;
        }
        self.update_deadline();
        request
    }

    fn update_deadline(&mut self) {
        let looking = self.entries.iter().filter_map(|entry| match entry.state {
            State::Looking { next, .. } => Some(next),
            State::Known { .. } | State::Failed { .. } => None,
        });
        self.deadline = looking.min();
    }
}
