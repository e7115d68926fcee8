//! Finding the transport packet in a received frame.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::Range;

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::Ecn;
use super::raw::{self, Ethernet, Ipv4, Ipv6, Udp, Vlan};
use crate::RxFrame;

/// Why a frame holds no RoCEv2 datagram for us.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EncapError {
    /// Another protocol or another UDP port: not a fault, but for the neighbor module.
    #[error("not RoCEv2")]
    NotRoce,
    /// The frame ends inside a header.
    #[error("frame of {len} bytes ends inside its headers")]
    Truncated {
        /// Bytes of the frame.
        len: usize,
    },
    /// IP and UDP lengths contradict each other or exceed the frame.
    #[error("length {found} in a header where {room} bytes were expected")]
    Length {
        /// The length a header states.
        found: u16,
        /// What it should be, or at most.
        room: usize,
    },
    /// The IP packet is a fragment.
    #[error("IP fragment")]
    Fragment,
    /// The IPv4 header has options, or a length below five words.
    #[error("IPv4 header of {words} words")]
    Options {
        /// The header length field.
        words: u8,
    },
    /// The IP version contradicts the ethertype.
    #[error("IP version {0}")]
    Version(u8),
    /// The IPv4 header checksum is wrong.
    #[error("IPv4 header checksum")]
    Checksum,
}

/// A RoCEv2 datagram found in an Ethernet frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Where the IP header starts in the frame; the ICRC covers from here.
    pub l3_offset: usize,
    /// BTH to ICRC inclusive, as indexes into the frame.
    pub transport: Range<usize>,
    /// IP source.
    pub src: IpAddr,
    /// IP destination.
    pub dst: IpAddr,
    /// UDP source port.
    pub src_port: u16,
    /// ECN bits.
    pub ecn: Ecn,
    /// VLAN identifier, 12 bits. A priority tag (identifier 0) counts as none.
    pub vlan: Option<u16>,
    /// Ethernet source.
    pub src_mac: [u8; 6],
    /// Ethernet destination.
    pub dst_mac: [u8; 6],
}

/// What the IP header says.
struct Network {
    udp_offset: usize,
    /// Bytes after the IP header that belong to the packet.
    len: usize,
    src: IpAddr,
    dst: IpAddr,
    ecn: Ecn,
}

impl Datagram {
    /// Finds the datagram to UDP port `udp_port` in `frame`: Ethernet, at most one 802.1Q tag, IPv4
    /// without options or IPv6 without extension headers, UDP. Bytes after the IP length (Ethernet
    /// padding) are allowed. The UDP checksum is not looked at: the ICRC covers more, and better.
    ///
    /// # Errors
    /// [`EncapError::NotRoce`] for what the neighbor module should see; any other error is a
    /// counted drop.
    #[inline(always)]
    pub fn parse(frame: &[u8], udp_port: u16) -> Result<Self, EncapError> {
        Self::in_frame(RxFrame::new(frame), udp_port)
    }

    /// As [`Datagram::parse`], in a frame whose bytes behind the headers may change meanwhile.
    ///
    /// # Errors
    /// As [`Datagram::parse`].
    #[inline(always)]
    pub fn in_frame(frame: RxFrame<'_>, udp_port: u16) -> Result<Self, EncapError> {
        let ethernet: &Ethernet = header(frame, 0)?;
        let mut l3_offset = raw::ETHERNET;
        let mut ethertype = ethernet.ethertype.get();
        let mut vlan = None;
        if ethertype == raw::ETHERTYPE_VLAN {
            let tag: &Vlan = header(frame, l3_offset)?;
            l3_offset += raw::VLAN;
            ethertype = tag.ethertype.get();
            vlan = Some(tag.tci.get() & raw::VID).filter(|&vid| vid != 0);
        }
        let network = match ethertype {
            raw::ETHERTYPE_IPV4 => ipv4(frame, l3_offset)?,
            raw::ETHERTYPE_IPV6 => ipv6(frame, l3_offset)?,
            _ => return Err(EncapError::NotRoce),
        };
        let udp: &Udp = header(frame, network.udp_offset)?;
        if udp.dst_port.get() != udp_port {
            return Err(EncapError::NotRoce);
        }
        if usize::from(udp.len.get()) != network.len || network.len < raw::UDP {
            return Err(EncapError::Length { found: udp.len.get(), room: network.len });
        }
        Ok(Self {
            l3_offset,
            transport: network.udp_offset + raw::UDP..network.udp_offset + network.len,
            src: network.src,
            dst: network.dst,
            src_port: udp.src_port.get(),
            ecn: network.ecn,
            vlan,
            src_mac: ethernet.src,
            dst_mac: ethernet.dst,
        })
    }
}

/// The header at `offset`.
#[inline]
fn header<T>(frame: RxFrame<'_>, offset: usize) -> Result<&T, EncapError>
where
    T: FromBytes + Immutable + KnownLayout + Unaligned,
{
    let found = frame.head().get(offset..).and_then(|rest| T::ref_from_prefix(rest).ok());
    found.map(|(header, _)| header).ok_or(EncapError::Truncated { len: frame.len() })
}

/// Checks that `found` bytes, of them at least `header`, fit in `room`.
#[inline]
fn fits(found: u16, header: usize, room: usize) -> Result<usize, EncapError> {
    let len = usize::from(found);
    if len < header || len > room { Err(EncapError::Length { found, room }) } else { Ok(len) }
}

#[inline]
fn ipv4(frame: RxFrame<'_>, offset: usize) -> Result<Network, EncapError> {
    let ip: &Ipv4 = header(frame, offset)?;
    if ip.version_ihl >> 4 != 4 {
        return Err(EncapError::Version(ip.version_ihl >> 4));
    }
    if ip.protocol != raw::PROTOCOL_UDP {
        return Err(EncapError::NotRoce);
    }
    if ip.version_ihl != raw::IPV4_VERSION_IHL {
        return Err(EncapError::Options { words: ip.version_ihl & 0x0F });
    }
    if !raw::is_intact(ip) {
        return Err(EncapError::Checksum);
    }
    if ip.flags_fragment.get() & raw::IPV4_FRAGMENT != 0 {
        return Err(EncapError::Fragment);
    }
    let len = fits(ip.total_len.get(), raw::IPV4, frame.len() - offset)?;
    Ok(Network {
        udp_offset: offset + raw::IPV4,
        len: len - raw::IPV4,
        src: IpAddr::V4(Ipv4Addr::from(ip.src)),
        dst: IpAddr::V4(Ipv4Addr::from(ip.dst)),
        ecn: Ecn::of_tos(ip.tos),
    })
}

#[inline]
fn ipv6(frame: RxFrame<'_>, offset: usize) -> Result<Network, EncapError> {
    let ip: &Ipv6 = header(frame, offset)?;
    let [version_class, class_flow, ..] = ip.version_class_flow.get().to_be_bytes();
    if version_class >> 4 != 6 {
        return Err(EncapError::Version(version_class >> 4));
    }
    match ip.next_header {
        raw::PROTOCOL_UDP => {}
        raw::PROTOCOL_FRAGMENT => return Err(EncapError::Fragment),
        _ => return Err(EncapError::NotRoce),
    }
    let len = fits(ip.payload_len.get(), 0, frame.len() - offset - raw::IPV6)?;
    Ok(Network {
        udp_offset: offset + raw::IPV6,
        len,
        src: IpAddr::V6(Ipv6Addr::from(ip.src)),
        dst: IpAddr::V6(Ipv6Addr::from(ip.dst)),
        ecn: Ecn::of_tos(class_flow >> 4),
    })
}
