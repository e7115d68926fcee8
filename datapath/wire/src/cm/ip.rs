//! The parts that rdma_cm adds to the connection manager: TCP-like ports and IP addresses.

use super::fields::{get, put};
use super::{Req, SidrReq};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Service IDs of the port spaces RDMA_PS_TCP and RDMA_PS_UDP, less the port.
const PS_TCP: u64 = 0x0000_0000_0106_0000;
const PS_UDP: u64 = 0x0000_0000_0111_0000;

/// A port of RDMA_PS_TCP, as a service ID names it.
///
/// ```
/// use wire::cm::TcpPort;
///
/// assert_eq!(TcpPort(7174).service_id(), 0x0106_1C06);
/// assert_eq!(TcpPort::of(0x0106_1C06), Some(TcpPort(7174)));
/// assert_eq!(TcpPort::of(0x0111_1C06), None, "a port of UDP");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TcpPort(pub u16);

impl TcpPort {
    /// The service ID of this port.
    #[must_use]
    pub const fn service_id(self) -> u64 {
        PS_TCP | self.0 as u64
    }

    /// The port that a service ID names; `None` if it is of another kind.
    #[must_use]
    pub fn of(service_id: u64) -> Option<Self> {
        port_in(PS_TCP, service_id).map(Self)
    }
}

/// A port of RDMA_PS_UDP, of a service of datagrams, as a service ID names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct UdpPort(pub u16);

impl UdpPort {
    /// The service ID of this port.
    #[must_use]
    pub const fn service_id(self) -> u64 {
        PS_UDP | self.0 as u64
    }

    /// The port that a service ID names; `None` if it is of another kind.
    #[must_use]
    pub fn of(service_id: u64) -> Option<Self> {
        port_in(PS_UDP, service_id).map(Self)
    }
}

fn port_in(space: u64, service_id: u64) -> Option<u16> {
    let port = u16::try_from(service_id & 0xFFFF).ok()?;
    (service_id & !0xFFFF == space).then_some(port)
}

/// The first [`IpCmHeader::LEN`] bytes of a REQ's private data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpCmHeader {
    /// The sender's port.
    pub src_port: u16,
    /// The sender's address.
    pub src: IpAddr,
    /// The address that it connects to, of the same family.
    pub dst: IpAddr,
}

/// Why private data do not begin with a header that is known here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("IP CM version {version:#04x}, IP version {ip_version} is not supported")]
pub struct IpCmError {
    /// Version of the header: 0.
    pub version: u8,
    /// Version of IP: 4 or 6.
    pub ip_version: u8,
}

impl IpCmHeader {
    /// Bytes of it.
    pub const LEN: usize = 36;
    /// Bytes of a REQ's private data that are left for the program.
    pub const PRIVATE_DATA: usize = Req::PRIVATE_DATA - Self::LEN;

    /// Reads a REQ's private data: the header, and what the program has to say.
    ///
    /// # Errors
    /// [`IpCmError`].
    pub fn parse(data: &[u8; Req::PRIVATE_DATA]) -> Result<(Self, [u8; Self::PRIVATE_DATA]), IpCmError> {
        Ok((Self::read(data)?, get(data, Self::LEN)))
    }

    /// Reads a SIDR_REQ's private data: the header, and what the program has to say.
    ///
    /// # Errors
    /// [`IpCmError`].
    pub fn parse_sidr(
        data: &[u8; SidrReq::PRIVATE_DATA],
    ) -> Result<(Self, [u8; SidrReq::PROGRAM_DATA]), IpCmError> {
        Ok((Self::read(data)?, get(data, Self::LEN)))
    }

    /// What `data` begins with, which are long enough.
    fn read(data: &[u8]) -> Result<Self, IpCmError> {
        let (version, ip_version) = (data[0], data[1] >> 4);
        let address = |at| match ip_version {
            4 => Some(IpAddr::V4(Ipv4Addr::from(get::<4>(data, at + 12)))),
            6 => Some(IpAddr::V6(Ipv6Addr::from(get::<16>(data, at)))),
            _ => None,
        };
        let (0, Some(src), Some(dst)) = (version, address(4), address(20)) else {
            return Err(IpCmError { version, ip_version });
        };
        Ok(Self { src_port: u16::from_be_bytes(get(data, 2)), src, dst })
    }

    /// A REQ's private data: this, and what the program has to say.
    #[must_use]
    pub fn emit(&self, program: &[u8; Self::PRIVATE_DATA]) -> [u8; Req::PRIVATE_DATA] {
        let mut data = [0; Req::PRIVATE_DATA];
        self.write(&mut data);
        put(&mut data, Self::LEN, *program);
        data
    }

    /// A SIDR_REQ's private data: this, and what the program has to say.
    #[must_use]
    pub fn emit_sidr(&self, program: &[u8; SidrReq::PROGRAM_DATA]) -> [u8; SidrReq::PRIVATE_DATA] {
        let mut data = [0; SidrReq::PRIVATE_DATA];
        self.write(&mut data);
        put(&mut data, Self::LEN, *program);
        data
    }

    /// The first bytes of `data`, which are zeros, and long enough.
    fn write(&self, data: &mut [u8]) {
        data[1] = if self.src.is_ipv4() { 4 << 4 } else { 6 << 4 };
        put(data, 2, self.src_port.to_be_bytes());
        for (at, address) in [(4, self.src), (20, self.dst)] {
            match address {
                IpAddr::V4(v4) => put(data, at + 12, v4.octets()),
                IpAddr::V6(v6) => put(data, at, v6.octets()),
            }
        }
    }
}
