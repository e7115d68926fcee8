//! IPv6: neighbor discovery (RFC 4861) and ICMPv6 echo. What a received packet of discovery must be
//! is that RFC's 7.1.

use super::{Cast, Discovery, DiscoveryKind, Echo, Incoming, Link, Nonce, is_host, is_one};
use core::net::{IpAddr, Ipv6Addr};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetAddress, EthernetProtocol, Icmpv6Message, Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv6Packet,
    Ipv6Repr, NdiscNeighborFlags, NdiscRepr, RawHardwareAddress,
};
use wire::encap;

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 1);
/// That of packets of discovery, which nobody off the link can have.
const HOP_LIMIT_ON_LINK: u8 = 255;

/// Type of the option that holds a nonce (RFC 7527); its length, in units of 8 bytes, is 1.
const OPTION_NONCE: u8 = 14;
/// Bytes of a solicitation or an advertisement before its options.
const OPTIONS: usize = 24;

/// The multicast address of those hosts whose addresses end as `ip` does, to which questions for it
/// go.
const fn solicited_node(ip: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = ip.octets();
    Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 1, 0xFF00 | a as u16, u16::from_be_bytes([b, c]))
}

/// The Ethernet address of a multicast address.
const fn group_mac(group: Ipv6Addr) -> EthernetAddress {
    EthernetAddress(encap::group_mac(IpAddr::V6(group)))
}

/// The multicast Ethernet addresses that a host with the address `own` listens to.
pub const fn multicast_macs(own: Ipv6Addr) -> [[u8; 6]; 2] {
    [group_mac(solicited_node(own)).0, group_mac(ALL_NODES).0]
}

pub fn parse_packet(own: Ipv6Addr, cast: Cast, mac: EthernetAddress, payload: &[u8]) -> Incoming<'_> {
    let Ok(packet) = Ipv6Packet::new_checked(payload) else { return Incoming::Other };
    let (src, dst) = (packet.src_addr(), packet.dst_addr());
    let to_group = dst == solicited_node(own) || dst == ALL_NODES;
    if packet.version() != 6 || packet.next_header() != IpProtocol::Icmpv6 || !(dst == own || to_group) {
        return Incoming::Other;
    }
    let Ok(icmp) = Icmpv6Packet::new_checked(packet.payload()) else { return Incoming::Malformed };
    let discovery = matches!(icmp.msg_type(), Icmpv6Message::NeighborSolicit | Icmpv6Message::NeighborAdvert);
    let echo = icmp.msg_type() == Icmpv6Message::EchoRequest;
    if !discovery && (to_group || cast == Cast::Group) {
        return Incoming::Other;
    }
    if !discovery && !echo {
        return Incoming::OtherIcmp;
    }
    if icmp.msg_code() != 0 || !is_one(mac) {
        return Incoming::Malformed;
    }
    match Icmpv6Repr::parse(&src, &dst, &icmp, &ChecksumCapabilities::default()) {
        Ok(Icmpv6Repr::EchoRequest { ident, seq_no, data }) if is_host(IpAddr::V6(src)) => {
            Incoming::EchoRequest(Echo { mac, ip: IpAddr::V6(src), ident, seq_no, data })
        }
        Ok(Icmpv6Repr::Ndisc(repr)) if packet.hop_limit() == HOP_LIMIT_ON_LINK => {
            let said = match repr {
                NdiscRepr::NeighborSolicit { target_addr, lladdr } => solicitation(
                    own,
                    src,
                    dst,
                    target_addr,
                    lladdr.map_or(Some(mac), ethernet),
                    lladdr.is_some(),
                ),
                NdiscRepr::NeighborAdvert { flags, target_addr, lladdr } => {
                    advertisement(dst, target_addr, flags, lladdr.and_then(ethernet))
                }
                _ => None,
            };
            let nonce = nonce(packet.payload());
            said.map_or(Incoming::Malformed, |said| Incoming::Discovery(Discovery { nonce, ..said }))
        }
        _ => Incoming::Malformed,
    }
}

/// Who asks for `target`. One that has no address yet asks whether this one is free.
fn solicitation(
    own: Ipv6Addr,
    src: Ipv6Addr,
    dst: Ipv6Addr,
    target: Ipv6Addr,
    mac: Option<EthernetAddress>,
    has_option: bool,
) -> Option<Discovery> {
    let probe = src.is_unspecified() && !has_option && dst == solicited_node(target);
    if target.is_multicast() || !(probe || is_host(IpAddr::V6(src))) {
        return None;
    }
    Some(Discovery {
        kind: DiscoveryKind::Request,
        mac: mac?,
        ip: IpAddr::V6(src),
        to_us: target == own,
        overrides: true,
        nonce: None,
    })
}

/// Who has `target`. One that does not say its Ethernet address answers a question that we never
/// ask.
fn advertisement(
    dst: Ipv6Addr,
    target: Ipv6Addr,
    flags: NdiscNeighborFlags,
    mac: Option<EthernetAddress>,
) -> Option<Discovery> {
    if !is_host(IpAddr::V6(target)) || (dst.is_multicast() && flags.contains(NdiscNeighborFlags::SOLICITED)) {
        return None;
    }
    Some(Discovery {
        kind: DiscoveryKind::Reply,
        mac: mac?,
        ip: IpAddr::V6(target),
        to_us: !dst.is_multicast(),
        overrides: flags.contains(NdiscNeighborFlags::OVERRIDE),
        nonce: None,
    })
}

