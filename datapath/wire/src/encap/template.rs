//! The encapsulation of a flow, prebuilt.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{Immutable, IntoBytes, Unaligned};

use super::raw::{self, Ipv4, Ipv6, Udp, Vlan};
use super::{Datagram, Ecn};
use crate::bytes;

/// Everything the encapsulation of a flow depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    /// Our MAC address.
    pub src_mac: [u8; 6],
    /// The next hop's MAC address.
    pub dst_mac: [u8; 6],
    /// 802.1Q TCI: VLAN identifier in the low 12 bits, priority in the upper 3.
    pub vlan: Option<u16>,
    /// IP source.
    pub src: IpAddr,
    /// IP destination, of the same family.
    pub dst: IpAddr,
    /// UDP source port, see [`entropy`](crate::entropy).
    pub src_port: u16,
    /// UDP destination port.
    pub dst_port: u16,
    /// Differentiated services code point, 6 bits.
    pub dscp: u8,
    /// ECN bits.
    pub ecn: Ecn,
    /// IPv4 TTL or IPv6 hop limit.
    pub ttl: u8,
}

/// Why a [`Flow`] has no [`Template`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TemplateError {
    /// One address is IPv4, the other IPv6.
    #[error("source {src} and destination {dst} are of different families")]
    Families {
        /// IP source.
        src: IpAddr,
        /// IP destination.
        dst: IpAddr,
    },
    /// DSCP has only 6 bits.
    #[error("DSCP {0} is above 63")]
    Dscp(u8),
}

/// What UDP adds to the transport length.
#[expect(clippy::cast_possible_truncation, reason = "8")]
const UDP: u16 = raw::UDP as u16;
/// What IPv4 and UDP add to it.
#[expect(clippy::cast_possible_truncation, reason = "28")]
const IPV4_UDP: u16 = (raw::IPV4 + raw::UDP) as u16;

const TAGGED: u8 = 1;
const V6: u8 = 2;

/// The Ethernet to UDP headers of a flow, compact: 56 bytes even for IPv6 with a VLAN tag, where the headers
/// themselves take 66. It stores what differs between flows, in wire order, and [`Template::emit`] writes the
/// constants in between.
///
/// IPv4 packets have DF set and identification 0 (an atomic datagram, RFC 6864); the UDP checksum is 0; the IPv6
/// flow label is 0, the UDP source port being the entropy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Template {
    /// Destination and source, as on the wire: copied whole.
    macs: [u8; 12],
    /// IPv4 addresses use the first 4 bytes.
    src: [u8; 16],
    dst: [u8; 16],
    src_port: U16,
    dst_port: U16,
    tci: U16,
    /// One's complement sum of the IPv4 header with total length and checksum zero.
    sum: u16,
    tos: u8,
    ttl: u8,
    shape: u8,
    len: u8,
}

const _: () = assert!(size_of::<Template>() == 56, "the template is part of the 256-byte QPC");

impl Template {
    /// Prebuilds the headers of `flow`.
    ///
    /// # Errors
    /// [`TemplateError`] if the addresses are of different families or the DSCP does not fit.
    pub fn new(flow: &Flow) -> Result<Self, TemplateError> {
        if flow.dscp > 63 {
            return Err(TemplateError::Dscp(flow.dscp));
        }
        let (src, dst, family) = match (flow.src, flow.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => (widen(src), widen(dst), 0),
            (IpAddr::V6(src), IpAddr::V6(dst)) => (src.octets(), dst.octets(), V6),
            (src, dst) => return Err(TemplateError::Families { src, dst }),
        };
        let mut template = Self {
            macs: join(flow.dst_mac, flow.src_mac),
            src,
            dst,
            src_port: U16::new(flow.src_port),
            dst_port: U16::new(flow.dst_port),
            tci: U16::new(flow.vlan.unwrap_or(0)),
            sum: 0,
            tos: flow.dscp << 2 | flow.ecn as u8,
            ttl: flow.ttl,
            shape: family | if flow.vlan.is_some() { TAGGED } else { 0 },
            len: 0,
        };
        let header = Ipv4 { total_len: U16::ZERO, checksum: U16::ZERO, ..template.ipv4(0) };
        template.sum = raw::fold(raw::ipv4_sum(&header));
        template.len = template.total_len();
        Ok(template)
    }

