//! Frames in and out, by smoltcp's formats: what both families share.

mod v4;
mod v6;

pub use v6::multicast_macs;

use super::conflict_detection::Nonce;

use core::net::IpAddr;
use smoltcp::wire::{EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr};

const ETHERNET: usize = 14;
const TAG: usize = 4;
const TPID: EthernetProtocol = EthernetProtocol::Unknown(0x8100);
/// Shortest frame without FCS; shorter ones are padded, as not every port does it.
const FRAME_MIN: usize = 60;

/// The addresses of this host and its nonce.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub mac: EthernetAddress,
    pub ip: IpAddr,
    pub vlan: Option<u16>,
    pub nonce: Nonce,
}

/// An echo request to us.
#[derive(Debug)]
pub struct Echo<'a> {
    mac: EthernetAddress,
    ip: IpAddr,
    ident: u16,
    seq_no: u16,
    /// The data to send back.
    pub data: &'a [u8],
}

/// The content of a packet of ARP or of neighbor discovery: that `ip` is at `mac`, and more.
#[derive(Clone, Copy, Debug)]
pub struct Discovery {
    pub kind: DiscoveryKind,
    pub mac: EthernetAddress,
    /// Unspecified: somebody asks whether the address that it wants is free.
    pub ip: IpAddr,
    /// A question for our address, or an answer to us.
    pub to_us: bool,
    /// True if this replaces what was known before.
    pub overrides: bool,
    /// The nonce of the host that sent this, if the packet carries one. It tells hosts with one
    /// Ethernet address apart. An ARP request carries it as its target hardware address, which has
    /// no other meaning there; a packet of neighbor discovery has an option for it (RFC 7527).
    pub nonce: Option<Nonce>,
}

