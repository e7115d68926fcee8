//! The invariant CRC of RoCEv2 (protocol.md 1.7).
//!
//! CRC-32/ISO-HDLC over eight 0xFF bytes and the packet from the IP header to the pad, in which
//! every field that may change on the way counts as ones. It is sent little-endian.

use std::sync::LazyLock;

use crc32fast::Hasher;

use crate::Bth;
use crate::emit::ICRC_LEN;

const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;

/// IPv4, UDP and BTH: the headers with masked fields.
pub const HEAD_V4: usize = IPV4 + UDP + Bth::LEN;
/// IPv6, UDP and BTH.
pub const HEAD_V6: usize = IPV6 + UDP + Bth::LEN;

/// The mask of an IPv4 packet: ToS, TTL, header checksum, UDP checksum and BTH byte 4 count as
/// ones.
pub const MASK_V4: [u8; HEAD_V4] = mask(&[1, 8, 10, 11, IPV4 + 6, IPV4 + 7, IPV4 + UDP + 4]);

/// The mask of an IPv6 packet: traffic class, flow label, hop limit, UDP checksum and BTH byte 4
/// count as ones.
pub const MASK_V6: [u8; HEAD_V6] = {
    let mut mask = mask(&[1, 2, 3, 7, IPV6 + 6, IPV6 + 7, IPV6 + UDP + 4]);
    mask[0] = 0x0F;
    mask
};

/// Ones at these bytes.
const fn mask<const LEN: usize>(bytes: &[usize]) -> [u8; LEN] {
    let mut mask = [0; LEN];
    let mut i = 0;
    while i < bytes.len() {
        mask[bytes[i]] = 0xFF;
        i += 1;
    }
    mask
}

/// The eight bytes of ones that come first meet a register of ones: four of them clear it, four are
/// left.
pub const ONES: usize = 4;
const REGISTER_CLEAR: u32 = u32::MAX;

/// A hasher that has read nothing, with a register that is clear. Each that is made asks what the
/// processor can do.
static FRESH: LazyLock<Hasher> = LazyLock::new(|| Hasher::new_with_initial(REGISTER_CLEAR));

/// What is hashed as one piece: the headers and, if it fits, all the rest, which with 64 bytes of
/// payload it does. Zeros in front do not change a clear register, so a piece is filled from its
/// end: the CRC instructions work on whole lanes, and on four at a time from 128 bytes on.
const BLOCK_V4: usize = 128;
const BLOCK_V6: usize = 160;
const LANE: usize = 16;

/// The ICRC of `frame_from_l3`: IP header to pad, without the ICRC. 0 if the bytes have none: if
/// they do not start with IPv4 or IPv6 or end before the BTH does. IPv4 options are not looked for;
/// `encap` refuses them.
#[inline]
#[must_use]
pub fn compute(frame_from_l3: &[u8]) -> u32 {
    hasher(frame_from_l3).map_or(0, Hasher::finalize)
}

/// The ICRC begun: over `headers_from_l3`, which reaches at least to the end of the BTH, else
/// `None`. Whoever copies the payload goes on with [`Hasher::update`].
#[inline(never)]
#[must_use]
pub fn hasher(headers_from_l3: &[u8]) -> Option<Hasher> {
    match headers_from_l3.first()? >> 4 {
        4 => begin::<_, BLOCK_V4>(headers_from_l3, &MASK_V4),
        6 => begin::<_, BLOCK_V6>(headers_from_l3, &MASK_V6),
        _ => None,
    }
}

/// Feeds the masked header and, if it fits the block, all the rest with it; else the rest as it
/// lies.
#[inline]
fn begin<const HEAD: usize, const BLOCK: usize>(frame: &[u8], mask: &[u8; HEAD]) -> Option<Hasher> {
    let (head, rest) = frame.split_first_chunk::<HEAD>()?;
    let mut masked = *head;
    for (byte, mask) in masked.iter_mut().zip(mask) {
        *byte |= mask;
    }

    let fits = ONES + HEAD + rest.len() <= BLOCK;
    let (near, far) = rest.split_at(if fits { rest.len() } else { 0 });
    let filled = if fits { BLOCK } else { (ONES + HEAD).next_multiple_of(LANE) };

    let mut block = [0; BLOCK];
    let (front, tail) = block.split_at_mut(BLOCK - near.len());
    tail.copy_from_slice(near);
    let (front, space) = front.split_last_chunk_mut::<HEAD>()?;
    *space = masked;
    *front.last_chunk_mut::<ONES>()? = [0xFF; ONES];

    let mut hasher = FRESH.clone();
    hasher.update(block.get(BLOCK - filled..)?);
    if !fits {
        hasher.update(far);
    }
    Some(hasher)
}

/// True if the last four bytes of `frame_from_l3_with_icrc` are the ICRC of those before.
#[inline]
#[must_use]
pub fn verify(frame_from_l3_with_icrc: &[u8]) -> bool {
    let Some((frame, found)) = frame_from_l3_with_icrc.split_last_chunk::<ICRC_LEN>() else { return false };
    hasher(frame).is_some_and(|hasher| hasher.finalize() == u32::from_le_bytes(*found))
}

/// Writes the ICRC into the last four bytes of `frame_from_l3`: IP header to ICRC. Bytes that
/// [`compute`] finds no ICRC for are left alone.
#[inline]
pub fn seal(frame_from_l3: &mut [u8]) {
    if let Some((frame, icrc)) = frame_from_l3.split_last_chunk_mut::<ICRC_LEN>()
        && let Some(hasher) = hasher(frame)
    {
        *icrc = hasher.finalize().to_le_bytes();
    }
}
