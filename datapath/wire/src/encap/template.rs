//! The encapsulation of a flow, prebuilt.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::raw::{self, Ipv4, Ipv6, Udp, Vlan};
use super::{CommonFrame, Datagram, Ecn};
use crate::head::{DATAGRAM, words};
use crate::{Bth, Head, Meta, Reth, Ssnw, bytes};

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
/// Bytes of an IPv4 header.
#[expect(clippy::cast_possible_truncation, reason = "20")]
const IPV4: u16 = raw::IPV4 as u16;
/// What IPv4 and UDP add to it.
#[expect(clippy::cast_possible_truncation, reason = "28")]
const IPV4_UDP: u16 = (raw::IPV4 + raw::UDP) as u16;

const TAGGED: u8 = 1;
const V6: u8 = 2;

/// Room for the headers of a flow, stored by family.
const STORED: usize = size_of::<CompactV6>();
/// The longest link header.
const LINK_MAX: usize = raw::ETHERNET + raw::VLAN;

/// The Ethernet to UDP headers of a flow in 56 bytes. Those of IPv4 are stored as they go out, with
/// lengths and checksum zero, and [`Template::emit`] copies them; those of IPv6, 62 or 66 bytes,
/// are put together from what differs between flows.
///
/// IPv4 packets have DF set and identification 0 (an atomic datagram, RFC 6864); the UDP checksum
/// is 0; the IPv6 flow label is 0, the UDP source port being the entropy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Template {
    /// [`StoredV4`] or [`CompactV6`].
    stored: [u8; STORED],
    /// One's complement sum of the IPv4 header with total length and checksum zero.
    sum: u16,
    shape: u8,
    len: u8,
}

/// The headers of an IPv4 flow as they go out, lengths and checksum zero.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct StoredV4 {
    /// Ethernet, at the end.
    l2: [u8; LINK_MAX],
    l3: Ipv4,
    udp: Udp,
    unused: [u8; 6],
}

