//! IPv4: ARP and ICMP.

use super::{Discovery, DiscoveryKind, Echo, Incoming, Link, Nonce, is_host, is_one};
use core::net::{IpAddr, Ipv4Addr};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetProtocol, Icmpv4Message, Icmpv4Packet,
    Icmpv4Repr, IpProtocol, Ipv4Packet, Ipv4Repr,
};

/// An ARP request or reply whose sender can be one host. Its address may be 0.0.0.0: a probe asks
/// before it has one.
pub fn parse_arp(own: Ipv4Addr, payload: &[u8]) -> Incoming<'_> {
    let Ok(packet) = ArpPacket::new_checked(payload) else { return Incoming::Malformed };
    let Ok(ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr: mac,
        source_protocol_addr: ip,
        target_hardware_addr,
        target_protocol_addr: target,
    }) = ArpRepr::parse(&packet)
    else {
        return Incoming::Malformed;
    };
    let kind = match operation {
        ArpOperation::Request => DiscoveryKind::Request,
        ArpOperation::Reply => DiscoveryKind::Reply,
        ArpOperation::Unknown(_) => return Incoming::Malformed,
    };
    if !is_one(mac) || !(is_host(IpAddr::V4(ip)) || ip.is_unspecified()) {
        return Incoming::Malformed;
    }
    let nonce = (kind == DiscoveryKind::Request).then_some(Nonce(target_hardware_addr.0));
    let (ip, to_us) = (IpAddr::V4(ip), target == own);
    Incoming::Discovery(Discovery { kind, mac, ip, to_us, overrides: true, nonce })
}

pub fn parse_packet(own: Ipv4Addr, mac: EthernetAddress, payload: &[u8]) -> Incoming<'_> {
    let Ok(packet) = Ipv4Packet::new_checked(payload) else { return Incoming::Other };
    if packet.dst_addr() != own || packet.next_header() != IpProtocol::Icmp {
        return Incoming::Other;
    }
    if packet.more_frags() || packet.frag_offset() != 0 {
        return Incoming::Malformed;
    }
    let checksums = ChecksumCapabilities::default();
    let Ok(repr) = Ipv4Repr::parse(&packet, &checksums) else { return Incoming::Malformed };
    let Ok(icmp) = Icmpv4Packet::new_checked(packet.payload()) else { return Incoming::Malformed };
    if icmp.msg_type() != Icmpv4Message::EchoRequest {
        return Incoming::OtherIcmp;
    }
    let ip = IpAddr::V4(repr.src_addr);
    match Icmpv4Repr::parse(&icmp, &checksums) {
        Ok(Icmpv4Repr::EchoRequest { ident, seq_no, data }) if is_host(ip) && is_one(mac) => {
            Incoming::EchoRequest(Echo { mac, ip, ident, seq_no, data })
        }
        _ => Incoming::Malformed,
    }
}

impl Link {
    pub(super) fn emit_arp_request(&self, buf: &mut [u8], own: Ipv4Addr, ip: Ipv4Addr) -> Option<usize> {
        let us = EthernetAddress(self.nonce.0);
        self.emit_arp(buf, EthernetAddress::BROADCAST, ArpOperation::Request, own, (us, ip))
    }

    pub(super) fn emit_arp_probe(&self, buf: &mut [u8], own: Ipv4Addr) -> Option<usize> {
        self.emit_arp_request(buf, Ipv4Addr::UNSPECIFIED, own)
    }

    pub(super) fn emit_arp_announcement(&self, buf: &mut [u8], own: Ipv4Addr) -> Option<usize> {
        self.emit_arp_request(buf, own, own)
    }

    /// To the host that asked; to everybody if it has our Ethernet address, which a switch would
    /// send back to us.
    pub(super) fn emit_arp_reply(
        &self,
        buf: &mut [u8],
        own: Ipv4Addr,
        mac: EthernetAddress,
        ip: Ipv4Addr,
    ) -> Option<usize> {
        if mac == self.mac {
            return self.emit_arp_announcement(buf, own);
        }
        self.emit_arp(buf, mac, ArpOperation::Reply, own, (mac, ip))
    }

    fn emit_arp(
        &self,
        buf: &mut [u8],
        dst: EthernetAddress,
        operation: ArpOperation,
        own: Ipv4Addr,
        (target_hardware_addr, target_protocol_addr): (EthernetAddress, Ipv4Addr),
    ) -> Option<usize> {
        let repr = ArpRepr::EthernetIpv4 {
            operation,
            source_hardware_addr: self.mac,
            source_protocol_addr: own,
            target_hardware_addr,
            target_protocol_addr,
        };
        let (payload, len) = self.emit_ethernet(buf, dst, EthernetProtocol::Arp, repr.buffer_len())?;
        repr.emit(&mut ArpPacket::new_unchecked(payload));
        Some(len)
    }

    pub(super) fn emit_echo_reply_v4(
        &self,
        buf: &mut [u8],
        own: Ipv4Addr,
        dst_addr: Ipv4Addr,
        echo: &Echo<'_>,
    ) -> Option<usize> {
        let checksums = ChecksumCapabilities::default();
        let icmp = Icmpv4Repr::EchoReply { ident: echo.ident, seq_no: echo.seq_no, data: echo.data };
        let ip = Ipv4Repr {
            src_addr: own,
            dst_addr,
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
}
