//! Finding and being found: ARP or, with an IPv6 address, neighbor discovery; and the answer to
//! ping. Through smoltcp's packet formats.
//!
//! Sans I/O: frames and the time go in, frames come out. Everything is on one link (no gateway).
//! Whether another host has our address is asked whenever the link comes up. All memory is taken at
//! the start.

mod conflict_detection;
mod frames;
mod heard;
mod table;
#[cfg(test)]
mod tests;

pub use conflict_detection::{
    AddressConflict, DEFEND_INTERVAL_NS, PROBE_ANSWER_NS, PROBE_INTERVAL_NS, PROBES, RECLAIM_NS,
};
pub use heard::{HEARD_LIFETIME_NS, HEARD_MAX};
pub use table::{ENTRY_LIFETIME_NS, FAILURE_HOLD_NS, RETRY_MAX_NS, RETRY_NS, SEARCH_NS, TRIES};

use crate::frame::FrameRing;
use crate::time::Time;
use conflict_detection::{ConflictDetection, Nonce, Speech};
use core::net::IpAddr;
use frames::{Discovery, DiscoveryKind, Incoming, Link, is_host, is_one};
use heard::Heard;
use smoltcp::wire::EthernetAddress;
use table::Table;

/// Longest echo data that is answered over IPv4: that of a 1500-byte packet.
pub const ECHO_DATA_MAX: usize = 1500 - 20 - 8;
/// Longest echo data that is answered over IPv6: that of a 1500-byte packet.
pub const ECHO_DATA_MAX_V6: usize = 1500 - 40 - 8;
/// Replies that wait to be sent; one more is dropped.
pub const REPLY_QUEUE: usize = 16;
/// Longest reply: Ethernet with a VLAN tag, IPv4, ICMP, echo data; over IPv6 it is as long.
const REPLY_MAX: usize = 18 + 20 + 8 + ECHO_DATA_MAX;

/// The multicast Ethernet addresses that a host with this address must receive: those of neighbor
/// discovery. None for IPv4, whose questions are broadcast.
#[must_use]
pub fn multicast_macs(ip: IpAddr) -> Vec<[u8; 6]> {
    match ip {
        IpAddr::V4(_) => Vec::new(),
        IpAddr::V6(ip) => frames::multicast_macs(ip).to_vec(),
    }
}

/// The addresses of this host on its link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeighborConfig {
    /// Our Ethernet address.
    pub mac: [u8; 6],
    /// Our IP address. Neighbors are of the same family.
    pub ip: IpAddr,
    /// VLAN of all our frames, 1..=4094; `None`: untagged.
    pub vlan: Option<u16>,
    /// Neighbors that can be known at once, at least 1.
    pub capacity: usize,
    /// A number that no other host has (RFC 7527), which tells our words about our address from
    /// those of another host with our Ethernet address. Of two hosts that ask for one address at
    /// once the smaller number keeps it; the first bit does not count. Zeros: none.
    pub nonce: [u8; 6],
    /// True for the engine of a device that probes whether the address is free, and defends it.
    pub defends: bool,
}

impl NeighborConfig {
    const fn link(&self) -> Link {
        Link { mac: EthernetAddress(self.mac), ip: self.ip, vlan: self.vlan, nonce: Nonce::new(self.nonce) }
    }

    /// Returns `true` if a frame says where a neighbor is and wants no answer, or is about whose
    /// our address is: each of several engines with this address is to have it, where a question or
    /// an echo request is for one.
    #[must_use]
    pub fn is_announcement(&self, frame: &[u8]) -> bool {
        match self.link().parse(frame) {
            Incoming::Discovery(said) => {
                said.ip == self.ip || said.is_probe() || !(said.to_us && said.kind == DiscoveryKind::Request)
            }
            _ => false,
        }
    }
}

/// What this module did with a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handled {
    /// No: neither ARP, neighbor discovery nor an ICMP packet to us, or not of our family.
    Ignored,
    /// Yes; if it was malformed it is counted and had no other effect.
    Consumed,
    /// Yes, and it says that our address is another host's. What is to be told of it, once for many
    /// such frames.
    Disputed(Option<AddressConflict>),
}

/// The result of looking for an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resolution {
    /// Its Ethernet address.
    Known([u8; 6]),
    /// Not known yet: ask again after the next frame, or some milliseconds later.
    Pending,
    /// Nobody answered [`TRIES`] requests, or it is not a host's address. Asking again later tries
    /// again.
    Unreachable,
    /// As many addresses are being looked for as can be; each of them ends within [`SEARCH_NS`].
    Full,
    /// Our own address is another host's, the one with this Ethernet address: none of ours can be
    /// reached.
    AddressTaken([u8; 6]),
    /// It is IPv6 and we are IPv4, or the other way.
    OtherFamily,
}

