//! Request packets: headers from the queue pair's template and the work request, payload gathered in one copy.

#[cfg(test)]
mod tests;

use crate::memory::MemoryTable;
use crate::qp::context::{QpIdentity, SqEntry};
use crate::qp::payload::Payload;
use crate::queue::{SendFlags, SendOpcode, SendWqe, WcStatus};
use wire::{Bth, Layout, Meta, Opcode, Reth, Ssnw, Template, WireMode, bth, emit};

const ICRC_LEN: usize = 4;

/// Which packet of which message to build.
#[derive(Clone, Copy)]
pub(in crate::qp) struct Wanted<'a> {
    pub id: &'a QpIdentity,
    pub template: &'a Template,
    pub wqe: SendWqe<'a>,
    pub entry: SqEntry,
    /// Index of the packet in its message.
    pub index: u32,
    pub ack_req: bool,
}

/// A packet with all its lengths known, before its frame is. `PLAIN` chooses the dialect when it is compiled, so that
/// neither pays for the other.
pub(in crate::qp) struct PacketPlan<'a, const PLAIN: bool = false> {
    wanted: Wanted<'a>,
    layout: &'static Layout,
    /// Bytes of the message before this packet.
    start: u64,
    payload_len: usize,
}

impl<'a, const PLAIN: bool> PacketPlan<'a, PLAIN> {
    const MODE: WireMode = if PLAIN { WireMode::Plain } else { WireMode::Srnic };

    /// Works out the opcode and the lengths.
    ///
    /// # Errors
    /// The status with which the work request fails, if the dialect has no such packet.
    #[inline(always)]
    pub fn new(wanted: Wanted<'a>) -> Result<Self, WcStatus> {
        let opcode = opcode_at(wanted.wqe.opcode, wanted.index, wanted.entry.packets);
        let pmtu = u64::from(wanted.id.pmtu);
        let start = u64::from(wanted.index) * pmtu;
        let rest = u64::from(wanted.wqe.length).saturating_sub(start).min(pmtu);
        let payload_len = usize::try_from(rest).unwrap_or(0);
        let layout = Layout::of(Self::MODE, opcode).ok_or(WcStatus::LocQpOpErr)?;
        Ok(Self { wanted, layout, start, payload_len })
    }

    /// Bytes of the payload.
    #[inline]
    pub const fn payload_len(&self) -> usize {
        self.payload_len
    }

    /// Writes the packet to the start of `frame` and returns its length.
    ///
    /// # Errors
    /// The status with which the work request fails, if its local memory may not be read.
    #[inline(always)]
    pub fn build(&self, memory: &MemoryTable, frame: &mut [u8]) -> Result<usize, WcStatus> {
        let pad = usize::from(bth::pad_of(self.payload_len));
        let header_len = usize::from(self.layout.len);
        let transport_len = header_len + self.payload_len + pad + ICRC_LEN;
        let base = self.wanted.template.len();
        let end = base + transport_len;
        let Some(frame) = frame.get_mut(..end) else { return Err(WcStatus::LocQpOpErr) };
        self.wanted.template.emit(frame, transport_len);
        self.write_headers(&mut frame[base..base + header_len]);
        let l3 = self.wanted.template.l3_offset();
        let Wanted { wqe, id, .. } = self.wanted;
        let payload = Payload { wqe, pd: id.pd, start: self.start, len: self.payload_len };
        payload.write_sealed(memory, &mut frame[l3..], base + header_len - l3)?;
        Ok(end)
    }

    #[inline(always)]
    fn write_headers(&self, headers: &mut [u8]) {
        let Wanted { id, wqe, entry, index, ack_req, .. } = self.wanted;
        let layout = self.layout;
        let last = index + 1 == entry.packets;
        let header = Bth {
            solicited: last && wqe.flags.contains(SendFlags::SOLICITED),
            pad: bth::pad_of(self.payload_len),
            pkey: id.pkey,
            dest_qp: id.dest_qpn,
            ack_req,
            psn: entry.first_psn.add(index),
            ..Bth::new(Self::MODE, layout.opcode)
        };
        let [offset_0, offset_1, offset_hi, _] = index.to_le_bytes();
        let meta = Meta { msn: entry.msn, offset: u16::from_le_bytes([offset_0, offset_1]) };
        let ssnw = Ssnw { offset_hi, ssn: entry.ssn };
        // The two that nearly all packets are: all headers in one run of stores.
        match wqe.opcode {
            SendOpcode::Write if !PLAIN => return emit::write(headers, &header, &self.reth(), &meta),
            SendOpcode::Send if !PLAIN => return emit::send(headers, &header, &meta, &ssnw),
            _ => {}
        }
        bth::emit(headers, &header);
        if layout.reth != 0 {
            self.reth().emit(&mut headers[usize::from(layout.reth)..]);
        }
        if layout.imm != 0 {
            emit::imm(&mut headers[usize::from(layout.imm)..], wqe.imm);
        }
        if layout.ieth != 0 {
            emit::ieth(&mut headers[usize::from(layout.ieth)..], wqe.imm);
        }
        if layout.meta != 0 {
            meta.emit(&mut headers[usize::from(layout.meta)..]);
        }
        if layout.ssnw != 0 {
            ssnw.emit(&mut headers[usize::from(layout.ssnw)..]);
        }
    }

    /// Where this packet's payload goes, and what of the message remains from it on.
    #[inline]
    fn reth(&self) -> Reth {
        let wqe = self.wanted.wqe;
        let rest = u64::from(wqe.length).saturating_sub(self.start);
        let (va, rkey) = wqe.remote();
        Reth { va: va.wrapping_add(self.start), rkey, dma_len: u32::try_from(rest).unwrap_or(u32::MAX) }
    }
}

/// The opcode of packet `index` of `packets`.
#[inline]
pub(in crate::qp) fn opcode_at(request: SendOpcode, index: u32, packets: u32) -> Opcode {
    let (first, last) = (index == 0, index + 1 == packets);
    OPCODES[request as usize][usize::from(first) | usize::from(last) << 1]
}

/// By request: a packet in the middle, the first, the last, the only one. READs and atomics have one for each of our
/// packets, and what is local has none.
const OPCODES: [[Opcode; 4]; SendOpcode::COUNT] = {
    use Opcode::*;
    let mut opcodes = [[Cnp; 4]; SendOpcode::COUNT];
    opcodes[SendOpcode::Send as usize] = [RcSendMiddle, RcSendFirst, RcSendLast, RcSendOnly];
    opcodes[SendOpcode::SendWithImm as usize] = [RcSendMiddle, RcSendFirst, RcSendLastImm, RcSendOnlyImm];
    opcodes[SendOpcode::SendWithInv as usize] = [RcSendMiddle, RcSendFirst, RcSendLastInv, RcSendOnlyInv];
    opcodes[SendOpcode::Write as usize] = [RcWriteMiddle, RcWriteFirst, RcWriteLast, RcWriteOnly];
    opcodes[SendOpcode::WriteWithImm as usize] =
        [RcWriteMiddle, RcWriteFirst, RcWriteLastImm, RcWriteOnlyImm];
    opcodes[SendOpcode::Read as usize] = [RcReadRequest; 4];
    opcodes[SendOpcode::CompareSwap as usize] = [RcCompareSwap; 4];
    opcodes[SendOpcode::FetchAdd as usize] = [RcFetchAdd; 4];
    opcodes
};
