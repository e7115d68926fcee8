//! READ and atomic requests: executed in order, and answered again from what was kept.

use super::resources::{Reply, Resource};
use super::responder::refuse;
use crate::qp::responder::{
    InOrder, Refused, carry_out, check_operation, operation_of, packets_of_response, pass,
};
use crate::qp::response::Source;
use crate::qp::{Qp, Units};
use crate::stream::{Operation, ResponseRequest};
use wire::{NakCode, Packet, Psn};

/// Executes the request at ePSN: an atomic works on its word now, a READ's memory is read as its
/// packets are sent.
pub(super) fn execute(qp: &mut Qp<'_>, units: &mut Units, packet: &Packet<'_>) -> Result<(), Refused> {
    let request = parse(packet).ok_or(Refused::INVALID)?;
    check_operation(qp.hot, &request)?;
    let resources = qp.cold.plain.as_deref().map(|plain| &plain.rsp.resources);
    if !packet.payload().is_empty() || !resources.is_some_and(|resources| resources.admit()) {
        return Err(Refused::INVALID);
    }
    let source = carry_out(qp.hot, units, &request)?;
    let packets = packets_of_response(qp.hot, &request);
    pass(qp.hot, &mut units.counters, InOrder::messages(1), packets);
    if let Some(plain) = qp.cold.plain.as_deref_mut() {
        plain.rsp.resources.push(Resource::new(packet.psn(), packets, source));
    }
    units.wake(qp.cold.of_responses(), qp.hot, true);
    Ok(())
}

/// A request that was executed before: its response goes once more, of a READ from where it was
/// asked for again. What is not kept any more, or asks for something else, is dropped.
pub(super) fn replay(qp: &mut Qp<'_>, units: &mut Units, packet: &Packet<'_>) {
    let reply = parse(packet).and_then(|request| again(qp, &request, packet.psn()));
    let Some((reply, plain)) = reply.zip(qp.cold.plain.as_deref_mut()) else {
        units.counters.drop_unexpected_response += 1;
        return;
    };
    if plain.rsp.resources.replay(reply) {
        units.wake(qp.cold.of_responses(), qp.hot, true);
    }
}

/// The reply to a duplicate, if it asks for a part of what it asked for before.
fn again(qp: &Qp<'_>, request: &ResponseRequest, psn: Psn) -> Option<Reply> {
    let resource = qp.cold.plain.as_deref()?.rsp.resources.find(psn)?;
    let index = psn.steps_from(resource.first);
    let source = match (resource.source, request.operation) {
        (Source::Saved(value), Operation::CompareSwap { .. } | Operation::FetchAdd { .. }) => {
            Source::Saved(value)
        }
        (Source::Memory { va, rkey, len }, Operation::Read { len: part }) => {
            let start = index.checked_mul(qp.hot.id.pmtu.into())?;
            let inside = request.rkey == rkey
                && request.va == va.wrapping_add(start.into())
                && start.checked_add(part)? <= len;
            inside.then_some(Source::Memory { va: request.va, rkey, len: part })?
        }
        _ => return None,
    };
    let end = psn.add(packets_of_response(qp.hot, request));
    Some(Reply { from: psn, next: psn, end, source })
}

/// What the headers ask for. Of the SRNIC dialect's own words there is nothing.
fn parse(packet: &Packet<'_>) -> Option<ResponseRequest> {
    let (va, rkey, operation) = operation_of(*packet)?;
    Some(ResponseRequest { rslot: 0, rpsn_start: packet.psn(), va, rkey, operation })
}

/// The memory of a response may not be read any more: from `psn` on nothing can be answered.
pub(super) fn revoke(qp: &mut Qp<'_>, units: &mut Units, psn: Psn) {
    if let Some(plain) = qp.cold.plain.as_deref_mut() {
        plain.rsp.resources.clear();
    }
    refuse(qp, units, psn, NakCode::RemoteAccess, None);
}
