//! Request packets: headers from the queue pair's template and the work request, payload gathered in one copy.

use crate::memory::{Access, MemoryTable};
use crate::qp::context::{QpIdentity, SqEntry};
use crate::queue::{SendFlags, SendOpcode, SendWqe, WcStatus};
use wire::{Bth, Layout, Meta, Msn, Opcode, Psn, Reth, Ssnw, Template, WireMode, bth, emit, icrc};

const ICRC_LEN: usize = 4;

/// Which packet of which message to build.
pub(super) struct PacketPlan<'a> {
    pub id: &'a QpIdentity,
    pub template: &'a Template,
    pub wqe: &'a SendWqe<'a>,
    pub entry: &'a SqEntry,
    pub msn: Msn,
    /// Index of the packet in its message.
    pub index: u32,
    pub ack_req: bool,
}

impl PacketPlan<'_> {
    fn opcode(&self) -> Opcode {
        opcode_at(self.wqe.opcode, self.index, self.entry.packets)
    }

    /// Bytes before the payload, from the start of the frame.
    #[inline]
    pub fn header_len(&self) -> usize {
        let layout = Layout::of(WireMode::Srnic, self.opcode());
        self.template.len() + layout.map_or(0, |layout| usize::from(layout.len))
    }

    /// PSN of the packet.
    #[inline]
    pub const fn psn(&self) -> Psn {
        self.entry.first_psn.add(self.index)
    }

    /// Bytes of its payload.
    #[inline]
    pub fn payload_len(&self) -> usize {
        let before = u64::from(self.index) * u64::from(self.id.pmtu);
        let rest = u64::from(self.wqe.length).saturating_sub(before);
        usize::try_from(rest).unwrap_or(usize::MAX).min(usize::from(self.id.pmtu))
    }

    /// Writes the packet to the start of `frame` and returns its length.
    ///
    /// # Errors
    /// The status with which the work request fails, if its local memory may not be read.
    #[inline]
    pub fn build(&self, memory: &MemoryTable, frame: &mut [u8]) -> Result<usize, WcStatus> {
        let opcode = self.opcode();
        let Some(layout) = Layout::of(WireMode::Srnic, opcode) else { return Err(WcStatus::LocQpOpErr) };
        let base = self.template.len();
        let payload_len = self.payload_len();
        let pad = bth::pad_of(payload_len);
        let transport_len = usize::from(layout.len) + payload_len + usize::from(pad) + ICRC_LEN;
        let end = base + transport_len;
        let Some(frame) = frame.get_mut(..end) else { return Err(WcStatus::LocQpOpErr) };
        self.template.emit(frame, transport_len);
        let transport = &mut frame[base..];
        self.write_headers(opcode, layout, pad, payload_len, transport);
        let body = &mut transport[usize::from(layout.len)..];
        self.gather(memory, &mut body[..payload_len])?;
        body[payload_len..payload_len + usize::from(pad)].fill(0);
        icrc::seal(&mut frame[self.template.l3_offset()..]);
        Ok(end)
    }

    #[inline]
    fn write_headers(
        &self,
        opcode: Opcode,
        layout: &Layout,
        pad: u8,
        payload_len: usize,
        transport: &mut [u8],
    ) {
        let header = Bth {
            solicited: opcode.is_end() && self.wqe.flags.contains(SendFlags::SOLICITED),
            pad,
            pkey: self.id.pkey,
            dest_qp: self.id.dest_qpn,
            ack_req: self.ack_req,
            psn: self.psn(),
            ..Bth::new(WireMode::Srnic, opcode)
        };
        bth::emit(transport, &header);
        let [offset_0, offset_1, offset_hi, _] = self.index.to_le_bytes();
        let meta = Meta { msn: self.msn, offset: u16::from_le_bytes([offset_0, offset_1]) };
        meta.emit(&mut transport[usize::from(layout.meta)..]);
        if layout.reth != 0 {
            let done = u64::from(self.index) * u64::from(self.id.pmtu);
            let rest = u64::from(self.wqe.length).saturating_sub(done);
            debug_assert!(rest >= payload_len as u64);
            let reth = Reth {
                va: self.wqe.remote_addr.wrapping_add(done),
                rkey: self.wqe.rkey,
                dma_len: u32::try_from(rest).unwrap_or(u32::MAX),
            };
            reth.emit(&mut transport[usize::from(layout.reth)..]);
        }
        if layout.imm != 0 {
            emit::imm(&mut transport[usize::from(layout.imm)..], self.wqe.imm);
        }
        if layout.ssnw != 0 {
            let ssnw = Ssnw { offset_hi, ssn: self.entry.ssn };
            ssnw.emit(&mut transport[usize::from(layout.ssnw)..]);
        }
    }

    /// Copies the packet's part of the message to `target`.
    #[inline]
    fn gather(&self, memory: &MemoryTable, target: &mut [u8]) -> Result<(), WcStatus> {
        let start = u64::from(self.index) * u64::from(self.id.pmtu);
        if self.wqe.is_inline() {
            self.wqe.read_inline(usize::try_from(start).unwrap_or(usize::MAX), target);
            return Ok(());
        }
        let mut skip = start;
        let mut rest = target;
        for sge in self.wqe.sges() {
            if rest.is_empty() {
                break;
            }
            let room = u64::from(sge.length).saturating_sub(skip);
            if room == 0 {
                skip -= u64::from(sge.length);
                continue;
            }
            let take = usize::try_from(room).unwrap_or(usize::MAX).min(rest.len());
            let (now, later) = rest.split_at_mut(take);
            memory
                .check(sge.lkey, self.id.pd, sge.addr.wrapping_add(skip), now.len() as u64, Access::empty())
                .map_err(|_| WcStatus::LocProtErr)?
                .read(now);
            skip = 0;
            rest = later;
        }
        Ok(())
    }
}

/// The opcode of packet `index` of `packets`.
#[inline]
fn opcode_at(request: SendOpcode, index: u32, packets: u32) -> Opcode {
    let (first, last) = (index == 0, index + 1 == packets);
    match (request, first, last) {
        (SendOpcode::Send, true, true) => Opcode::RcSendOnly,
        (SendOpcode::Send, false, true) => Opcode::RcSendLast,
        (SendOpcode::SendWithImm, true, true) => Opcode::RcSendOnlyImm,
        (SendOpcode::SendWithImm, false, true) => Opcode::RcSendLastImm,
        (SendOpcode::Send | SendOpcode::SendWithImm, true, false) => Opcode::RcSendFirst,
        (SendOpcode::Send | SendOpcode::SendWithImm, false, false) => Opcode::RcSendMiddle,
        (SendOpcode::Write, true, true) => Opcode::RcWriteOnly,
        (SendOpcode::Write, false, true) => Opcode::RcWriteLast,
        (SendOpcode::WriteWithImm, true, true) => Opcode::RcWriteOnlyImm,
        (SendOpcode::WriteWithImm, false, true) => Opcode::RcWriteLastImm,
        (SendOpcode::Write | SendOpcode::WriteWithImm, true, false) => Opcode::RcWriteFirst,
        (SendOpcode::Write | SendOpcode::WriteWithImm, false, false) => Opcode::RcWriteMiddle,
    }
}