    #[expect(clippy::cast_possible_truncation, reason = "at most HEADER_LEN_MAX, 66")]
    fn total_len(&self) -> u8 {
        let ip = if self.is_v6() { raw::IPV6 } else { raw::IPV4 };
        (self.l3_offset() + ip + raw::UDP) as u8
    }

    #[inline]
    fn is_v6(&self) -> bool {
        self.shape & V6 != 0
    }

    #[inline]
    fn is_tagged(&self) -> bool {
        self.shape & TAGGED != 0
    }

    /// Bytes of the headers, Ethernet to UDP: 42, 46, 62 or 66. The BTH starts here.
    #[inline]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "headers are never empty")]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Where the IP header starts: 14 or 18. The ICRC covers from here.
    #[inline]
    #[must_use]
    pub fn l3_offset(&self) -> usize {
        if self.is_tagged() { raw::ETHERNET + raw::VLAN } else { raw::ETHERNET }
    }

    /// True if `datagram` comes from this flow's destination address to its source address, in the same VLAN: the
    /// address check of protocol.md 1.2. Equal addresses of two VLANs are two hosts.
    #[inline]
    #[must_use]
    pub fn is_answered_by(&self, datagram: &Datagram) -> bool {
        if datagram.vlan.unwrap_or(0) != self.vid() {
            return false;
        }
        match (datagram.src, datagram.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                !self.is_v6() && widen(src) == self.dst && widen(dst) == self.src
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                self.is_v6() && src.octets() == self.dst && dst.octets() == self.src
            }
            _ => false,
        }
    }

    /// VLAN identifier; 0: none, or a priority tag only.
    #[inline]
    fn vid(&self) -> u16 {
        if self.is_tagged() { self.tci.get() & raw::VID } else { 0 }
    }

    /// The same flow from another UDP source port.
    #[inline]
    #[must_use]
    pub const fn with_src_port(self, port: u16) -> Self {
        Self { src_port: U16::new(port), ..self }
    }

    /// The flow this template was built from.
    #[must_use]
    pub fn flow(&self) -> Flow {
        let address = |octets: [u8; 16]| match self.is_v6() {
            true => IpAddr::V6(Ipv6Addr::from(octets)),
            false => IpAddr::V4(Ipv4Addr::from(narrow(octets))),
        };
        let (dst_mac, src_mac) = split(self.macs);
        Flow {
            src_mac,
            dst_mac,
            vlan: self.is_tagged().then_some(self.tci.get()),
            src: address(self.src),
            dst: address(self.dst),
            src_port: self.src_port.get(),
            dst_port: self.dst_port.get(),
            dscp: self.tos >> 2,
            ecn: Ecn::of_tos(self.tos),
            ttl: self.ttl,
        }
    }

    /// Writes the headers to the front of `frame`, for a transport packet (BTH to ICRC) of `transport_len` bytes
    /// that follows at [`Template::len`]. `transport_len` must not exceed 65,507; its low 16 bits count.
    ///
    /// # Panics
    /// If `frame` is shorter than [`Template::len`].
    #[inline]
    #[track_caller]
    pub fn emit(&self, frame: &mut [u8], transport_len: usize) {
        debug_assert!(transport_len <= usize::from(u16::MAX) - raw::IPV4 - raw::UDP, "{transport_len} bytes");
        #[expect(clippy::cast_possible_truncation, reason = "stated above")]
        let transport_len = transport_len as u16;
        let written = match (self.is_tagged(), self.is_v6()) {
            (false, false) => put(frame, self.untagged(), self.ipv4(transport_len), self.udp(transport_len)),
            (false, true) => put(frame, self.untagged(), self.ipv6(transport_len), self.udp(transport_len)),
            (true, false) => put(frame, self.tagged(), self.ipv4(transport_len), self.udp(transport_len)),
            (true, true) => put(frame, self.tagged(), self.ipv6(transport_len), self.udp(transport_len)),
        };
        if !written {
            bytes::short("encapsulation");
        }
    }

    #[inline]
    fn untagged(&self) -> Link {
        let ethertype = if self.is_v6() { raw::ETHERTYPE_IPV6 } else { raw::ETHERTYPE_IPV4 };
        Link { macs: self.macs, ethertype: U16::new(ethertype) }
    }

    #[inline]
    fn tagged(&self) -> Tagged {
        let ethernet = self.untagged();
        Tagged {
            ethernet: Link { ethertype: U16::new(raw::ETHERTYPE_VLAN), ..ethernet },
            vlan: Vlan { tci: self.tci, ethertype: ethernet.ethertype },
        }
    }

    /// The IPv4 header; its checksum continues from the precomputed sum of everything but the length.
    #[inline]
    fn ipv4(&self, transport_len: u16) -> Ipv4 {
        let total_len = transport_len.wrapping_add(IPV4_UDP);
        Ipv4 {
            version_ihl: raw::IPV4_VERSION_IHL,
            tos: self.tos,
            total_len: U16::new(total_len),
            id: U16::ZERO,
            flags_fragment: U16::new(raw::IPV4_DONT_FRAGMENT),
            ttl: self.ttl,
            protocol: raw::PROTOCOL_UDP,
            checksum: U16::new(!raw::fold(u64::from(self.sum) + u64::from(total_len))),
            src: narrow(self.src),
            dst: narrow(self.dst),
        }
    }

    #[inline]
    fn ipv6(&self, transport_len: u16) -> Ipv6 {
        Ipv6 {
            version_class_flow: U32::new(6 << 28 | u32::from(self.tos) << 20),
            payload_len: U16::new(transport_len.wrapping_add(UDP)),
            next_header: raw::PROTOCOL_UDP,
            hop_limit: self.ttl,
            src: self.src,
            dst: self.dst,
        }
    }

    #[inline]
    fn udp(&self, transport_len: u16) -> Udp {
        Udp {
            src_port: self.src_port,
            dst_port: self.dst_port,
            len: U16::new(transport_len.wrapping_add(UDP)),
            checksum: U16::ZERO,
        }
    }
}

