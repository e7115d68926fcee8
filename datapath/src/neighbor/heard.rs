//! The Ethernet addresses that messages to the connection manager came from. Answers go back there,
//! so that no address is looked for because of strangers.

use crate::time::Time;
use core::net::IpAddr;

/// Hosts that are remembered; the one that was heard longest ago is forgotten first.
pub const HEARD_MAX: usize = 256;
/// Nanoseconds that a host is remembered for.
pub const HEARD_LIFETIME_NS: u64 = 5_000_000_000;

#[derive(Clone, Copy, Debug)]
struct Entry {
    ip: IpAddr,
    mac: [u8; 6],
    at: Time,
}

/// A bounded list, searched from end to end: it is short, and asked at connection set-up only.
#[derive(Debug)]
pub struct Heard {
    entries: Vec<Entry>,
    /// The entry to overwrite next, once all are in use.
    oldest: usize,
}

impl Heard {
    pub fn new() -> Self {
        Self { entries: Vec::with_capacity(HEARD_MAX), oldest: 0 }
    }

    /// `ip` sent a frame from `mac`.
    pub fn note(&mut self, now: Time, ip: IpAddr, mac: [u8; 6]) {
        let entry = Entry { ip, mac, at: now };
        if let Some(known) = self.entries.iter_mut().find(|known| known.ip == ip) {
            *known = entry;
        } else if self.entries.len() < HEARD_MAX {
            self.entries.push(entry);
        } else {
            self.entries[self.oldest] = entry;
            self.oldest = (self.oldest + 1) % HEARD_MAX;
        }
    }

    /// The Ethernet address that `ip` last sent from.
    pub fn find(&self, now: Time, ip: IpAddr) -> Option<[u8; 6]> {
        let known = self.entries.iter().find(|known| known.ip == ip)?;
        (now.since(known.at) < HEARD_LIFETIME_NS).then_some(known.mac)
    }
}
