//! Writing the headers that are a single bare number. Each other header has an `emit` of its own.
//!
//! Every function writes to the front of `buf` and panics if `buf` is shorter than the header.

use crate::bytes;
use zerocopy::byteorder::network_endian::{U32, U64};

/// Bytes of ImmDt.
pub const IMM_LEN: usize = size_of::<U32>();
/// Bytes of IETH.
pub const IETH_LEN: usize = size_of::<U32>();
/// Bytes of AtomicAckETH.
pub const ATOMIC_ACK_LEN: usize = size_of::<U64>();
/// Bytes of SACKB.
pub const SACKB_LEN: usize = size_of::<U64>();
/// Bytes of the ICRC.
pub const ICRC_LEN: usize = 4;
/// Reserved zero bytes that follow the BTH of a CNP (protocol.md 1.8).
pub const CNP_RESERVED_LEN: usize = 16;

/// Writes ImmDt: the 32-bit immediate.
///
/// # Panics
/// If `buf` is shorter than [`IMM_LEN`].
#[inline]
#[track_caller]
pub fn imm(buf: &mut [u8], imm: u32) {
    if !bytes::write(&U32::new(imm), buf) {
        bytes::short("ImmDt");
    }
}

/// Writes IETH: the rkey to invalidate.
///
/// # Panics
/// If `buf` is shorter than [`IETH_LEN`].
#[inline]
#[track_caller]
pub fn ieth(buf: &mut [u8], rkey: u32) {
    if !bytes::write(&U32::new(rkey), buf) {
        bytes::short("IETH");
    }
}

/// Writes AtomicAckETH: the value before the atomic.
///
/// # Panics
/// If `buf` is shorter than [`ATOMIC_ACK_LEN`].
#[inline]
#[track_caller]
pub fn atomic_ack(buf: &mut [u8], original: u64) {
    if !bytes::write(&U64::new(original), buf) {
        bytes::short("AtomicAckETH");
    }
}

/// Writes SACKB: bit i is set if PSN cum+2+i was received.
///
/// # Panics
/// If `buf` is shorter than [`SACKB_LEN`].
#[inline]
#[track_caller]
pub fn sackb(buf: &mut [u8], bitmap: u64) {
    if !bytes::write(&U64::new(bitmap), buf) {
        bytes::short("SACKB");
    }
}
