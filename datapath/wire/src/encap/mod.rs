//! Ethernet, VLAN, IP and UDP around a transport packet (protocol.md 1.1).

mod checksum;
mod common;
mod datagram;
mod follow;
mod group;
mod raw;
mod template;

pub use checksum::seal_udp;
pub use common::{Body, CommonFrame};
pub use datagram::{Datagram, EncapError};
pub use follow::Continuation;
pub use group::group_mac;
pub use template::{Flow, Template, TemplateError};

/// The UDP destination port of RoCEv2. A SRNIC network may use another.
pub const ROCE_UDP_PORT: u16 = 4791;

/// Bytes of the longest encapsulation: Ethernet, VLAN tag, IPv6, UDP.
pub const HEADER_LEN_MAX: usize = raw::ETHERNET + raw::VLAN + raw::IPV6 + raw::UDP;

/// The two ECN bits of an IP header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct = 0,
    /// ECN-capable, codepoint 1.
    Ect1 = 1,
    /// ECN-capable, codepoint 0: what data packets carry.
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// The ECN bits of an IPv4 ToS or IPv6 traffic class byte.
    #[inline]
    #[must_use]
    pub const fn of_tos(tos: u8) -> Self {
        match tos & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}
