//! The UDP checksum, for receivers that refuse zero on IPv6 (protocol.md 1.1).

use super::raw::{self, Ipv4, Ipv6, Udp, fold};
use zerocopy::FromBytes;
use zerocopy::byteorder::network_endian::U16;

/// Computes the UDP checksum of a finished packet, IP header to ICRC, as
/// [`Template`](super::Template) leaves it zero. The ICRC does not cover the checksum, so
/// [`icrc::seal`](crate::icrc::seal) comes first. Returns false, and changes nothing, if
/// `packet_from_l3` is not UDP over IPv4 without options or over IPv6.
pub fn seal_udp(packet_from_l3: &mut [u8]) -> bool {
    let sealed = match packet_from_l3.first().map(|byte| byte >> 4) {
        Some(4) => Ipv4::mut_from_prefix(packet_from_l3)
            .ok()
            .filter(|(ip, _)| ip.version_ihl == raw::IPV4_VERSION_IHL && ip.protocol == raw::PROTOCOL_UDP)
            .map(|(ip, udp)| seal(udp, sum(&ip.src) + sum(&ip.dst))),
        Some(6) => Ipv6::mut_from_prefix(packet_from_l3)
            .ok()
            .filter(|(ip, _)| ip.next_header == raw::PROTOCOL_UDP)
            .map(|(ip, udp)| seal(udp, sum(&ip.src) + sum(&ip.dst))),
        _ => None,
    };
    sealed.is_some_and(|written| written)
}

/// Writes the checksum of `datagram`, UDP header to its end, given the sum of both addresses.
fn seal(datagram: &mut [u8], addresses: u64) -> bool {
    let Ok((udp, _)) = Udp::mut_from_prefix(datagram) else { return false };
    udp.checksum = U16::ZERO;
    let len = udp.len.get();
    let pseudo_header = addresses + u64::from(raw::PROTOCOL_UDP) + u64::from(len);
    let checksum = match !fold(pseudo_header + sum(datagram)) {
        // Zero says that there is no checksum; its other form stands for it.
        0 => u16::MAX,
        checksum => checksum,
    };
    let Ok((udp, _)) = Udp::mut_from_prefix(datagram) else { return false };
    udp.checksum = U16::new(checksum);
    true
}

/// The sum of the big-endian 16-bit words of `bytes`, an odd one filled up with zero.
fn sum(bytes: &[u8]) -> u64 {
    let (words, odd) = bytes.as_chunks::<2>();
    let odd = odd.first().map(|&byte| [byte, 0]);
    words.iter().copied().chain(odd).map(|word| u64::from(u16::from_be_bytes(word))).sum()
}
