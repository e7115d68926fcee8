//! READ and atomic requests: checked when they arrive, executed when it is their turn, never twice
//! (protocol.md 2.4).

use super::responses::Response;
use crate::qp::responder::{
    Refused, RequestPacket, carry_out, check_memory, check_operation, operation_of, packets_of_response,
};
use crate::qp::{Qp, Units};
use crate::sched::SchedFlags;
use crate::stream::ResponseRequest;
use wire::{Msn, Packet, Psn};

/// What the headers of a READ or atomic ask for.
#[cold]
pub(super) fn parse(packet: Packet<'_>) -> Option<ResponseRequest> {
    let rdw = packet.rdw()?;
    let (va, rkey, operation) = operation_of(packet)?;
    Some(ResponseRequest { rslot: rdw.rslot, rpsn_start: rdw.rpsn_start, va, rkey, operation })
}

/// Executes a request for a response, nothing before it missing.
#[cold]
#[inline(never)]
pub(super) fn execute_in_order(
    qp: &mut Qp<'_>,
    units: &mut Units,
    packet: RequestPacket<'_>,
) -> Result<(), Refused> {
    let (msn, request) = (qp.hot.rsp.msn(), check(qp, units, &packet)?);
    execute(qp, units, &request, packet.psn, msn)
}

/// Everything about the request that does not depend on its turn: operation, slot, lengths, key
/// (protocol.md 1.6).
pub(super) fn check(
    qp: &Qp<'_>,
    units: &Units,
    packet: &RequestPacket<'_>,
) -> Result<ResponseRequest, Refused> {
    let request = packet.request.ok_or(Refused::INVALID)?;
    check_operation(qp.hot, &request)?;
    let responses = qp.cold.responses.as_deref().ok_or(Refused::INVALID)?;
    if !responses.admits(request.rslot, packets_of_response(qp.hot, &request)) || !packet.payload.is_empty() {
        return Err(Refused::INVALID);
    }
    check_memory(qp.hot, units, &request)?;
    Ok(request)
}

/// Executes a request whose turn it is: keys and slot are checked again, and its first rPSN must be
/// the next.
pub(super) fn execute(
    qp: &mut Qp<'_>,
    units: &mut Units,
    request: &ResponseRequest,
    request_psn: Psn,
    msn: Msn,
) -> Result<(), Refused> {
    let packets = packets_of_response(qp.hot, request);
    let responses = qp.cold.responses.as_deref_mut().ok_or(Refused::INVALID)?;
    if request.rpsn_start != responses.next_psn() || !responses.admits(request.rslot, packets) {
        return Err(Refused::INVALID);
    }
    let source = carry_out(qp.hot, units, request)?;
    let response = Response { request_psn, msn, start: request.rpsn_start, packets, source };
    let record = responses.accept(units.now, request.rslot, response);
    units.tell_slow_path(record);
    qp.wake(qp.cold.of_responses(), units);
    Ok(())
}

/// A request for a response came again: something of it may be missing there.
#[cold]
pub(super) fn remind(qp: &mut Qp<'_>, units: &mut Units) {
    let Some(responses) = qp.cold.responses.as_deref_mut() else { return };
    if responses.tx.outstanding() == 0 || !qp.hot.id.state.receives() {
        return;
    }
    responses.missed = true;
    if responses.probes == [None; 2] {
        responses.probes = [Some(responses.tx.una()), None];
    }
    qp.hot.responses_sched.insert(SchedFlags::PROBE);
    qp.wake(qp.cold.of_responses(), units);
}
