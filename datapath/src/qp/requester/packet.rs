//! Request packets: headers from the queue pair's template and the work request, payload gathered
//! in one copy.

#[cfg(test)]
mod tests;

use crate::memory::{Access, MemoryTable};
use crate::qp::packet::PacketBuilder;
use crate::qp::payload::Payload;
use crate::qp::send_stream::Stop;
use crate::qp::{NotSent, Qp, QpIdentity, Qpc, SqEntry, TxSlots, Units};
use crate::queue::{SendFlags, SendOpcode, SendWqe, WcStatus};
use wire::{AtomicEth, Bth, Fields, Meta, Opcode, Psn, Rdw, Reth, Ssnw, Template, WireMode};

/// Which packet of which message to build.
#[derive(Clone, Copy)]
pub(in crate::qp) struct Wanted<'a> {
    pub id: &'a QpIdentity,
    pub template: &'a Template,
    pub wqe: SendWqe<'a>,
    pub entry: SqEntry,
    /// In the SRNIC dialect, first PSN of its response, if it has one.
    pub rpsn_start: Psn,
    /// Index of the packet in its message. In Plain that of a READ's is the first packet of its
    /// response that is missing; a READ or atomic of the SRNIC dialect has one packet, 0.
    pub index: u32,
    pub ack_req: bool,
}

/// What became of a packet of a request.
pub(in crate::qp) enum Sent {
    /// It was sent, with so many bytes of payload.
    Payload(usize),
    /// It cannot be sent: its request fails with this status.
    Failed(WcStatus),
}

/// Builds a packet in a frame of the port's and sends it. `PLAIN` chooses the dialect when it is
/// compiled, so that neither pays for the other.
#[inline(never)]
pub(in crate::qp) fn emit<const PLAIN: bool, T: TxSlots>(
    wanted: &Wanted<'_>,
    units: &Units,
    slots: &mut T,
) -> Result<Sent, Stop> {
    // What the response could not be placed into is not asked for.
    if wanted.wqe.opcode.has_response()
        && let Err(status) = wanted.check_target(&units.memory)
    {
        return Ok(Sent::Failed(status));
    }
    let payload = wanted.payload(&units.memory);
    let emitted = slots.emit(wanted.id.loopback, |frame| wanted.packet::<PLAIN>()?.build(&payload, frame));
    match emitted {
        Ok(()) => Ok(Sent::Payload(payload.len)),
        Err(NotSent::Failed(status)) => Ok(Sent::Failed(status)),
        Err(NotSent::PortFull) => Err(Stop::PortFull),
    }
}

impl<'a> Wanted<'a> {
    /// Packet `index` of the request at `position`, which has this entry and asks for no response.
    #[inline(always)]
    pub fn new(qp: &'a Qp<'_>, position: u32, entry: SqEntry, index: u32, ack_req: bool) -> Self {
        let (id, template, wqe) = (&qp.hot.id, &qp.hot.template, qp.cold.send_queue.wqe(position));
        Self { id, template, wqe, entry, rpsn_start: Psn::new(0), index, ack_req }
    }

    /// Bytes of the message, or of the response, before this packet.
    #[inline(always)]
    const fn start(&self) -> u64 {
        self.index as u64 * self.id.pmtu as u64
    }

    #[inline(always)]
    fn payload(&self, memory: &'a MemoryTable) -> Payload<'a> {
        let Self { id, wqe, .. } = *self;
        let start = self.start();
        let rest = u64::from(wqe.length).saturating_sub(start).min(id.pmtu.into());
        let len = if wqe.opcode.has_response() { 0 } else { usize::try_from(rest).unwrap_or(0) };
        Payload { memory, wqe, pd: id.pd, start, len }
    }

    /// The headers.
    ///
    /// # Errors
    /// The status with which the work request fails, if the dialect has no such packet.
    #[inline(always)]
    fn packet<const PLAIN: bool>(&self) -> Result<PacketBuilder<'a>, WcStatus> {
        let Self { id, template, wqe, entry, rpsn_start, index, ack_req } = *self;
        let mode = if PLAIN { WireMode::Plain } else { WireMode::Srnic };
        let asks = wqe.opcode.has_response();
        let last = index + 1 == entry.packets;
        let bth = Bth {
            solicited: last && !asks && wqe.flags.contains(SendFlags::SOLICITED),
            ack_req,
            psn: entry.first_psn.add(index),
            ..id.bth(mode, opcode_at(wqe.opcode, index, entry.packets))
        };
        let (meta, ssnw) = (Meta::of(entry.msn, index), Ssnw::of(index, entry.ssn));
        let [rslot, ..] = entry.ssn.get().to_le_bytes();
        let fields = Fields {
            reth: if wqe.opcode.names_remote() { self.reth() } else { Reth::default() },
            imm: wqe.imm,
            ieth: wqe.imm,
            atomic_eth: if wqe.opcode.is_atomic() { self.atomic_eth() } else { AtomicEth::default() },
            meta,
            ssnw,
            rdw: Rdw { rslot, rpsn_start },
            ..Fields::default()
        };
        PacketBuilder::new(template, mode, bth, fields)
    }

    /// Where this packet's payload goes or comes from, and what of the message remains from it on.
    #[inline]
    fn reth(&self) -> Reth {
        let rest = u64::from(self.wqe.length).saturating_sub(self.start());
        let (va, rkey) = self.wqe.remote();
        Reth { va: va.wrapping_add(self.start()), rkey, dma_len: u32::try_from(rest).unwrap_or(u32::MAX) }
    }

    fn atomic_eth(&self) -> AtomicEth {
        let ((va, rkey), (compare, swap_add)) = (self.wqe.remote(), self.wqe.operands());
        AtomicEth { va, rkey, swap_add, compare }
    }

    #[cold]
    fn check_target(&self, memory: &MemoryTable) -> Result<(), WcStatus> {
        for sge in self.wqe.sges() {
            memory
                .check(sge.lkey, self.id.pd, sge.addr, sge.length.into(), Access::LOCAL_WRITE)
                .map_err(|_| WcStatus::LocProtErr)?;
        }
        Ok(())
    }
}

/// Packets of a request's response: at least one.
pub(in crate::qp) fn response_packets(qpc: &Qpc, wqe: &SendWqe<'_>) -> u32 {
    if wqe.opcode.is_atomic() { 1 } else { wqe.length.div_ceil(qpc.id.pmtu.into()).max(1) }
}

/// The opcode of packet `index` of `packets`.
#[inline]
pub(in crate::qp) fn opcode_at(request: SendOpcode, index: u32, packets: u32) -> Opcode {
    let (first, last) = (index == 0, index + 1 == packets);
    OPCODES[request as usize][usize::from(first) | usize::from(last) << 1]
}

/// By request: a packet in the middle, the first, the last, the only one. READs and atomics have
/// one for each of our packets, and what is local has none.
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