/// Counters since creation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NeighborStats {
    /// Questions sent: ARP requests or neighbor solicitations.
    pub requests_tx: u64,
    /// Questions for our address.
    pub requests_rx: u64,
    /// Answers to us: ARP replies or neighbor advertisements.
    pub answers_rx: u64,
    /// Frames that say that our address is another host's.
    pub conflicts: u64,
    /// Probes and announcements of our address sent.
    pub claims_tx: u64,
    /// Echo requests to us.
    pub echo_requests_rx: u64,
    /// ICMP packets to us that are no echo requests.
    pub icmp_other_rx: u64,
    /// ARP or ICMP packets that are truncated, inconsistent, fragments, have a wrong checksum, or
    /// come from off the link where they must not.
    pub malformed_rx: u64,
    /// Answers to questions and echo requests sent.
    pub replies_tx: u64,
    /// Replies dropped because [`REPLY_QUEUE`] of them were waiting.
    pub reply_queue_full: u64,
    /// Echo requests with more than [`ECHO_DATA_MAX`] or [`ECHO_DATA_MAX_V6`] bytes, and frames
    /// longer than the slot they were to go to.
    pub oversize: u64,
    /// Addresses given up after [`TRIES`] requests.
    pub unreachable: u64,
    /// Lookups that found the table full of addresses under way.
    pub table_full: u64,
}

/// Table of neighbors, and responder, of one address.
#[derive(Debug)]
pub struct Neighbor {
    link: Link,
    table: Table,
    /// Replies that wait for a transmit slot, written out already.
    replies: FrameRing,
    conflict: ConflictDetection,
    heard: Heard,
    defends: bool,
    /// When the table or conflict detection next has something to send.
    deadline: Option<Time>,
    /// The latest time that any call told.
    now: Time,
    stats: NeighborStats,
}

impl Neighbor {
    /// A responder that knows nobody.
    #[must_use]
    pub fn new(config: &NeighborConfig) -> Self {
        Self {
            link: config.link(),
            table: Table::new(config.capacity),
            replies: FrameRing::new(REPLY_QUEUE, REPLY_MAX),
            conflict: ConflictDetection::new(Nonce::new(config.nonce)),
            heard: Heard::new(),
            defends: config.defends,
            deadline: None,
            now: Time::ZERO,
            stats: NeighborStats::default(),
        }
    }

    /// The link came up: asks whether another host has our address. Meanwhile it is used.
    pub fn probe_address(&mut self) {
        self.conflict.probe(self.now);
        self.update_deadline();
    }

    /// There is no link: our address is not ours until it was asked for again.
    pub fn suspend_probe(&mut self) {
        self.conflict.suspend();
        self.update_deadline();
    }

    /// Ethernet address of the host that has our address instead of us. It is asked for again every
    /// [`RECLAIM_NS`].
    #[must_use]
    pub const fn address_holder(&self) -> Option<[u8; 6]> {
        self.conflict.holder()
    }

    /// Takes a received frame, from the Ethernet header on. May queue a reply.
    pub fn handle_frame(&mut self, now: Time, frame: &[u8]) -> Handled {
        self.now = self.now.max(now);
        let link = self.link();
        match link.parse(frame) {
            Incoming::Other => return Handled::Ignored,
            Incoming::Malformed => self.stats.malformed_rx += 1,
            Incoming::Discovery(said) => {
                let handled = self.handle_discovery(&link, &said);
                self.update_deadline();
                return handled;
            }
            // Its holder answers.
            Incoming::EchoRequest(_) if self.conflict.holder().is_some() => self.stats.echo_requests_rx += 1,
            Incoming::EchoRequest(echo) => {
                self.stats.echo_requests_rx += 1;
                let longest = if link.ip.is_ipv4() { ECHO_DATA_MAX } else { ECHO_DATA_MAX_V6 };
                if echo.data.len() > longest {
                    self.stats.oversize += 1;
                } else {
                    self.queue(|buf| link.emit_echo_reply(buf, &echo));
                }
            }
            Incoming::OtherIcmp => self.stats.icmp_other_rx += 1,
        }
        Handled::Consumed
    }

    fn handle_discovery(&mut self, link: &Link, said: &Discovery) -> Handled {
        let is_probe = said.is_probe();
        if said.ip == link.ip || is_probe {
            if link.has_said(said) {
                return Handled::Consumed;
            }
            if !is_probe || self.conflict.yields_to(said.nonce) {
                self.stats.conflicts += 1;
                return Handled::Disputed(self.conflict.dispute(self.now, said.mac.0, said.nonce));
            }
        }
        // What we did not ask for updates an entry, but makes none: a stranger cannot fill the
        // table.
        self.table.learn(self.now, said.ip, said.mac.0, said.overrides);
        match said.kind {
            _ if !said.to_us => {}
            DiscoveryKind::Request => {
                self.stats.requests_rx += 1;
                // Where the address is another host's, that one answers. Every engine hears a
                // probe, and one answers it.
                if self.conflict.holder().is_none() && (self.defends || !is_probe) {
                    self.queue(|buf| link.emit_reply(buf, said));
                }
            }
            DiscoveryKind::Reply => self.stats.answers_rx += 1,
        }
        Handled::Consumed
    }

