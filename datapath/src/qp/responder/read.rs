//! What a READ or atomic may ask for, in either dialect, and how it is carried out.

use super::place::DMA_LEN_MAX;
use super::refuse::Refused;
use crate::memory::{Access, Mapped};
use crate::qp::response::Source;
use crate::qp::{Qpc, Units};
use crate::queue::ATOMIC_BYTES;
use crate::stream::{Operation, ResponseRequest};
use wire::{Opcode, Packet};

/// Address, key and operation of a READ or atomic, in either dialect.
#[inline(always)]
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
pub(in crate::qp) fn check_memory<'m>(
    qpc: &Qpc,
    units: &'m Units,
    request: &ResponseRequest,
) -> Result<Mapped<'m>, Refused> {
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

/// Does what can be done before the response is sent, the keys checked again, and returns what is
/// sent: an atomic works on its word now, a READ's memory is read as its packets are sent.
pub(in crate::qp) fn carry_out(
    qpc: &Qpc,
    units: &mut Units,
    request: &ResponseRequest,
) -> Result<Source, Refused> {
    let word = check_memory(qpc, units, request)?;
    let before = match request.operation {
        Operation::Read { len } => {
            units.counters.rx_reads += 1;
            return Ok(Source::Memory { va: request.va, rkey: request.rkey, len });
        }
        Operation::CompareSwap { compare, swap } => word.compare_swap(compare, swap),
        Operation::FetchAdd { add } => word.fetch_add(add),
    };
    let before = before.ok_or(Refused::INVALID)?;
    units.counters.rx_atomics += 1;
    Ok(Source::Saved(before))
}
