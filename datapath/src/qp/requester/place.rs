//! Where a response goes: straight into the memory that its request names.

use crate::memory::MemoryTable;
use crate::qp::context::Qpc;
use crate::qp::scatter::scatter;
use crate::queue::{SendOpcode, SendWqe, WcStatus};
use wire::{Kind, Packet, Syndrome};

/// Copies the payload of packet `index` of a response, or the atomic's result, to where the request
/// wants it. `is_at_place`: the packet's opcode says that it stands where it does in a response.
///
/// # Errors
/// The status with which the request fails.
#[inline(always)]
pub(in crate::qp) fn place(
    qpc: &Qpc,
    memory: &MemoryTable,
    wqe: &SendWqe<'_>,
    packet: Packet<'_>,
    index: u32,
    is_at_place: bool,
) -> Result<(), WcStatus> {
    if packet.aeth().is_some_and(|aeth| !matches!(aeth.syndrome, Syndrome::Ack { .. })) {
        return Err(WcStatus::BadRespErr);
    }
    let saved = packet.atomic_ack().map(u64::to_ne_bytes);
    let start = u64::from(index) * u64::from(qpc.id.pmtu);
    let bytes = match (&saved, packet.opcode().kind()) {
        (Some(saved), Kind::AtomicAck) if wqe.opcode.is_atomic() && packet.payload().is_empty() => &saved[..],
        (None, Kind::ReadResponse) if wqe.opcode == SendOpcode::Read => {
            let rest = u64::from(wqe.length).saturating_sub(start).min(qpc.id.pmtu.into());
            if packet.payload().len() as u64 != rest || !is_at_place {
                return Err(WcStatus::BadRespErr);
            }
            packet.payload()
        }
        _ => return Err(WcStatus::BadRespErr),
    };
    scatter(memory, qpc.id.pd, wqe.sges(), start, bytes).map_err(|_| WcStatus::LocProtErr)
}
