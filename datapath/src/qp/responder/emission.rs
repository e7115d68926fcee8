//! Emission: messages complete in MSN order, whatever order their packets came in.

use super::place::invalidate;
use super::read::execute;
use super::refuse::{Refused, refuse};
use crate::engine::Units;
use crate::memory::Access;
use crate::qp::context::{QpCold, Qpc};
use crate::queue::{Completion, WcFlags, WcOpcode, WcStatus};
use crate::stream::{CompletionSlot, Deferred, SlotKind};
use wire::{NakCode, Psn, Ssn};

/// The end of a message, ready to be completed.
#[derive(Clone, Copy, Debug)]
pub(in crate::qp) struct EndOfMessage {
    pub psn: Psn,
    pub kind: SlotKind,
    pub ssn: Option<Ssn>,
    /// Immediate data, or the key that is no more.
    pub imm: Option<u32>,
    pub invalidates: bool,
    pub solicited: bool,
    pub byte_len: u32,
}

/// Completes the oldest message: MSN advances, and the receive that it consumed is reported. False if the completion
/// queue overflowed.
#[inline(always)]
pub(in crate::qp) fn complete_message(
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
    flags.set(WcFlags::WITH_IMM, end.imm.is_some() && !end.invalidates);
    flags.set(WcFlags::WITH_INV, end.invalidates);
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
        src_qp: 0,
    };
    units.complete(cold.recv_cq, &completion)
}

/// Emits all messages that end before ePSN, in MSN order. False if the queue pair went to ERR on the way.
pub(super) fn emit_ready(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) -> bool {
    loop {
        let (msn, epsn) = (qpc.rsp.msn(), qpc.rx.epsn());
        let Some(recovery) = cold.rx_recovery.as_mut() else { return true };
        let Some(slot) = recovery.slots.take_below(msn, epsn) else { return true };
        if let Err(refused) = emit(qpc, cold, units, &slot) {
            let Refused::Nak(code, status) = refused else { return true };
            let held = slot.ssn.is_some().then_some(status);
            refuse(qpc, cold, units, slot.end_psn, code, held);
            return false;
        }
        let end = EndOfMessage {
            psn: slot.end_psn,
            kind: slot.kind,
            ssn: slot.ssn,
            imm: slot.imm,
            invalidates: matches!(slot.deferred, Some(Deferred::Invalidate(_))),
            solicited: slot.solicited,
            byte_len: slot.byte_len,
        };
        if !complete_message(qpc, cold, units, &end) {
            refuse(qpc, cold, units, slot.end_psn, NakCode::RemoteOperational, None);
            return false;
        }
    }
}

/// The checks that wait for emission, and what is done only then: a parked WRITE, whose key may have ended meanwhile, a
/// READ or an atomic.
fn emit(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units, slot: &CompletionSlot) -> Result<(), Refused> {
    let continuous = slot.offset_matches(qpc.rsp.message_psn);
    let in_turn = slot.ssn.is_none_or(|ssn| ssn == qpc.rsp.ssn);
    let posted = slot.ssn.is_none() || cold.receives.has_next(qpc.rsp.recv_head);
    if !continuous || !in_turn || !posted {
        return Err(Refused::INVALID);
    }
    let parked = match &slot.deferred {
        None => return Ok(()),
        Some(Deferred::Respond(request)) => {
            return execute(qpc, cold, units, request, slot.end_psn, slot.msn);
        }
        Some(Deferred::Invalidate(key)) => return invalidate(qpc, units, *key),
        Some(Deferred::Write(parked)) => parked,
    };
    let len = parked.payload().len() as u64;
    units
        .memory
        .check_remote(parked.rkey, qpc.id.peer(), parked.va, len, Access::REMOTE_WRITE)
        .map_err(|_| Refused::ACCESS)?
        .write(parked.payload());
    Ok(())
}
