//! Finding and being found: ARP, and the answer to ping, through smoltcp's packet formats.
//!
//! Sans I/O: frames and the time go in, frames come out. Everything is on one link (no gateway), and IPv4 only so
//! far. All memory is taken at the start.

mod frames;
mod replies;
mod table;
#[cfg(test)]
mod tests;

pub use table::{ENTRY_LIFETIME_NS, FAILURE_HOLD_NS, RETRY_NS, TRIES};

use crate::time::Time;
use core::net::{IpAddr, Ipv4Addr};
use frames::{Incoming, Link};
use replies::Replies;
use smoltcp::wire::{ArpOperation, ArpRepr, EthernetAddress};
use table::{Lookup, Table};

/// Longest echo data that is answered: that of a 1500-byte packet.
pub const ECHO_DATA_MAX: usize = 1500 - 20 - 8;
/// Replies that wait to be sent; one more is dropped.
pub const REPLY_QUEUE: usize = 16;

/// Who we are on the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeighborConfig {
    /// Our Ethernet address.
    pub mac: [u8; 6],
    /// Our IP address. With an IPv6 address nothing is answered or resolved yet.
    pub ip: IpAddr,
    /// VLAN of all our frames, 1..=4094; `None`: untagged.
    pub vlan: Option<u16>,
    /// Neighbors that can be known at once, at least 1.
    pub capacity: usize,
}

/// Whether a frame was for this module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handled {
    /// No: neither ARP nor an ICMP packet to us.
    Ignored,
    /// Yes; if it was malformed it is counted and had no other effect.
    Consumed,
}

/// What is known about an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resolution {
    /// Its Ethernet address.
    Known([u8; 6]),
    /// A request is under way: ask again after [`Neighbor::next_deadline`] or the next frame.
    Pending,
    /// Nobody answered [`TRIES`] requests, or it is not a host's address. Asking again later tries again.
    Unreachable,
    /// It is IPv6, or we are: neighbor discovery is not there yet.
    Unsupported,
}

/// Counters since creation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NeighborStats {
    /// ARP requests sent.
    pub arp_requests_tx: u64,
    /// ARP requests for our address.
    pub arp_requests_rx: u64,
    /// ARP replies to us.
    pub arp_replies_rx: u64,
    /// ARP packets that claim our address for another host; they change nothing.
    pub arp_conflicts: u64,
    /// Echo requests to us.
    pub echo_requests_rx: u64,
    /// ICMP packets to us that are no echo requests.
    pub icmp_other_rx: u64,
    /// ARP or ICMP packets that are truncated, inconsistent, fragments, or have a wrong checksum.
    pub malformed_rx: u64,
    /// ARP and echo replies sent.
    pub replies_tx: u64,
    /// Replies dropped because [`REPLY_QUEUE`] of them were waiting.
    pub reply_queue_full: u64,
    /// Echo requests with more than [`ECHO_DATA_MAX`] bytes, and frames longer than the slot they were to go to.
    pub oversize: u64,
    /// Addresses given up after [`TRIES`] requests.
    pub unreachable: u64,
    /// Lookups that found the table full of addresses under way.
    pub table_full: u64,
}

/// ARP table, ARP responder and echo responder of one address.
#[derive(Debug)]
pub struct Neighbor {
    /// `None` if our address is IPv6.
    link: Option<Link>,
    table: Table,
    replies: Replies,
    /// The latest time that any call told.
    now: Time,
    stats: NeighborStats,
}

impl Neighbor {
    /// A responder that knows nobody.
    #[must_use]
    pub fn new(config: &NeighborConfig) -> Self {
        let link = match config.ip {
            IpAddr::V4(ip) => Some(Link { mac: EthernetAddress(config.mac), ip, vlan: config.vlan }),
            IpAddr::V6(_) => None,
        };
        Self {
            link,
            table: Table::new(config.capacity),
            replies: Replies::new(),
            now: Time::ZERO,
            stats: NeighborStats::default(),
        }
    }

