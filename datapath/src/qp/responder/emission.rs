//! Emission: messages complete in MSN order, whatever order their packets came in.

use super::place::invalidate;
use super::read::execute;
use super::refuse::{Refused, refuse};
use crate::engine::Units;
use crate::memory::Access;
use crate::qp::context::{QpCold, Qpc};
use crate::queue::{Completion, WcFlags, WcOpcode, WcStatus};
use crate::stream::{CompletionSlot, Deferred, SlotKind};
use wire::NakCode;

/// What is to be reported of a message that has ended.
#[derive(Clone, Copy, Debug)]
pub(in crate::qp) struct EndOfMessage {
    pub kind: SlotKind,
    pub consumes_receive: bool,
    /// Immediate data, or the key that is no more.
    pub imm: Option<u32>,
    pub invalidates: bool,
    pub solicited: bool,
    pub byte_len: u32,
}

impl EndOfMessage {
    /// A SEND of nothing.
    #[inline(always)]
    pub const fn of_send(solicited: bool) -> Self {
        let kind = SlotKind::Send;
        Self { kind, consumes_receive: true, imm: None, invalidates: false, solicited, byte_len: 0 }
    }

    /// The completion of the receive `wr_id` of queue pair `qpn`.
    #[inline(always)]
    pub fn completion(&self, qpn: u32, wr_id: u64) -> Completion {
        let mut flags = WcFlags::empty();
        flags.set(WcFlags::WITH_IMM, self.imm.is_some() && !self.invalidates);
        flags.set(WcFlags::WITH_INV, self.invalidates);
        flags.set(WcFlags::SOLICITED, self.solicited);
        let is_write = self.kind == SlotKind::Write;
        Completion {
            wr_id,
            status: WcStatus::Success,
            opcode: if is_write { WcOpcode::RecvRdmaWithImm } else { WcOpcode::Recv },
            flags,
            byte_len: self.byte_len,
            imm: self.imm.unwrap_or(0),
            qpn,
            src_qp: 0,
        }
    }
}

/// Completes the receive that the oldest message consumed, if it did. False if the completion queue overflowed.
#[inline(always)]
pub(in crate::qp) fn report(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units, end: &EndOfMessage) -> bool {
    if !end.consumes_receive {
        return true;
    }
    let wr_id = cold.receives.finish_next(units, &mut qpc.rsp.recv_head);
    qpc.rsp.ssn = qpc.rsp.ssn.next();
    units.complete(cold.recv_cq, &end.completion(qpc.id.qpn, wr_id))
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
            kind: slot.kind,
            consumes_receive: slot.ssn.is_some() && (slot.kind == SlotKind::Send || slot.imm.is_some()),
            imm: slot.imm,
            invalidates: matches!(slot.deferred, Some(Deferred::Invalidate(_))),
            solicited: slot.solicited,
            byte_len: slot.byte_len,
        };
        qpc.rsp.complete(1, slot.end_psn.next());
        if !report(qpc, cold, units, &end) {
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