/// Ethernet, with the addresses in one piece: six bytes beside six would go through the stack.
#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct Link {
    macs: [u8; 12],
    ethertype: U16,
}

/// Ethernet with a VLAN tag.
#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct Tagged {
    ethernet: Link,
    vlan: Vlan,
}

/// The whole encapsulation, so that one length check and a run of stores write it.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Stack<L2, L3> {
    l2: L2,
    l3: L3,
    udp: Udp,
}

#[inline]
fn put<L2, L3>(frame: &mut [u8], l2: L2, l3: L3, udp: Udp) -> bool
where
    L2: IntoBytes + Immutable + Unaligned,
    L3: IntoBytes + Immutable + Unaligned,
{
    bytes::write(&Stack { l2, l3, udp }, frame)
}

/// Two Ethernet addresses, one after the other.
fn join(first: [u8; 6], second: [u8; 6]) -> [u8; 12] {
    let mut both = [0; 12];
    both[..6].copy_from_slice(&first);
    both[6..].copy_from_slice(&second);
    both
}

/// The two of [`join`].
fn split(both: [u8; 12]) -> ([u8; 6], [u8; 6]) {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = both;
    ([a, b, c, d, e, f], [g, h, i, j, k, l])
}

/// An IPv4 address in the first four bytes of sixteen.
#[inline]
fn widen(address: Ipv4Addr) -> [u8; 16] {
    let [a, b, c, d] = address.octets();
    [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
}

/// The first four bytes.
#[inline]
fn narrow(octets: [u8; 16]) -> [u8; 4] {
    let [a, b, c, d, ..] = octets;
    [a, b, c, d]
}
