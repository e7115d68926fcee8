//! Socket addresses as C has them.

use crate::abi::ucm::{Plain, bytes_of, from_bytes};
use crate::errno::{Errno, Result};
use core::ffi::c_int;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const FAMILY_IPV4: u16 = family(libc::AF_INET);
const FAMILY_IPV6: u16 = family(libc::AF_INET6);
/// Lengths of `sockaddr_in` and `sockaddr_in6`.
const LEN_IPV4: u16 = 16;
const LEN_IPV6: u16 = 28;

/// A family has 16 bits in an address.
const fn family(number: c_int) -> u16 {
    let [low, high, ..] = number.to_le_bytes();
    u16::from_le_bytes([low, high])
}

fn at<const N: usize>(bytes: &[u8], from: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[from..from + N]);
    part
}

/// The address in a structure; `None` if it says nothing.
pub fn from_c<T: Plain>(c: &T) -> Result<Option<SocketAddr>> {
    let bytes = bytes_of(c);
    let port = u16::from_be_bytes(at(bytes, 2));
    match u16::from_ne_bytes(at(bytes, 0)) {
        0 => Ok(None),
        FAMILY_IPV4 => Ok(Some(SocketAddr::new(Ipv4Addr::from(at::<4>(bytes, 4)).into(), port))),
        FAMILY_IPV6 => {
            // A program that asks for either family names IPv4 so.
            Ok(Some(SocketAddr::new(Ipv6Addr::from(at::<16>(bytes, 8)).to_canonical(), port)))
        }
        _ => Err(Errno(libc::EAFNOSUPPORT)),
    }
}

/// The structure of an address, and its length.
pub fn to_c<T: Plain>(addr: SocketAddr) -> (T, u16) {
    let mut bytes = [0; LEN_IPV6 as usize];
    bytes[2..4].copy_from_slice(&addr.port().to_be_bytes());
    let (family, len) = match addr.ip() {
        IpAddr::V4(ip) => {
            bytes[4..8].copy_from_slice(&ip.octets());
            (FAMILY_IPV4, LEN_IPV4)
        }
        IpAddr::V6(ip) => {
            bytes[8..24].copy_from_slice(&ip.octets());
            (FAMILY_IPV6, LEN_IPV6)
        }
    };
    bytes[..2].copy_from_slice(&family.to_ne_bytes());
    (from_bytes(&bytes), len)
}
