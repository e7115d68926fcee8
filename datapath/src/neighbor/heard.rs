//! The Ethernet addresses that messages to the connection manager came from. Answers go back there,
//! so that no address is looked for because of strangers.

use crate::time::Time;
use core::net::IpAddr;
use std::collections::VecDeque;

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

/// A bounded list, the one heard longest ago first. It is searched from end to end: it is short,
/// and asked at connection set-up only.
#[derive(Debug)]
pub struct Heard {
    entries: VecDeque<Entry>,
}

impl Heard {
    pub fn new() -> Self {
        Self { entries: VecDeque::with_capacity(HEARD_MAX) }
    }

    /// `ip` sent a frame from `mac`.
    pub fn note(&mut self, now: Time, ip: IpAddr, mac: [u8; 6]) {
        if let Some(at) = self.entries.iter().position(|known| known.ip == ip) {
            self.entries.remove(at);
        } else if self.entries.len() == HEARD_MAX {
            self.entries.pop_front();
        }
        self.entries.push_back(Entry { ip, mac, at: now });
    }

    /// The Ethernet address that `ip` last sent from.
    pub fn find(&self, now: Time, ip: IpAddr) -> Option<[u8; 6]> {
        let known = self.entries.iter().find(|known| known.ip == ip)?;
        (now.since(known.at) < HEARD_LIFETIME_NS).then_some(known.mac)
    }
}
