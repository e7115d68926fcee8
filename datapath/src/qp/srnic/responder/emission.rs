//! Emission: messages complete in MSN order, whatever order their packets came in.

use super::read::execute;
use super::refuse::refuse;
use crate::qp::responder::{EndOfMessage, Refused, in_region, invalidate, report};
use crate::qp::{Qp, Units};
use crate::stream::{CompletionSlot, Deferred, SlotKind};
use wire::{NakCode, Reth};

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
