//! The encapsulating headers as they lie on the wire.

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub(super) const ETHERNET: usize = size_of::<Ethernet>();
pub(super) const VLAN: usize = size_of::<Vlan>();
pub(super) const IPV4: usize = size_of::<Ipv4>();
pub(super) const IPV6: usize = size_of::<Ipv6>();
pub(super) const UDP: usize = size_of::<Udp>();

pub(super) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(super) const ETHERTYPE_IPV6: u16 = 0x86DD;
pub(super) const ETHERTYPE_VLAN: u16 = 0x8100;

pub(super) const PROTOCOL_UDP: u8 = 17;
/// The IPv6 fragment header.
pub(super) const PROTOCOL_FRAGMENT: u8 = 44;

/// Version 4, five words of header.
pub(super) const IPV4_VERSION_IHL: u8 = 0x45;
pub(super) const IPV4_DONT_FRAGMENT: u16 = 0x4000;
/// More Fragments and the fragment offset.
pub(super) const IPV4_FRAGMENT: u16 = 0x3FFF;

/// The VLAN identifier of a tag's TCI; the rest is priority and DEI.
pub(super) const VID: u16 = 0x0FFF;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Ethernet {
    pub dst: [u8; 6],
    pub src: [u8; 6],
    pub ethertype: U16,
}

/// What follows the ethertype 0x8100.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Vlan {
    pub tci: U16,
    pub ethertype: U16,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Ipv4 {
    pub version_ihl: u8,
    pub tos: u8,
    pub total_len: U16,
    pub id: U16,
    pub flags_fragment: U16,
    pub ttl: u8,
    pub protocol: u8,
    pub checksum: U16,
    pub src: [u8; 4],
    pub dst: [u8; 4],
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Ipv6 {
    /// Version 4 bits, traffic class 8, flow label 20.
    pub version_class_flow: U32,
    pub payload_len: U16,
    pub next_header: u8,
    pub hop_limit: u8,
    pub src: [u8; 16],
    pub dst: [u8; 16],
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Udp {
    pub src_port: U16,
    pub dst_port: U16,
    pub len: U16,
    pub checksum: U16,
}

/// The sum of the words of an IPv4 header without options.
#[inline]
pub(super) fn ipv4_sum(header: &Ipv4) -> u64 {
    let words: &[U32; IPV4 / 4] = zerocopy::transmute_ref!(header);
    words.iter().map(|word| u64::from(word.get())).sum()
}

/// Returns `true` if the checksum of an IPv4 header without options is right. One's complement sums
/// do not depend on the byte order. The header must have a version: one of zeros only would be
/// right.
#[inline(always)]
pub(super) fn is_intact(header: &Ipv4) -> bool {
    let words: &[[u8; 4]; IPV4 / 4] = zerocopy::transmute_ref!(header);
    let sum: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    // Folded it is 0xFFFF: of all sums but 0, the multiples of that are.
    sum.is_multiple_of(0xFFFF)
}

/// Folds a sum of 16-bit or 32-bit words, below 2^48, to the one's complement sum of 16 bits that
/// checksums use.
#[inline]
pub(super) const fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xFFFF) + (sum >> 16 & 0xFFFF) + (sum >> 32);
    let sum = (sum & 0xFFFF) + (sum >> 16);
    let sum = (sum & 0xFFFF) + (sum >> 16);
    let [.., high, low] = sum.to_be_bytes();
    u16::from_be_bytes([high, low])
}

#[cfg(test)]
mod tests {
    use super::fold;

    #[test]
    fn a_sum_is_folded_until_no_carry_is_left() {
        for sum in [0, 1, 0xFFFF, 0x1_0000, 0x1_FFFE, 0xFFFF_FFFF, 0x1_FFFF_FFFF, 0xFFFF_FFFF_FFFF] {
            let mut expected: u64 = sum;
            while expected > 0xFFFF {
                expected = (expected & 0xFFFF) + (expected >> 16);
            }
            assert_eq!(u64::from(fold(sum)), expected, "{sum:#x}");
        }
    }
}