impl Discovery {
    /// Returns `true` if a host asks if our address is free.
    pub fn is_probe(&self) -> bool {
        self.ip.is_unspecified() && self.to_us
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiscoveryKind {
    Request,
    Reply,
}

/// The kinds of frames that this module receives.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// Not for this module.
    Other,
    Malformed,
    Discovery(Discovery),
    EchoRequest(Echo<'a>),
    OtherIcmp,
}

/// Whom a frame is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cast {
    Us,
    /// Everybody, or the multicast groups of an IPv6 host with our address.
    Group,
}

impl Link {
    /// Tells what a frame is.
    pub fn parse<'a>(&self, bytes: &'a [u8]) -> Incoming<'a> {
        let Ok(frame) = EthernetFrame::new_checked(bytes) else { return Incoming::Other };
        let cast = match frame.dst_addr() {
            mac if mac == self.mac => Cast::Us,
            mac if self.is_group(mac) => Cast::Group,
            _ => return Incoming::Other,
        };
        let Some((protocol, payload)) = self.untag(frame.ethertype(), &bytes[ETHERNET..]) else {
            return Incoming::Other;
        };
        match (protocol, self.ip) {
            (EthernetProtocol::Arp, IpAddr::V4(own)) => v4::parse_arp(own, payload),
            // A ping of everybody has no answer: it would make every host answer at once.
            (EthernetProtocol::Ipv4, IpAddr::V4(own)) if cast == Cast::Us => {
                v4::parse_packet(own, frame.src_addr(), payload)
            }
            (EthernetProtocol::Ipv6, IpAddr::V6(own)) => {
                v6::parse_packet(own, cast, frame.src_addr(), payload)
            }
            _ => Incoming::Other,
        }
    }

    fn is_group(&self, mac: EthernetAddress) -> bool {
        match self.ip {
            IpAddr::V4(_) => mac.is_broadcast(),
            IpAddr::V6(own) => v6::multicast_macs(own).contains(&mac.0),
        }
    }

    /// Looks behind the VLAN tag; `None` if that is not our VLAN. VLAN 0 is no VLAN.
    fn untag<'a>(
        &self,
        ethertype: EthernetProtocol,
        payload: &'a [u8],
    ) -> Option<(EthernetProtocol, &'a [u8])> {
        if ethertype != TPID {
            return self.vlan.is_none().then_some((ethertype, payload));
        }
        let (tag, payload) = payload.split_first_chunk::<TAG>()?;
        let vlan = u16::from_be_bytes([tag[0], tag[1]]) & 0xFFF;
        let inner = EthernetProtocol::from(u16::from_be_bytes([tag[2], tag[3]]));
        (vlan == self.vlan.unwrap_or(0)).then_some((inner, payload))
    }

    /// Writes the question where `ip`, of our family, is, and returns the frame's length; `None` if
    /// it does not fit.
    pub fn emit_request(&self, buf: &mut [u8], ip: IpAddr) -> Option<usize> {
        match (self.ip, ip) {
            (IpAddr::V4(own), IpAddr::V4(ip)) => self.emit_arp_request(buf, own, ip),
            (IpAddr::V6(own), IpAddr::V6(ip)) => self.emit_solicitation(buf, own, ip),
            _ => None,
        }
    }

    /// Writes the answer to a question for our address, as [`Link::emit_request`].
    pub fn emit_reply(&self, buf: &mut [u8], to: &Discovery) -> Option<usize> {
        match (self.ip, to.ip) {
            (IpAddr::V4(own), IpAddr::V4(ip)) => self.emit_arp_reply(buf, own, to.mac, ip),
            (IpAddr::V6(own), IpAddr::V6(ip)) => self.emit_advertisement(buf, own, to.mac, ip),
            _ => None,
        }
    }

    /// Returns `true` if these are words of our own, come back by a loop of the network.
    pub fn has_said(&self, said: &Discovery) -> bool {
        said.mac == self.mac && said.nonce.is_none_or(|nonce| nonce.is_of(self.nonce))
    }

    /// Writes the question whether our own address is free, as [`Link::emit_request`].
    pub fn emit_probe(&self, buf: &mut [u8]) -> Option<usize> {
        match self.ip {
            IpAddr::V4(own) => self.emit_arp_probe(buf, own),
            IpAddr::V6(own) => self.emit_own_solicitation(buf, own),
        }
    }

    /// Writes to everybody that our address is ours, as [`Link::emit_request`].
    pub fn emit_announcement(&self, buf: &mut [u8]) -> Option<usize> {
        match self.ip {
            IpAddr::V4(own) => self.emit_arp_announcement(buf, own),
            IpAddr::V6(own) => self.emit_advertisement(
                buf,
                own,
                EthernetAddress::BROADCAST,
                core::net::Ipv6Addr::UNSPECIFIED,
            ),
        }
    }

    /// Writes the reply to `echo`, as [`Link::emit_request`].
    pub fn emit_echo_reply(&self, buf: &mut [u8], echo: &Echo<'_>) -> Option<usize> {
        match (self.ip, echo.ip) {
            (IpAddr::V4(own), IpAddr::V4(ip)) => self.emit_echo_reply_v4(buf, own, ip, echo),
            (IpAddr::V6(own), IpAddr::V6(ip)) => self.emit_echo_reply_v6(buf, own, ip, echo),
            _ => None,
        }
    }

    /// Writes the Ethernet header and padding; returns where `payload_len` bytes go, and the
    /// frame's length.
    fn emit_ethernet<'a>(
        &self,
        buf: &'a mut [u8],
        dst_addr: EthernetAddress,
        ethertype: EthernetProtocol,
        payload_len: usize,
    ) -> Option<(&'a mut [u8], usize)> {
        let header = ETHERNET + if self.vlan.is_some() { TAG } else { 0 };
        let len = (header + payload_len).max(FRAME_MIN);
        let frame = buf.get_mut(..len)?;
        frame[header + payload_len..].fill(0);
        let outer = if self.vlan.is_some() { TPID } else { ethertype };
        EthernetRepr { src_addr: self.mac, dst_addr, ethertype: outer }
            .emit(&mut EthernetFrame::new_unchecked(&mut *frame));
        if let Some(vlan) = self.vlan {
            frame[ETHERNET..][..2].copy_from_slice(&(vlan & 0xFFF).to_be_bytes());
            frame[ETHERNET + 2..][..2].copy_from_slice(&u16::from(ethertype).to_be_bytes());
        }
        Some((&mut frame[header..][..payload_len], len))
    }
}

/// Returns `true` if one host on a link can have this address.
pub const fn is_host(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !(ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast()),
        IpAddr::V6(ip) => !(ip.is_unspecified() || ip.is_multicast() || ip.is_loopback()),
    }
}

/// Returns `true` if one host can have this Ethernet address.
pub fn is_one(mac: EthernetAddress) -> bool {
    mac.is_unicast() && mac != EthernetAddress::default()
}
