//! Changes to a frame's bytes.

/// Bytes of an untagged Ethernet header.
const ETHERNET: usize = 14;
/// Congestion experienced: both ECN bits.
const CE: u8 = 0b11;

/// Flips one bit behind the Ethernet header: bit `draw` modulo their number. False if there is
/// none.
pub fn flip_bit(frame: &mut [u8], draw: u64) -> bool {
    let Some(body) = frame.get_mut(ETHERNET..).filter(|body| !body.is_empty()) else { return false };
    let bits = body.len() as u64 * 8;
    let bit = draw % bits;
    let Some(byte) = usize::try_from(bit / 8).ok().and_then(|index| body.get_mut(index)) else {
        return false;
    };
    *byte ^= 1 << (bit % 8);
    true
}

/// Marks an ECN-capable IPv4 or IPv6 packet, tagged or not, CE. False if the frame is none, or is
/// marked already. The ICRC stays right, as it masks these bits and the IPv4 checksum (protocol.md
/// 1.7).
pub fn mark_ce(frame: &mut [u8]) -> bool {
    let Some(l3) = l3_offset(frame) else { return false };
    match frame.get(l3).map(|byte| byte >> 4) {
        Some(4) => mark_ipv4(&mut frame[l3..]),
        Some(6) => mark_ipv6(&mut frame[l3..]),
        _ => false,
    }
}

/// Where the IP header begins, behind at most two VLAN tags.
fn l3_offset(frame: &[u8]) -> Option<usize> {
    let mut offset = ETHERNET;
    for _ in 0..3 {
        match frame.get(offset - 2..offset)? {
            [0x08, 0x00] | [0x86, 0xDD] => return Some(offset),
            [0x81, 0x00] | [0x88, 0xA8] => offset += 4,
            _ => return None,
        }
    }
    None
}

/// Returns `true` if two ECN bits say "capable, not yet marked".
const fn is_ect(ecn: u8) -> bool {
    matches!(ecn, 0b01 | 0b10)
}

fn mark_ipv4(packet: &mut [u8]) -> bool {
    const TOS: usize = 1;
    const CHECKSUM: usize = 10;
    if packet.len() < 20 || !is_ect(packet[TOS] & CE) {
        return false;
    }
    // RFC 1624: HC' = ~(~HC + ~m + m'), over the 16-bit word that holds the changed byte.
    let old = u16::from_be_bytes([packet[0], packet[TOS]]);
    packet[TOS] |= CE;
    let new = u16::from_be_bytes([packet[0], packet[TOS]]);
    let checksum = u16::from_be_bytes([packet[CHECKSUM], packet[CHECKSUM + 1]]);
    let sum = ones_complement_add(ones_complement_add(!checksum, !old), new);
    packet[CHECKSUM..CHECKSUM + 2].copy_from_slice(&(!sum).to_be_bytes());
    true
}

const fn ones_complement_add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u16
}

fn mark_ipv6(packet: &mut [u8]) -> bool {
    // The traffic class straddles bytes 0 and 1; its two ECN bits are bits 5 and 4 of byte 1.
    const SHIFT: u8 = 4;
    if packet.len() < 40 || !is_ect((packet[1] >> SHIFT) & CE) {
        return false;
    }
    packet[1] |= CE << SHIFT;
    true
}
