//! Emission: messages complete in MSN order, whatever order their packets came in.

use super::place::{in_region, invalidate};
use super::read::execute;
use super::refuse::{Refused, refuse};
use crate::qp::Units;
use crate::qp::pair::Qp;
use crate::queue::{Completion, WcFlags, WcOpcode, WcStatus};
use crate::stream::{CompletionSlot, Deferred, SlotKind};
use wire::{NakCode, Reth};

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

/// Completes the receive that the oldest message consumed, if it did. False if the completion queue
/// overflowed.
#[inline(always)]
pub(in crate::qp) fn report(qp: &mut Qp<'_>, units: &mut Units, end: &EndOfMessage) -> bool {
    if !end.consumes_receive {
        return true;
    }
    let wr_id = qp.cold.receives.finish_next(units, &mut qp.hot.rsp.recv_head);
    qp.hot.rsp.ssn = qp.hot.rsp.ssn.next();
    units.complete(qp.cold.recv_cq, &end.completion(qp.hot.id.qpn, wr_id))
}

/// Emits all messages that end before ePSN, in MSN order. False if the queue pair went to ERR on
/// the way.
pub(super) fn emit_ready(qp: &mut Qp<'_>, units: &mut Units) -> bool {
    loop {
        let (msn, epsn) = (qp.hot.rsp.msn(), qp.hot.rx.epsn());
        let Some(recovery) = qp.cold.rx_recovery.as_mut() else { return true };
        let Some(slot) = recovery.slots.take_below(msn, epsn) else { return true };
        if let Err(refused) = emit(qp, units, &slot) {
            let Refused::Nak(code, status) = refused else { return true };
            let held = slot.ssn.is_some().then_some(status);
            refuse(qp, units, slot.end_psn, code, held);
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
        qp.hot.rsp.complete(1, slot.end_psn.next());
        if !report(qp, units, &end) {
            refuse(qp, units, slot.end_psn, NakCode::RemoteOperational, None);
            return false;
        }
    }
}

/// The checks that wait for emission, and what is done only then: a parked WRITE, whose key may
/// have ended meanwhile, a READ or an atomic.
fn emit(qp: &mut Qp<'_>, units: &mut Units, slot: &CompletionSlot) -> Result<(), Refused> {
    let continuous = slot.offset_matches(qp.hot.rsp.message_psn);
    let in_turn = slot.ssn.is_none_or(|ssn| ssn == qp.hot.rsp.ssn);
    let posted = slot.ssn.is_none() || qp.cold.receives.has_next(qp.hot.rsp.recv_head);
    if !continuous || !in_turn || !posted {
        return Err(Refused::INVALID);
    }
    let parked = match &slot.deferred {
        None => return Ok(()),
        Some(Deferred::Respond(request)) => {
            return execute(qp, units, request, slot.end_psn, slot.msn);
        }
        Some(Deferred::Invalidate(key)) => return invalidate(qp.hot, units, *key),
        Some(Deferred::Write(parked)) => parked,
    };
    let dma_len = u32::try_from(parked.payload().len()).unwrap_or(u32::MAX);
    let reth = Reth { va: parked.va, rkey: parked.rkey, dma_len };
    in_region(qp.hot, &units.memory, &reth).map_err(|_| Refused::ACCESS)?.write(parked.payload());
    Ok(())
}
