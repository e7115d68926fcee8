//! The invariant CRC of RoCEv2 (protocol.md 1.7).
//!
//! CRC-32/ISO-HDLC over eight 0xFF bytes and the packet from the IP header to the pad, in which every field that
//! may change on the way counts as ones. It is sent little-endian.

use crc32fast::Hasher;

use crate::Bth;
use crate::emit::ICRC_LEN;

/// Ones in front of the IP header.
const PREFIX: usize = 8;
const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;

/// The ICRC of `frame_from_l3`: IP header to pad, without the ICRC. 0 if the bytes have none: if they do not start
/// with IPv4 or IPv6 or end before the BTH does. IPv4 options are not looked for; `encap` refuses them.
#[inline]
#[must_use]
pub fn compute(frame_from_l3: &[u8]) -> u32 {
    hasher(frame_from_l3).map_or(0, Hasher::finalize)
}

/// The ICRC begun: over `headers_from_l3`, which reaches at least to the end of the BTH, else `None`. Whoever
/// copies the payload goes on with [`Hasher::update`].
#[inline]
#[must_use]
pub fn hasher(headers_from_l3: &[u8]) -> Option<Hasher> {
    match headers_from_l3.first()? >> 4 {
        4 => begin::<{ IPV4 + UDP + Bth::LEN }, { PREFIX + IPV4 + UDP + Bth::LEN }>(headers_from_l3, mask_v4),
        6 => begin::<{ IPV6 + UDP + Bth::LEN }, { PREFIX + IPV6 + UDP + Bth::LEN }>(headers_from_l3, mask_v6),
        _ => None,
    }
}

/// Feeds the prefix and the `HEAD` masked header bytes as one block of `BLOCK` bytes, then the rest as it lies.
#[inline]
fn begin<const HEAD: usize, const BLOCK: usize>(frame: &[u8], mask: fn(&mut [u8; HEAD])) -> Option<Hasher> {
    let (head, rest) = frame.split_first_chunk::<HEAD>()?;
    let mut block = [0xFF; BLOCK];
    let masked = block.last_chunk_mut::<HEAD>()?;
    *masked = *head;
    mask(masked);
    let mut hasher = Hasher::new();
    hasher.update(&block);
    hasher.update(rest);
    Some(hasher)
}

/// ToS, TTL, header checksum; UDP checksum; BTH byte 4.
#[inline]
fn mask_v4(head: &mut [u8; IPV4 + UDP + Bth::LEN]) {
    head[1] = 0xFF;
    head[8] = 0xFF;
    head[10] = 0xFF;
    head[11] = 0xFF;
    head[IPV4 + 6] = 0xFF;
    head[IPV4 + 7] = 0xFF;
    head[IPV4 + UDP + 4] = 0xFF;
}

/// Traffic class, flow label, hop limit; UDP checksum; BTH byte 4.
#[inline]
fn mask_v6(head: &mut [u8; IPV6 + UDP + Bth::LEN]) {
    head[0] |= 0x0F;
    head[1] = 0xFF;
    head[2] = 0xFF;
    head[3] = 0xFF;
    head[7] = 0xFF;
    head[IPV6 + 6] = 0xFF;
    head[IPV6 + 7] = 0xFF;
    head[IPV6 + UDP + 4] = 0xFF;
}

/// True if the last four bytes of `frame_from_l3_with_icrc` are the ICRC of those before.
#[inline]
#[must_use]
pub fn verify(frame_from_l3_with_icrc: &[u8]) -> bool {
    let Some((frame, found)) = frame_from_l3_with_icrc.split_last_chunk::<ICRC_LEN>() else { return false };
    hasher(frame).is_some_and(|hasher| hasher.finalize() == u32::from_le_bytes(*found))
}

/// Writes the ICRC into the last four bytes of `frame_from_l3`: IP header to ICRC. Bytes that [`compute`] finds no
/// ICRC for are left alone.
#[inline]
pub fn seal(frame_from_l3: &mut [u8]) {
    if let Some((frame, icrc)) = frame_from_l3.split_last_chunk_mut::<ICRC_LEN>()
        && let Some(hasher) = hasher(frame)
    {
        *icrc = hasher.finalize().to_le_bytes();
    }
}