    /// Takes a received frame, from the Ethernet header on. May queue a reply.
    pub fn handle_frame(&mut self, now: Time, frame: &[u8]) -> Handled {
        self.now = self.now.max(now);
        let Some(link) = self.link else { return Handled::Ignored };
        match link.parse(frame) {
            Incoming::Other => return Handled::Ignored,
            Incoming::Malformed => self.stats.malformed_rx += 1,
            Incoming::Arp(arp) => self.handle_arp(&link, &arp),
            Incoming::EchoRequest(echo) => {
                self.stats.echo_requests_rx += 1;
                if echo.data.len() > ECHO_DATA_MAX {
                    self.stats.oversize += 1;
                } else {
                    self.queue(|buf| link.emit_echo_reply(buf, &echo));
                }
            }
            Incoming::OtherIcmp => self.stats.icmp_other_rx += 1,
        }
        Handled::Consumed
    }

    fn handle_arp(&mut self, link: &Link, arp: &ArpRepr) {
        let ArpRepr::EthernetIpv4 {
            operation,
            source_hardware_addr: mac,
            source_protocol_addr: ip,
            target_protocol_addr: target,
            ..
        } = *arp
        else {
            return;
        };
        if ip == link.ip {
            self.stats.arp_conflicts += u64::from(mac != link.mac);
            return;
        }
        // What we did not ask for updates an entry, but makes none: a stranger cannot fill the table.
        self.table.learn(self.now, ip, mac.0);
        if target != link.ip {
            return;
        }
        if operation == ArpOperation::Request {
            self.stats.arp_requests_rx += 1;
            self.queue(|buf| link.emit_arp(buf, ArpOperation::Reply, mac, ip));
        } else {
            self.stats.arp_replies_rx += 1;
        }
    }

    fn queue(&mut self, emit: impl FnOnce(&mut [u8]) -> Option<usize>) {
        if !self.replies.push(emit) {
            self.stats.reply_queue_full += 1;
        }
    }

    /// Writes the next frame that is due into `slot` and returns its length.
    pub fn poll_transmit(&mut self, now: Time, slot: &mut [u8]) -> Option<usize> {
        self.now = self.now.max(now);
        let link = self.link?;
        while let Some(reply) = self.replies.front() {
            let len = reply.len();
            let copied = slot.get_mut(..len).map(|slot| slot.copy_from_slice(reply)).is_some();
            self.replies.pop();
            if copied {
                self.stats.replies_tx += 1;
                return Some(len);
            }
            self.stats.oversize += 1;
        }
        while let Some(ip) = self.table.poll_request(self.now, &mut self.stats.unreachable) {
            if let Some(len) = link.emit_arp(slot, ArpOperation::Request, EthernetAddress::BROADCAST, ip) {
                self.stats.arp_requests_tx += 1;
                return Some(len);
            }
            self.stats.oversize += 1;
        }
        None
    }

    /// The Ethernet address of `ip`, as far as known. Begins to look for it if it is not.
    pub fn resolve(&mut self, now: Time, ip: IpAddr) -> Resolution {
        self.now = self.now.max(now);
        let (Some(link), IpAddr::V4(ip)) = (self.link, ip) else { return Resolution::Unsupported };
        if ip == link.ip {
            return Resolution::Known(link.mac.0);
        }
        if !is_host(ip) {
            return Resolution::Unreachable;
        }
        match self.table.lookup(self.now, ip) {
            Lookup::Known(mac) => Resolution::Known(mac),
            Lookup::Pending => Resolution::Pending,
            Lookup::Unreachable => Resolution::Unreachable,
            Lookup::Full => {
                self.stats.table_full += 1;
                Resolution::Pending
            }
        }
    }

    /// When [`Neighbor::poll_transmit`] next has a request to repeat or to give up; `None` if none is under way.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.table.deadline()
    }

    /// Whether [`Neighbor::poll_transmit`] has work now, at the latest time that it was told.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.replies.is_empty() || self.table.deadline().is_some_and(|deadline| deadline <= self.now)
    }

    /// Counters.
    #[must_use]
    pub const fn stats(&self) -> &NeighborStats {
        &self.stats
    }
}

/// Whether one host can have this address.
const fn is_host(ip: Ipv4Addr) -> bool {
    !(ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast())
}