/// What differs between IPv6 flows.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct CompactV6 {
    /// Destination and source, as on the wire.
    macs: [u8; 12],
    src: [u8; 16],
    dst: [u8; 16],
    src_port: U16,
    dst_port: U16,
    tci: U16,
    tos: u8,
    hop_limit: u8,
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
        let family = match (flow.src, flow.dst) {
            (IpAddr::V4(_), IpAddr::V4(_)) => 0,
            (IpAddr::V6(_), IpAddr::V6(_)) => V6,
            (src, dst) => return Err(TemplateError::Families { src, dst }),
        };
        let shape = family | if flow.vlan.is_some() { TAGGED } else { 0 };
        let mut template = Self { stored: [0; STORED], sum: 0, shape, len: 0 };
        template.len = template.total_len();
        match (flow.src, flow.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => template.store_v4(flow, src, dst),
            (IpAddr::V6(src), IpAddr::V6(dst)) => template.store_v6(flow, src, dst),
            _ => {}
        }
        Ok(template)
    }

    fn store_v4(&mut self, flow: &Flow, src: Ipv4Addr, dst: Ipv4Addr) {
        let l3 = Ipv4 {
            version_ihl: raw::IPV4_VERSION_IHL,
            tos: tos_of(flow),
            total_len: U16::ZERO,
            id: U16::ZERO,
            flags_fragment: U16::new(raw::IPV4_DONT_FRAGMENT),
            ttl: flow.ttl,
            protocol: raw::PROTOCOL_UDP,
            checksum: U16::ZERO,
            src: src.octets(),
            dst: dst.octets(),
        };
        self.sum = raw::fold(raw::ipv4_sum(&l3));
        let macs = join(flow.dst_mac, flow.src_mac);
        let link = Link { macs, ethertype: U16::new(raw::ETHERTYPE_IPV4) };
        let at = LINK_MAX - self.l3_offset();
        let stored = self.v4_mut();
        stored.l3 = l3;
        stored.udp = udp(U16::new(flow.src_port), U16::new(flow.dst_port), 0);
        let fits = match flow.vlan {
            None => bytes::write(&link, &mut stored.l2[at..]),
            Some(tci) => bytes::write(&link.tagged(U16::new(tci)), &mut stored.l2[at..]),
        };
        debug_assert!(fits, "there is room for the longest");
    }

    fn store_v6(&mut self, flow: &Flow, src: Ipv6Addr, dst: Ipv6Addr) {
        *self.v6_mut() = CompactV6 {
            macs: join(flow.dst_mac, flow.src_mac),
            src: src.octets(),
            dst: dst.octets(),
            src_port: U16::new(flow.src_port),
            dst_port: U16::new(flow.dst_port),
            tci: U16::new(flow.vlan.unwrap_or(0)),
            tos: tos_of(flow),
            hop_limit: flow.ttl,
        };
    }

    #[inline]
    fn v4(&self) -> &StoredV4 {
        zerocopy::transmute_ref!(&self.stored)
    }

    fn v4_mut(&mut self) -> &mut StoredV4 {
        zerocopy::transmute_mut!(&mut self.stored)
    }

    #[inline]
    fn v6(&self) -> &CompactV6 {
        zerocopy::transmute_ref!(&self.stored)
    }

    fn v6_mut(&mut self) -> &mut CompactV6 {
        zerocopy::transmute_mut!(&mut self.stored)
    }

    #[expect(clippy::cast_possible_truncation, reason = "at most HEADER_LEN_MAX, 66")]
    fn total_len(&self) -> u8 {
        let ip = if self.is_v6() { raw::IPV6 } else { raw::IPV4 };
        (self.l3_offset() + ip + raw::UDP) as u8
    }

    /// Returns `true` if it is of IPv6.
    #[inline]
    #[must_use]
    pub fn is_v6(&self) -> bool {
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

    /// True if `datagram` comes from this flow's destination address to its source address, in the
    /// same VLAN: the address check of protocol.md 1.2. Equal addresses of two VLANs are two hosts.
    #[inline]
    #[must_use]
    pub fn is_answered_by(&self, datagram: &Datagram) -> bool {
        if datagram.vlan.unwrap_or(0) != self.vid() {
            return false;
        }
        match (datagram.src, datagram.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let l3 = &self.v4().l3;
                !self.is_v6() && src.octets() == l3.dst && dst.octets() == l3.src
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let stored = self.v6();
                self.is_v6() && src.octets() == stored.dst && dst.octets() == stored.src
            }
            _ => false,
        }
    }

    /// True if a frame without a VLAN tag comes from the destination of this flow to its source.
    #[inline]
    #[must_use]
    pub fn is_answered_by_common(&self, frame: &CommonFrame<'_>) -> bool {
        let ((src, dst), l3) = (frame.addresses(), &self.v4().l3);
        !self.is_v6() && self.vid() == 0 && *src == l3.dst && *dst == l3.src
    }

    /// VLAN identifier; 0: none, or a priority tag only.
    #[inline]
    fn vid(&self) -> u16 {
        if self.is_tagged() { self.tci().get() & raw::VID } else { 0 }
    }

    /// TCI of a tagged flow.
    #[inline]
    fn tci(&self) -> U16 {
        if self.is_v6() { self.v6().tci } else { Tagged::from_stored(&self.v4().l2).vlan.tci }
    }

    /// This flow from another UDP source port.
    #[inline]
    #[must_use]
    pub fn with_src_port(mut self, port: u16) -> Self {
        let port = U16::new(port);
        if self.is_v6() {
            self.v6_mut().src_port = port
        } else {
            self.v4_mut().udp.src_port = port
        }
        self
    }

    /// The flow this template was built from.
    #[must_use]
    pub fn flow(&self) -> Flow {
        let (macs, src, dst, ports, tos, ttl) = if self.is_v6() {
            let v6 = self.v6();
            let (src, dst) = (Ipv6Addr::from(v6.src).into(), Ipv6Addr::from(v6.dst).into());
            (v6.macs, src, dst, (v6.src_port, v6.dst_port), v6.tos, v6.hop_limit)
        } else {
            let StoredV4 { l2, l3, udp, .. } = self.v4();
            let (src, dst) = (Ipv4Addr::from(l3.src).into(), Ipv4Addr::from(l3.dst).into());
            let macs = Tagged::from_stored(l2).ethernet.macs;
            let macs = if self.is_tagged() { macs } else { Link::from_stored(l2).macs };
            (macs, src, dst, (udp.src_port, udp.dst_port), l3.tos, l3.ttl)
        };
        let (dst_mac, src_mac) = split(macs);
        Flow {
            src_mac,
            dst_mac,
            vlan: self.is_tagged().then_some(self.tci().get()),
            src,
            dst,
            src_port: ports.0.get(),
            dst_port: ports.1.get(),
            dscp: tos >> 2,
            ecn: Ecn::of_tos(tos),
            ttl,
        }
    }

    /// Writes the headers to the front of `frame`, for a transport packet (BTH to ICRC) of
    /// `transport_len` bytes that follows at [`Template::len`]. `transport_len` must not exceed
    /// 65,507; its low 16 bits count.
    ///
    /// # Panics
    /// If `frame` is shorter than [`Template::len`].
    #[inline(always)]
    #[track_caller]
    pub fn emit(&self, frame: &mut [u8], transport_len: usize) {
        debug_assert!(transport_len <= usize::from(u16::MAX) - raw::IPV4 - raw::UDP, "{transport_len} bytes");
        #[expect(clippy::cast_possible_truncation, reason = "stated above")]
        let transport_len = transport_len as u16;
        let written = match (self.is_tagged(), self.is_v6()) {
            (false, false) => self.put_v4::<Link>(frame, transport_len),
            (true, false) => self.put_v4::<Tagged>(frame, transport_len),
            (false, true) => self.put_v6(frame, self.link(), transport_len),
            (true, true) => self.put_v6(frame, self.link().tagged(self.tci()), transport_len),
        };
        if !written {
            bytes::short("encapsulation");
        }
    }

    /// Bytes of the headers that [`Template::head_of_write`] and [`Template::head_of_send`] do not
    /// have: the link's.
    ///
    /// # Panics
    /// If `frame` is shorter.
    #[inline(always)]
    #[track_caller]
    pub fn emit_link(&self, frame: &mut [u8]) {
        let l2 = &self.v4().l2;
        let written = match (self.is_tagged(), self.is_v6()) {
            (false, false) => bytes::write(Link::from_stored(l2), frame),
            (true, false) => bytes::write(Tagged::from_stored(l2), frame),
            (false, true) => bytes::write(&self.link(), frame),
            (true, true) => bytes::write(&self.link().tagged(self.tci()), frame),
        };
        if !written {
            bytes::short("link header");
        }
    }

    /// All headers but the link's of a WRITE without immediate data in the SRNIC dialect, behind
    /// which `body` bytes follow: payload, pad, ICRC. At most 65,000; the low 16 bits count. `None`
    /// if the flow is one of IPv6, whose headers are longer.
    #[inline(always)]
    #[must_use]
    pub fn head_of_write(&self, body: usize, bth: &Bth, reth: &Reth, meta: &Meta) -> Option<Head> {
        Some(Head::write(self.datagram(Head::WRITE_LEN + body)?, bth, reth, meta))
    }

    /// The headers of a SEND of this flow with `body` bytes behind them, in registers. `None` if
    /// the flow is one of IPv6, whose headers are longer.
    #[inline(always)]
    #[must_use]
    pub fn head_of_send(&self, body: usize, bth: &Bth, meta: &Meta, ssnw: &Ssnw) -> Option<Head> {
        Some(Head::send(self.datagram(Head::SEND_LEN + body)?, bth, meta, ssnw))
    }

    /// IPv4 and UDP as words in the order of memory, of a datagram of `total_len` bytes from there
    /// on.
    #[inline(always)]
    fn datagram(&self, total_len: usize) -> Option<[u32; DATAGRAM]> {
        if self.is_v6() {
            return None;
        }
        let StoredV4 { l3, udp, .. } = self.v4();
        #[expect(clippy::cast_possible_truncation, reason = "stated above")]
        let total_len = total_len as u16;
        let [first, id, ttl, src, dst] = words(zerocopy::transmute!(*l3));
        let [ports, _] = words(zerocopy::transmute!(*udp));
        let second = |[high, low]: [u8; 2]| u32::from_ne_bytes([0, 0, high, low]);
        let [high, low] = total_len.wrapping_sub(IPV4).to_be_bytes();
        Some([
            first | second(total_len.to_be_bytes()),
            id,
            ttl | second(self.checksum(total_len).to_be_bytes()),
            src,
            dst,
            ports,
            u32::from_ne_bytes([high, low, 0, 0]),
        ])
    }

    /// The IPv4 header's, of a datagram of that length: it continues from the sum of everything
    /// else.
    #[inline(always)]
    fn checksum(&self, total_len: u16) -> u16 {
        !raw::fold(u64::from(self.sum) + u64::from(total_len))
    }

    /// The stored headers, with their lengths.
    #[inline(always)]
    fn put_v4<L2: Stored>(&self, frame: &mut [u8], transport_len: u16) -> bool {
        let Ok((headers, _)) = Stack::<L2, Ipv4>::mut_from_prefix(frame) else { return false };
        let stored = self.v4();
        let total_len = transport_len.wrapping_add(IPV4_UDP);
        // One by one: as one value they would go through the stack.
        headers.l2 = *L2::from_stored(&stored.l2);
        headers.l3 = stored.l3;
        headers.udp = stored.udp;
        headers.l3.total_len = U16::new(total_len);
        headers.l3.checksum = U16::new(self.checksum(total_len));
        headers.udp.len = U16::new(transport_len.wrapping_add(UDP));
        true
    }

    fn put_v6<L2: IntoBytes + Immutable + Unaligned>(
        &self,
        frame: &mut [u8],
        l2: L2,
        transport_len: u16,
    ) -> bool {
        let stored = self.v6();
        let l3 = Ipv6 {
            version_class_flow: U32::new(6 << 28 | u32::from(stored.tos) << 20),
            payload_len: U16::new(transport_len.wrapping_add(UDP)),
            next_header: raw::PROTOCOL_UDP,
            hop_limit: stored.hop_limit,
            src: stored.src,
            dst: stored.dst,
        };
        let udp = udp(stored.src_port, stored.dst_port, transport_len.wrapping_add(UDP));
        bytes::write(&Stack { l2, l3, udp }, frame)
    }

    /// The Ethernet header of an IPv6 flow.
    #[inline]
    fn link(&self) -> Link {
        Link { macs: self.v6().macs, ethertype: U16::new(raw::ETHERTYPE_IPV6) }
    }
}