/// The nonce of a solicitation or an advertisement.
fn nonce(icmp: &[u8]) -> Option<Nonce> {
    let mut options = icmp.get(OPTIONS..)?;
    while let [kind, units, rest @ ..] = options {
        if (*kind, *units) == (OPTION_NONCE, 1) {
            return rest.first_chunk().copied().map(Nonce);
        }
        options = options.get(usize::from((*units).max(1)) * 8..)?;
    }
    None
}

/// The Ethernet address in an option.
fn ethernet(raw: RawHardwareAddress) -> Option<EthernetAddress> {
    let mac = raw.as_bytes().try_into().ok().map(EthernetAddress)?;
    is_one(mac).then_some(mac)
}

impl Link {
    pub(super) fn emit_solicitation(&self, buf: &mut [u8], own: Ipv6Addr, target: Ipv6Addr) -> Option<usize> {
        let repr = NdiscRepr::NeighborSolicit { target_addr: target, lladdr: Some(self.mac.into()) };
        let group = solicited_node(target);
        self.emit_discovery(buf, group_mac(group), (own, group), &[], repr)
    }

    /// Whether our own address is free.
    pub(super) fn emit_own_solicitation(&self, buf: &mut [u8], own: Ipv6Addr) -> Option<usize> {
        let repr = NdiscRepr::NeighborSolicit { target_addr: own, lladdr: None };
        let group = solicited_node(own);
        let flow = (Ipv6Addr::UNSPECIFIED, group);
        self.emit_discovery(
            buf,
            group_mac(group),
            flow,
            self.nonce_option().as_ref().map_or(&[][..], |option| &option[..]),
            repr,
        )
    }

    fn nonce_option(&self) -> Option<[u8; 8]> {
        let [a, b, c, d, e, f] = self.nonce.0;
        (!self.nonce.is_of(Nonce::NONE)).then_some([OPTION_NONCE, 1, a, b, c, d, e, f])
    }

    /// To the host that asked; to everybody if that is one which is about to take our address.
    pub(super) fn emit_advertisement(
        &self,
        buf: &mut [u8],
        own: Ipv6Addr,
        mac: EthernetAddress,
        ip: Ipv6Addr,
    ) -> Option<usize> {
        let option = self.nonce_option();
        let (mac, dst, solicited, option) = if ip.is_unspecified() {
            (
                group_mac(ALL_NODES),
                ALL_NODES,
                NdiscNeighborFlags::empty(),
                option.as_ref().map_or(&[][..], |option| &option[..]),
            )
        } else {
            (mac, ip, NdiscNeighborFlags::SOLICITED, &[][..])
        };
        let repr = NdiscRepr::NeighborAdvert {
            flags: NdiscNeighborFlags::OVERRIDE | solicited,
            target_addr: own,
            lladdr: Some(self.mac.into()),
        };
        self.emit_discovery(buf, mac, (own, dst), option, repr)
    }

    pub(super) fn emit_echo_reply_v6(
        &self,
        buf: &mut [u8],
        own: Ipv6Addr,
        dst: Ipv6Addr,
        echo: &Echo<'_>,
    ) -> Option<usize> {
        let repr = Icmpv6Repr::EchoReply { ident: echo.ident, seq_no: echo.seq_no, data: echo.data };
        self.emit_icmp(buf, echo.mac, (own, dst), 64, (&repr, &[]))
    }

    fn emit_discovery(
        &self,
        buf: &mut [u8],
        mac: EthernetAddress,
        flow: (Ipv6Addr, Ipv6Addr),
        option: &[u8],
        repr: NdiscRepr<'_>,
    ) -> Option<usize> {
        self.emit_icmp(buf, mac, flow, HOP_LIMIT_ON_LINK, (&Icmpv6Repr::Ndisc(repr), option))
    }

    /// The option goes behind what smoltcp writes.
    fn emit_icmp(
        &self,
        buf: &mut [u8],
        mac: EthernetAddress,
        (src_addr, dst_addr): (Ipv6Addr, Ipv6Addr),
        hop_limit: u8,
        (icmp, option): (&Icmpv6Repr<'_>, &[u8]),
    ) -> Option<usize> {
        let payload_len = icmp.buffer_len() + option.len();
        let ip = Ipv6Repr { src_addr, dst_addr, next_header: IpProtocol::Icmpv6, payload_len, hop_limit };
        let packet_len = ip.buffer_len() + payload_len;
        let (payload, len) = self.emit_ethernet(buf, mac, EthernetProtocol::Ipv6, packet_len)?;
        let mut packet = Ipv6Packet::new_unchecked(payload);
        ip.emit(&mut packet);
        let body = packet.payload_mut();
        body[icmp.buffer_len()..].copy_from_slice(option);
        let mut body = Icmpv6Packet::new_unchecked(body);
        icmp.emit(&src_addr, &dst_addr, &mut body, &ChecksumCapabilities::default());
        Some(len)
    }
}
