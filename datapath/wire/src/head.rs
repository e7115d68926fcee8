//! All headers of a common packet at once, from IPv4 to the last of the transport, put together in
//! registers: whoever stores headers in pieces and then reads them for the ICRC waits until the
//! stores have left the processor's core.

use crate::bth::RawBth;
use crate::ext::RawReth;
use crate::srnic::{RawMeta, RawSsnw};
use crate::{Bth, Meta, Reth, Ssnw};
use zerocopy::{Immutable, IntoBytes, Unaligned};

/// Bytes of a block.
pub const BLOCK: usize = 64;
/// Bytes of a lane.
pub const LANE: usize = 16;
/// Lanes of a block.
pub const LANES: usize = BLOCK / LANE;

/// Words of IPv4 and UDP headers, in the order of memory.
pub(crate) const DATAGRAM: usize = 7;

/// The transport's headers of a WRITE without immediate data, in the SRNIC dialect.
#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct Write {
    bth: RawBth,
    reth: RawReth,
    meta: RawMeta,
}

/// The headers of a SEND behind UDP, as they lie in a packet.
#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct Send {
    bth: RawBth,
    meta: RawMeta,
    ssnw: RawSsnw,
}

/// Headers at the end of a block of 64 bytes that begins with zeros, so that payload continues
/// where the block ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The block, each lane in the order of memory.
    pub lanes: [u128; LANES],
    /// Bytes of the headers, fewer than the block has.
    pub len: usize,
}

impl Head {
    /// Bytes from IPv4 to the end of the headers of a WRITE without immediate data, in the SRNIC
    /// dialect.
    pub const WRITE_LEN: usize = 4 * DATAGRAM + size_of::<Write>();
    /// Bytes from IPv4 to the end of the headers of a SEND without immediate data, in the SRNIC
    /// dialect.
    pub const SEND_LEN: usize = 4 * DATAGRAM + size_of::<Send>();

    /// That of a WRITE: BTH, RETH, META behind the headers of its datagram.
    #[inline(always)]
    pub(crate) fn write(datagram: [u32; DATAGRAM], bth: &Bth, reth: &Reth, meta: &Meta) -> Self {
        let [a, b, c, d, e, f, g] = datagram;
        let transport = Write { bth: bth.to_raw(0, 0), reth: (*reth).into(), meta: (*meta).into() };
        let [h, i, j, k, l, m, n, o] = words(zerocopy::transmute!(transport));
        let lanes = [[0, a, b, c], [d, e, f, g], [h, i, j, k], [l, m, n, o]];
        Self { lanes: lanes.map(lane), len: Self::WRITE_LEN }
    }

    /// That of a SEND: BTH, META, SSNW.
    #[inline(always)]
    pub(crate) fn send(datagram: [u32; DATAGRAM], bth: &Bth, meta: &Meta, ssnw: &Ssnw) -> Self {
        let [a, b, c, d, e, f, g] = datagram;
        let transport = Send { bth: bth.to_raw(0, 0), meta: (*meta).into(), ssnw: (*ssnw).into() };
        let [h, i, j, k, l] = words(zerocopy::transmute!(transport));
        let lanes = [[0; 4], [a, b, c, d], [e, f, g, h], [i, j, k, l]];
        Self { lanes: lanes.map(lane), len: Self::SEND_LEN }
    }

    /// The block.
    #[inline]
    #[must_use]
    pub fn to_bytes(self) -> [u8; BLOCK] {
        zerocopy::transmute!(self.lanes.map(u128::to_ne_bytes))
    }
}

const _: () = assert!(Head::WRITE_LEN < BLOCK && Head::SEND_LEN < BLOCK, "in one block");

/// Words of bytes, whose order stays.
#[inline(always)]
pub(crate) fn words<const N: usize>(bytes: [[u8; 4]; N]) -> [u32; N] {
    bytes.map(u32::from_ne_bytes)
}

#[inline(always)]
fn lane(words: [u32; 4]) -> u128 {
    u128::from_ne_bytes(zerocopy::transmute!(words))
}
