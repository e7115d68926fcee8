//! Frames in and out, by smoltcp's formats.

use super::is_host;
use core::net::Ipv4Addr;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr,
    Icmpv4Message, Icmpv4Packet, Icmpv4Repr, IpProtocol, Ipv4Packet, Ipv4Repr,
};

const ETHERNET: usize = 14;
const TAG: usize = 4;
const TPID: EthernetProtocol = EthernetProtocol::Unknown(0x8100);
/// Shortest frame without FCS; shorter ones are padded, as not every port does it.
const FRAME_MIN: usize = 60;

/// Who we are.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub mac: EthernetAddress,
    pub ip: Ipv4Addr,
    pub vlan: Option<u16>,
}

/// An echo request to us.
#[derive(Debug)]
pub struct Echo<'a> {
    mac: EthernetAddress,
    ip: Ipv4Addr,
    ident: u16,
    seq_no: u16,
    /// What to send back.
    pub data: &'a [u8],
}

/// What a frame is.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// Not for this module.
    Other,
    Malformed,
    Arp(ArpRepr),
    EchoRequest(Echo<'a>),
    OtherIcmp,
}

impl Link {
    /// Tells what a frame is.
    pub fn parse<'a>(&self, bytes: &'a [u8]) -> Incoming<'a> {
        let Ok(frame) = EthernetFrame::new_checked(bytes) else { return Incoming::Other };
        let broadcast = frame.dst_addr().is_broadcast();
        if frame.dst_addr() != self.mac && !broadcast {
            return Incoming::Other;
        }
        let Some((protocol, payload)) = self.untag(frame.ethertype(), &bytes[ETHERNET..]) else {
            return Incoming::Other;
        };
        match protocol {
            EthernetProtocol::Arp => parse_arp(payload),
            // A broadcast ping has no answer: it would make every host answer at once.
            EthernetProtocol::Ipv4 if !broadcast => self.parse_ipv4(frame.src_addr(), payload),
            _ => Incoming::Other,
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

    fn parse_ipv4<'a>(&self, mac: EthernetAddress, payload: &'a [u8]) -> Incoming<'a> {
        let Ok(packet) = Ipv4Packet::new_checked(payload) else { return Incoming::Other };
        if packet.dst_addr() != self.ip || packet.next_header() != IpProtocol::Icmp {
            return Incoming::Other;
        }
        if packet.more_frags() || packet.frag_offset() != 0 {
            return Incoming::Malformed;
        }
        let checksums = ChecksumCapabilities::default();
        let Ok(ip) = Ipv4Repr::parse(&packet, &checksums) else { return Incoming::Malformed };
        let Ok(icmp) = Icmpv4Packet::new_checked(packet.payload()) else { return Incoming::Malformed };
        if icmp.msg_type() != Icmpv4Message::EchoRequest {
            return Incoming::OtherIcmp;
        }
        match Icmpv4Repr::parse(&icmp, &checksums) {
            Ok(Icmpv4Repr::EchoRequest { ident, seq_no, data }) if is_host(ip.src_addr) && is_one(mac) => {
                Incoming::EchoRequest(Echo { mac, ip: ip.src_addr, ident, seq_no, data })
            }
            _ => Incoming::Malformed,
        }
    }

    /// Writes an ARP packet to the host at `mac` and `ip` and returns the frame's length; `None` if it does not fit.
    pub fn emit_arp(
        &self,
        buf: &mut [u8],
        operation: ArpOperation,
        mac: EthernetAddress,
        ip: Ipv4Addr,
    ) -> Option<usize> {
        let target_hardware_addr = if mac.is_broadcast() { EthernetAddress::default() } else { mac };
        let repr = ArpRepr::EthernetIpv4 {
            operation,
            source_hardware_addr: self.mac,
            source_protocol_addr: self.ip,
            target_hardware_addr,
            target_protocol_addr: ip,
        };
        let (payload, len) = self.emit_ethernet(buf, mac, EthernetProtocol::Arp, repr.buffer_len())?;
        repr.emit(&mut ArpPacket::new_unchecked(payload));
        Some(len)
    }

    /// Writes the reply to `echo` and returns the frame's length; `None` if it does not fit.
    pub fn emit_echo_reply(&self, buf: &mut [u8], echo: &Echo<'_>) -> Option<usize> {
        let checksums = ChecksumCapabilities::default();
        let icmp = Icmpv4Repr::EchoReply { ident: echo.ident, seq_no: echo.seq_no, data: echo.data };
        let ip = Ipv4Repr {
            src_addr: self.ip,
            dst_addr: echo.ip,
            next_header: IpProtocol::Icmp,
            payload_len: icmp.buffer_len(),
            hop_limit: 64,
        };
        let packet_len = ip.buffer_len() + ip.payload_len;
        let (payload, len) = self.emit_ethernet(buf, echo.mac, EthernetProtocol::Ipv4, packet_len)?;
        let mut packet = Ipv4Packet::new_unchecked(payload);
        ip.emit(&mut packet, &checksums);
        icmp.emit(&mut Icmpv4Packet::new_unchecked(packet.payload_mut()), &checksums);
        Some(len)
    }

    /// Writes the Ethernet header and padding; returns where `payload_len` bytes go, and the frame's length.
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

/// An ARP request or reply whose sender can be one host. Its address may be 0.0.0.0: a probe asks before it has one.
fn parse_arp(payload: &[u8]) -> Incoming<'_> {
    let Ok(packet) = ArpPacket::new_checked(payload) else { return Incoming::Malformed };
    match ArpRepr::parse(&packet) {
        Ok(
            arp @ ArpRepr::EthernetIpv4 {
                operation: ArpOperation::Request | ArpOperation::Reply,
                source_hardware_addr: mac,
                source_protocol_addr: ip,
                ..
            },
        ) if is_one(mac) && (is_host(ip) || ip.is_unspecified()) => Incoming::Arp(arp),
        _ => Incoming::Malformed,
    }
}

/// Whether one host can have this Ethernet address.
fn is_one(mac: EthernetAddress) -> bool {
    mac.is_unicast() && mac != EthernetAddress::default()
}