/// ToS or traffic class: DSCP and ECN.
const fn tos_of(flow: &Flow) -> u8 {
    flow.dscp << 2 | flow.ecn as u8
}

#[inline]
fn udp(src_port: U16, dst_port: U16, len: u16) -> Udp {
    Udp { src_port, dst_port, len: U16::new(len), checksum: U16::ZERO }
}

/// Ethernet, with the addresses in one piece: six bytes beside six would go through the stack.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Link {
    macs: [u8; 12],
    ethertype: U16,
}

impl Link {
    /// This link header with a VLAN tag.
    #[inline]
    fn tagged(self, tci: U16) -> Tagged {
        let ethernet = Self { ethertype: U16::new(raw::ETHERTYPE_VLAN), ..self };
        Tagged { ethernet, vlan: Vlan { tci, ethertype: self.ethertype } }
    }
}

/// Ethernet with a VLAN tag.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Tagged {
    ethernet: Link,
    vlan: Vlan,
}

/// Where it stands in [`StoredV4::l2`].
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Room {
    unused: [u8; raw::VLAN],
    link: Link,
}

/// A link header as [`StoredV4`] has it.
trait Stored: Copy + FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned {
    fn from_stored(l2: &[u8; LINK_MAX]) -> &Self;
}

impl Stored for Tagged {
    #[inline]
    fn from_stored(l2: &[u8; LINK_MAX]) -> &Self {
        zerocopy::transmute_ref!(l2)
    }
}

impl Stored for Link {
    #[inline]
    fn from_stored(l2: &[u8; LINK_MAX]) -> &Self {
        let room: &Room = zerocopy::transmute_ref!(l2);
        &room.link
    }
}

/// The whole encapsulation, so that one length check and a run of stores write it.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Stack<L2, L3> {
    l2: L2,
    l3: L3,
    udp: Udp,
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
