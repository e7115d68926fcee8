//! The standard extended transport headers (protocol.md 1.4).

use zerocopy::byteorder::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Syndrome;
use crate::bytes::{MASK24, high, wire_header, word};

/// RDMA extended transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reth {
    /// Remote virtual address; in the SRNIC dialect that of this packet's payload.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// Bytes of the operation, at most 2^31; in a SRNIC WRITE what remains from this packet on.
    pub dma_len: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawReth {
    va: U64,
    rkey: U32,
    dma_len: U32,
}

impl From<RawReth> for Reth {
    #[inline]
    fn from(raw: RawReth) -> Self {
        Self { va: raw.va.get(), rkey: raw.rkey.get(), dma_len: raw.dma_len.get() }
    }
}

impl From<Reth> for RawReth {
    #[inline]
    fn from(h: Reth) -> Self {
        Self { va: U64::new(h.va), rkey: U32::new(h.rkey), dma_len: U32::new(h.dma_len) }
    }
}

wire_header!(Reth, RawReth);

/// ACK extended transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aeth {
    /// ACK, RNR NAK or NAK, with its credit, timer or code.
    pub syndrome: Syndrome,
    /// The responder's count of completed requests, 24 bits.
    pub msn: u32,
}

/// An ACK without credit information, of nothing.
impl Default for Aeth {
    fn default() -> Self {
        Self { syndrome: Syndrome::ACK, msn: 0 }
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawAeth {
    syndrome_msn: U32,
}

impl From<RawAeth> for Aeth {
    #[inline]
    fn from(raw: RawAeth) -> Self {
        let word = raw.syndrome_msn.get();
        Self { syndrome: Syndrome::from_u8(high(word)), msn: word & MASK24 }
    }
}

impl From<Aeth> for RawAeth {
    #[inline]
    fn from(h: Aeth) -> Self {
        Self { syndrome_msn: U32::new(word(h.syndrome.to_u8(), h.msn)) }
    }
}

wire_header!(Aeth, RawAeth);

/// Atomic extended transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AtomicEth {
    /// Remote virtual address, a multiple of 8 (the receiver's check, not this crate's).
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// Value to store (compare-and-swap) or to add (fetch-and-add).
    pub swap_add: u64,
    /// Value to compare with; unused by fetch-and-add.
    pub compare: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawAtomicEth {
    va: U64,
    rkey: U32,
    swap_add: U64,
    compare: U64,
}

impl From<RawAtomicEth> for AtomicEth {
    #[inline]
    fn from(raw: RawAtomicEth) -> Self {
        Self {
            va: raw.va.get(),
            rkey: raw.rkey.get(),
            swap_add: raw.swap_add.get(),
            compare: raw.compare.get(),
        }
    }
}

impl From<AtomicEth> for RawAtomicEth {
    #[inline]
    fn from(h: AtomicEth) -> Self {
        Self {
            va: U64::new(h.va),
            rkey: U32::new(h.rkey),
            swap_add: U64::new(h.swap_add),
            compare: U64::new(h.compare),
        }
    }
}

wire_header!(AtomicEth, RawAtomicEth);

/// Datagram extended transport header. Its reserved byte is sent as zero; [`Repr`](crate::Repr)
/// keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Deth {
    /// Queue key.
    pub qkey: u32,
    /// QPN of the sender, 24 bits.
    pub src_qp: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDeth {
    qkey: U32,
    resv_src_qp: U32,
}

impl From<RawDeth> for Deth {
    #[inline]
    fn from(raw: RawDeth) -> Self {
        Self { qkey: raw.qkey.get(), src_qp: raw.resv_src_qp.get() & MASK24 }
    }
}

impl From<Deth> for RawDeth {
    #[inline]
    fn from(h: Deth) -> Self {
        Self { qkey: U32::new(h.qkey), resv_src_qp: U32::new(word(0, h.src_qp)) }
    }
}

wire_header!(Deth, RawDeth);

/// Offset of DETH's reserved byte from its start.
pub(crate) const DETH_RESV: usize = 4;
