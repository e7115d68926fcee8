//! Emission: messages complete in MSN order, whatever order their packets came in.

use super::refuse::refuse;
use crate::engine::Units;
use crate::memory::Access;
use crate::qp::context::{QpCold, Qpc};
use crate::queue::{Completion, WcFlags, WcOpcode, WcStatus};
use crate::stream::{CompletionSlot, SlotKind};
use wire::{NakCode, Psn, Ssn};

/// The end of a message, ready to be completed.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndOfMessage {
    pub psn: Psn,
    pub kind: SlotKind,
    pub ssn: Option<Ssn>,
    pub imm: Option<u32>,
    pub solicited: bool,
    pub byte_len: u32,
}

/// Completes the oldest message: MSN advances, and the receive that it consumed is reported. False if the completion
/// queue overflowed.
#[inline]
pub(super) fn complete_message(
    qpc: &mut Qpc,
    cold: &mut QpCold,
    units: &mut Units,
    end: &EndOfMessage,
) -> bool {
    let rsp = &mut qpc.rsp;
    rsp.completed = (rsp.completed + 1) & 0xFF_FFFF;
    rsp.message_psn = end.psn.next();
    rsp.in_progress = None;
    if end.ssn.is_none() || (end.kind == SlotKind::Write && end.imm.is_none()) {
        return true;
    }
    let wr_id = cold.receives.finish_next(units, &mut rsp.recv_head);
    rsp.ssn = rsp.ssn.next();
    let mut flags = WcFlags::empty();
    flags.set(WcFlags::WITH_IMM, end.imm.is_some());
    flags.set(WcFlags::SOLICITED, end.solicited);
    let opcode = if end.kind == SlotKind::Write { WcOpcode::RecvRdmaWithImm } else { WcOpcode::Recv };
    let completion = Completion {
        wr_id,
        status: WcStatus::Success,
        opcode,
        flags,
        byte_len: end.byte_len,
        imm: end.imm.unwrap_or(0),
        qpn: qpc.id.qpn,
    };
    units.complete(cold.recv_cq, &completion)
}

/// Emits all messages that end before ePSN, in MSN order. False if the queue pair went to ERR on the way.
pub(super) fn emit_ready(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) -> bool {
    loop {
        let (msn, epsn) = (qpc.rsp.msn(), qpc.rx.epsn());
        let Some(recovery) = cold.rx_recovery.as_mut() else { return true };
        let Some(slot) = recovery.slots.take_below(msn, epsn) else { return true };
        if let Err((code, status)) = emit(qpc, cold, units, &slot) {
            let held = slot.ssn.is_some().then_some(status);
            refuse(qpc, cold, units, slot.end_psn, code, held);
            return false;
        }
        let end = EndOfMessage {
            psn: slot.end_psn,
            kind: slot.kind,
            ssn: slot.ssn,
            imm: slot.imm,
            solicited: slot.solicited,
            byte_len: slot.byte_len,
        };
        if !complete_message(qpc, cold, units, &end) {
            refuse(qpc, cold, units, slot.end_psn, NakCode::RemoteOperational, None);
            return false;
        }
    }
}

/// The checks that wait for emission, and a parked WRITE's bytes, whose key may have ended meanwhile.
fn emit(qpc: &Qpc, cold: &QpCold, units: &Units, slot: &CompletionSlot) -> Result<(), (NakCode, WcStatus)> {
    let continuous = slot.offset_matches(qpc.rsp.message_psn);
    let in_turn = slot.ssn.is_none_or(|ssn| ssn == qpc.rsp.ssn);
    let posted = slot.ssn.is_none() || cold.receives.has_next(qpc.rsp.recv_head);
    if !continuous || !in_turn || !posted {
        return Err((NakCode::InvalidRequest, WcStatus::RemInvReqErr));
    }
    let Some(parked) = &slot.parked else { return Ok(()) };
    let len = parked.payload().len() as u64;
    units
        .memory
        .check(parked.rkey, qpc.id.pd, parked.va, len, Access::REMOTE_WRITE)
        .map_err(|_| (NakCode::RemoteAccess, WcStatus::LocAccessErr))?
        .write(parked.payload());
    Ok(())
}
