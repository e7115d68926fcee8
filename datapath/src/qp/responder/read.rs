//! READ and atomic requests: checked when they arrive, executed when it is their turn, never twice
//! (protocol.md 2.4).

use super::RequestPacket;
use super::refuse::Refused;
use super::responses::Response;
use crate::memory::{Access, Mapped};
use crate::qp::Units;
use crate::qp::context::Qpc;
use crate::qp::pair::Qp;
use crate::qp::responder::place::DMA_LEN_MAX;
use crate::qp::response::Source;
use crate::queue::ATOMIC_BYTES;
use crate::sched::SchedFlags;
use crate::stream::{Operation, ResponseRequest};
use wire::{Msn, Opcode, Packet, Psn};

/// What the headers of a READ or atomic ask for.
#[cold]
pub(super) fn parse(packet: Packet<'_>) -> Option<ResponseRequest> {
    let rdw = packet.rdw()?;
    let (va, rkey, operation) = operation_of(packet)?;
    Some(ResponseRequest { rslot: rdw.rslot, rpsn_start: rdw.rpsn_start, va, rkey, operation })
}

/// Address, key and operation of a READ or atomic, in either dialect.
pub(in crate::qp) fn operation_of(packet: Packet<'_>) -> Option<(u64, u32, Operation)> {
    if let Some(reth) = packet.reth() {
        return Some((reth.va, reth.rkey, Operation::Read { len: reth.dma_len }));
    }
    let atomic = packet.atomic_eth()?;
    let operation = if packet.opcode() == Opcode::RcCompareSwap {
        Operation::CompareSwap { compare: atomic.compare, swap: atomic.swap_add }
    } else {
        Operation::FetchAdd { add: atomic.swap_add }
    };
    Some((atomic.va, atomic.rkey, operation))
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

/// The operation itself: allowed, aligned, not too long.
pub(in crate::qp) fn check_operation(qpc: &Qpc, request: &ResponseRequest) -> Result<(), Refused> {
    let (needed, len) = extent(request);
    let aligned = needed == Access::REMOTE_READ || request.va.is_multiple_of(ATOMIC_BYTES.into());
    let fits = qpc.id.access.contains(needed) && aligned && len <= DMA_LEN_MAX;
    if fits { Ok(()) } else { Err(Refused::INVALID) }
}

/// The access that the request needs, and its bytes.
const fn extent(request: &ResponseRequest) -> (Access, u32) {
    match request.operation {
        Operation::Read { len } => (Access::REMOTE_READ, len),
        Operation::CompareSwap { .. } | Operation::FetchAdd { .. } => (Access::REMOTE_ATOMIC, ATOMIC_BYTES),
    }
}

/// Packets of the response: at least one.
pub(in crate::qp) fn packets_of_response(qpc: &Qpc, request: &ResponseRequest) -> u32 {
    match request.operation {
        Operation::Read { len } => len.div_ceil(qpc.id.pmtu.into()).max(1),
        Operation::CompareSwap { .. } | Operation::FetchAdd { .. } => 1,
    }
}

/// The memory that the request names, if its key permits what it asks.
fn check_memory<'m>(qpc: &Qpc, units: &'m Units, request: &ResponseRequest) -> Result<Mapped<'m>, Refused> {
    let (needed, len) = extent(request);
    let mapped = units.memory.check_remote(request.rkey, qpc.id.peer(), request.va, len.into(), needed);
    let mapped = mapped.map_err(|_| Refused::ACCESS)?;
    // A region may have been registered so that its aligned addresses are not aligned in this
    // host's memory.
    if needed == Access::REMOTE_ATOMIC && !mapped.is_atomic() {
        return Err(Refused::INVALID);
    }
    Ok(mapped)
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
    let source = match (request.operation, carry_out(qp.hot, units, request)?) {
        (Operation::Read { len }, _) => Source::Memory { va: request.va, rkey: request.rkey, len },
        (_, before) => Source::Saved(before.unwrap_or_default()),
    };
    let response = Response { request_psn, msn, start: request.rpsn_start, packets, source };
    let record = responses.accept(units.now, request.rslot, response);
    units.tell_slow_path(record);
    units.counters.rx_reads += u64::from(matches!(source, Source::Memory { .. }));
    units.counters.rx_atomics += u64::from(matches!(source, Source::Saved(_)));
    qp.wake(qp.cold.of_responses(), units);
    Ok(())
}

/// Does what can be done before the response is sent, the keys checked again: an atomic works on
/// its word, and what was there before is returned.
pub(in crate::qp) fn carry_out(
    qpc: &Qpc,
    units: &Units,
    request: &ResponseRequest,
) -> Result<Option<u64>, Refused> {
    let word = check_memory(qpc, units, request)?;
    let before = match request.operation {
        Operation::Read { .. } => return Ok(None),
        Operation::CompareSwap { compare, swap } => word.compare_swap(compare, swap),
        Operation::FetchAdd { add } => word.fetch_add(add),
    };
    before.map(Some).ok_or(Refused::INVALID)
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
