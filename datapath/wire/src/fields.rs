//! The fields of a packet's headers behind the BTH, and how they are written. This is the one place
//! that goes through them all.

use crate::{AckFlags, Ackx, Aeth, AtomicEth, Deth, Layout, Meta, Rdw, Reth, Ssnw, emit};

/// The headers behind the BTH. The [`Layout`] of an opcode says which of them its packets have, and
/// where: what it lacks is not written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fields {
    /// RETH.
    pub reth: Reth,
    /// AETH.
    pub aeth: Aeth,
    /// ImmDt.
    pub imm: u32,
    /// IETH.
    pub ieth: u32,
    /// AtomicETH.
    pub atomic_eth: AtomicEth,
    /// AtomicAckETH.
    pub atomic_ack: u64,
    /// DETH.
    pub deth: Deth,
    /// META.
    pub meta: Meta,
    /// SSNW.
    pub ssnw: Ssnw,
    /// RDW.
    pub rdw: Rdw,
    /// ACKX; its [`AckFlags::BITMAP`] decides whether SACKB follows.
    pub ackx: Ackx,
    /// SACKB.
    pub sackb: u64,
}

impl Fields {
    /// Bytes of BTH and headers, SACKB included.
    #[inline(always)]
    #[must_use]
    pub fn header_len(&self, layout: &Layout) -> usize {
        usize::from(layout.len) + if self.has_sackb(layout) { emit::SACKB_LEN } else { 0 }
    }

    #[inline(always)]
    fn has_sackb(&self, layout: &Layout) -> bool {
        layout.ackx != 0 && self.ackx.flags.contains(AckFlags::BITMAP)
    }

    /// Writes the headers of `layout` behind the BTH at the front of `buf`.
    ///
    /// # Panics
    /// If `buf` is shorter than [`Fields::header_len`].
    #[inline(always)]
    #[track_caller]
    pub fn emit(&self, layout: &Layout, buf: &mut [u8]) {
        put(buf, layout.reth, |at| self.reth.emit(at));
        put(buf, layout.aeth, |at| self.aeth.emit(at));
        put(buf, layout.imm, |at| emit::imm(at, self.imm));
        put(buf, layout.ieth, |at| emit::ieth(at, self.ieth));
        put(buf, layout.atomic_eth, |at| self.atomic_eth.emit(at));
        put(buf, layout.atomic_ack, |at| emit::atomic_ack(at, self.atomic_ack));
        put(buf, layout.deth, |at| self.deth.emit(at));
        put(buf, layout.meta, |at| self.meta.emit(at));
        put(buf, layout.ssnw, |at| self.ssnw.emit(at));
        put(buf, layout.rdw, |at| self.rdw.emit(at));
        put(buf, layout.ackx, |at| self.ackx.emit(at));
        if self.has_sackb(layout) {
            emit::sackb(&mut buf[usize::from(layout.len)..], self.sackb);
        }
    }
}

#[inline(always)]
#[track_caller]
fn put(buf: &mut [u8], offset: u8, emit: impl FnOnce(&mut [u8])) {
    if offset != 0 {
        emit(&mut buf[usize::from(offset)..]);
    }
}
