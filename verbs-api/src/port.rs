//! The one port of a device: its attributes, GIDs and P_Keys.

use crate::device::Device;
use core::net::IpAddr;
use wire::{Pmtu, WireMode};

/// A global identifier: the IP address of RoCEv2, an IPv4 one mapped to IPv6 (protocol.md 1.8).
pub type Gid = [u8; 16];

/// The one partition key there is: that of full members of the default partition.
const PKEY_DEFAULT: u16 = 0xFFFF;

/// The attributes of a port (`ibv_query_port`) that an Ethernet port has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct PortAttr {
    /// True if frames can pass (`IBV_PORT_ACTIVE`).
    pub active: bool,
    /// The largest path MTU whose packets fit.
    pub max_mtu: Pmtu,
    /// Longest message, in bytes.
    pub max_msg_sz: u32,
    /// Entries of the GID table.
    pub gid_tbl_len: u16,
    /// Entries of the P_Key table.
    pub pkey_tbl_len: u16,
    /// Ethernet address.
    pub mac: [u8; 6],
}

impl Device {
    /// Attributes of its one port, number 1 (`ibv_query_port`).
    #[must_use]
    pub fn query_port(&self) -> PortAttr {
        PortAttr {
            active: self.link_up(),
            max_mtu: self.path_mtu_max().in_dialect(WireMode::Plain),
            max_msg_sz: 1 << 31,
            gid_tbl_len: 1,
            pkey_tbl_len: 1,
            mac: self.mac(),
        }
    }

    /// An entry of the GID table (`ibv_query_gid`): the first is the device's IP address, and there
    /// is no other.
    #[must_use]
    pub fn query_gid(&self, index: u16) -> Option<Gid> {
        let address = match self.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        (index == 0).then(|| address.octets())
    }

    /// An entry of the P_Key table (`ibv_query_pkey`): the first is the default partition's, and
    /// there is no other.
    #[must_use]
    pub const fn query_pkey(&self, index: u16) -> Option<u16> {
        if index == 0 { Some(PKEY_DEFAULT) } else { None }
    }
}