    fn queue(&mut self, emit: impl FnOnce(&mut [u8]) -> Option<usize>) {
        let reply = self.replies.free().and_then(|reply| Some((emit(&mut reply.bytes)?, reply)));
        match reply {
            Some((len, reply)) => {
                reply.len = len;
                self.replies.push();
            }
            None => self.stats.reply_queue_full += 1,
        }
    }

    /// Writes the next frame that is due into `slot` and returns its length.
    pub fn poll_transmit(&mut self, now: Time, slot: &mut [u8]) -> Option<usize> {
        self.now = self.now.max(now);
        while let Some(reply) = self.replies.front() {
            let len = reply.len;
            let copied = slot.get_mut(..len).map(|slot| slot.copy_from_slice(reply.bytes())).is_some();
            self.replies.pop();
            if copied {
                self.stats.replies_tx += 1;
                return Some(len);
            }
            self.stats.oversize += 1;
        }
        let sent = self.poll_conflict(slot).or_else(|| self.poll_request(slot));
        self.update_deadline();
        sent
    }

    fn poll_conflict(&mut self, slot: &mut [u8]) -> Option<usize> {
        let speech = self.conflict.poll(self.now).filter(|_| self.defends)?;
        let link = self.link();
        let len = match speech {
            Speech::Probe => link.emit_probe(slot),
            Speech::Announcement => link.emit_announcement(slot),
        };
        let count = if len.is_some() { &mut self.stats.claims_tx } else { &mut self.stats.oversize };
        *count += 1;
        len
    }

    fn poll_request(&mut self, slot: &mut [u8]) -> Option<usize> {
        let link = self.link();
        while let Some(ip) = self.table.poll_request(self.now, &mut self.stats.unreachable) {
            if let Some(len) = link.emit_request(slot, ip) {
                self.stats.requests_tx += 1;
                return Some(len);
            }
            self.stats.oversize += 1;
        }
        None
    }

    /// Who we are, as packets say it now.
    const fn link(&self) -> Link {
        Link { nonce: self.conflict.nonce(), ..self.link }
    }

    fn update_deadline(&mut self) {
        self.deadline = [self.table.deadline(), self.conflict.deadline()].into_iter().flatten().min();
    }

    /// The Ethernet address of `ip`, as far as known; of a host that has just asked for a
    /// connection, the one that it sent from. Begins to look for it if it is not known.
    pub fn resolve(&mut self, now: Time, ip: IpAddr) -> Resolution {
        self.now = self.now.max(now);
        if ip.is_ipv4() != self.link.ip.is_ipv4() {
            return Resolution::OtherFamily;
        }
        if ip == self.link.ip {
            return Resolution::Known(self.link.mac.0);
        }
        if let Some(mac) = self.conflict.holder() {
            return Resolution::AddressTaken(mac);
        }
        if !is_host(ip) {
            return Resolution::Unreachable;
        }
        let heard = self.heard.find(self.now, ip).filter(|_| !self.table.knows(self.now, ip));
        if let Some(mac) = heard {
            return Resolution::Known(mac);
        }
        if self.conflict.is_open(self.now) {
            return Resolution::Pending;
        }
        let found = self.table.lookup(self.now, ip);
        self.update_deadline();
        self.stats.table_full += u64::from(found == Resolution::Full);
        found
    }

    /// Returns `true` if an Ethernet address is one host's, and not a group's.
    pub fn is_host(mac: [u8; 6]) -> bool {
        is_one(EthernetAddress(mac))
    }

    /// `ip` has sent something to the connection manager, from the Ethernet address `mac`. It is
    /// not noted if that is no host's.
    pub fn note_heard(&mut self, now: Time, ip: IpAddr, mac: [u8; 6]) {
        self.now = self.now.max(now);
        if Self::is_host(mac) {
            self.heard.note(self.now, ip, mac);
        }
    }

    /// The Ethernet address that `ip` sent from to the connection manager, within the last
    /// [`HEARD_LIFETIME_NS`].
    #[must_use]
    pub fn heard_from(&self, now: Time, ip: IpAddr) -> Option<[u8; 6]> {
        self.heard.find(now, ip)
    }

    /// When [`Neighbor::poll_transmit`] next has a request to repeat or to give up, or to ask for
    /// our own address; `None` if nothing is under way.
    #[must_use]
    pub const fn next_deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// Returns `true` if [`Neighbor::poll_transmit`] has work now, at the latest time that it was
    /// told.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.replies.len() > 0 || self.deadline.is_some_and(|deadline| deadline <= self.now)
    }

    /// Counters.
    #[must_use]
    pub const fn stats(&self) -> &NeighborStats {
        &self.stats
    }
}
