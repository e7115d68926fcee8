//! In-place reordering: every packet's payload goes straight to its final address, in order or not.

use super::RequestPacket;
use super::refuse::Refused;
use crate::memory::{Access, AccessError, Mapped, MemoryTable, ProtectionDomainId};
use crate::qp::receives::Found;
use crate::qp::scatter::{in_element, scatter};
use crate::qp::{Qp, Qpc, Units};
use crate::queue::RecvWqe;
use wire::{Kind, Position, Reth};

/// Longest RDMA message, in bytes (protocol.md 1.4).
pub(in crate::qp) const DMA_LEN_MAX: u32 = 1 << 31;

/// Checks a packet of a SEND or WRITE whose turn it is (operation, receive, lengths, key:
/// protocol.md 1.6), and copies its payload to where it belongs.
#[inline(always)]
pub(in crate::qp) fn place(
    qp: &mut Qp<'_>,
    units: &mut Units,
    packet: &RequestPacket<'_>,
) -> Result<(), Refused> {
    put(qp, units, packet)?;
    if packet.invalidates { invalidate(qp.hot, units, packet.imm.unwrap_or_default()) } else { Ok(()) }
}

/// Where the payload of a packet by itself lands, in order or not.
#[inline(always)]
pub(in crate::qp) fn put(
    qp: &mut Qp<'_>,
    units: &mut Units,
    packet: &RequestPacket<'_>,
) -> Result<(), Refused> {
    match packet.kind {
        Kind::Write => check_write(qp, units, packet)?.write(packet.payload),
        Kind::Send => place_send(qp, units, packet)?,
        _ => return Err(Refused::INVALID),
    }
    Ok(())
}

/// FIRST and MIDDLE are exactly one path MTU, LAST 1 to one, ONLY at most one.
#[inline(always)]
pub(in crate::qp) fn fits_packet(qpc: &Qpc, position: Position, payload: &[u8]) -> bool {
    let (len, pmtu) = (payload.len(), usize::from(qpc.id.pmtu));
    match position {
        Position::First | Position::Middle => len == pmtu,
        Position::Last => (1..=pmtu).contains(&len),
        Position::Only => len <= pmtu,
    }
}

#[inline(always)]
pub(in crate::qp) fn check_write<'m>(
    qp: &mut Qp<'_>,
    units: &'m mut Units,
    packet: &RequestPacket<'_>,
) -> Result<Mapped<'m>, Refused> {
    let Some(reth) = packet.reth else { return Err(Refused::INVALID) };
    if !permits_writes(qp.hot) {
        return Err(Refused::INVALID);
    }
    if packet.consumes_receive() {
        // A receive must be there; its buffer is not used.
        receive_of(qp, units, packet)?;
    }
    if !fits_packet(qp.hot, packet.position, packet.payload)
        || !fits_message(packet.is_end(), packet.payload, &reth)
    {
        return Err(Refused::INVALID);
    }
    in_region(qp.hot, &units.memory, &reth).map_err(|_| Refused::ACCESS)
}

/// DMALen is what remains of the message from this packet on, which may be its end.
#[inline(always)]
pub(in crate::qp) fn fits_message(is_end: bool, payload: &[u8], reth: &Reth) -> bool {
    let (len, remaining) = (payload.len() as u64, u64::from(reth.dma_len));
    (if is_end { remaining == len } else { remaining > len }) && reth.dma_len <= DMA_LEN_MAX
}

/// What is left of a WRITE behind `len` bytes more.
#[inline(always)]
pub(in crate::qp) fn behind(reth: Reth, len: u32) -> Reth {
    Reth { va: reth.va.wrapping_add(len.into()), dma_len: reth.dma_len.saturating_sub(len), ..reth }
}

#[inline(always)]
pub(in crate::qp) const fn permits_writes(qpc: &Qpc) -> bool {
    qpc.id.access.contains(Access::REMOTE_WRITE)
}

/// What is left of a WRITE, in the region that its key names.
#[inline(always)]
pub(in crate::qp) fn in_region<'m>(
    qpc: &Qpc,
    memory: &'m MemoryTable,
    reth: &Reth,
) -> Result<Mapped<'m>, AccessError> {
    memory.check_remote(reth.rkey, qpc.id.peer(), reth.va, reth.dma_len.into(), Access::REMOTE_WRITE)
}

#[inline(always)]
fn place_send(qp: &mut Qp<'_>, units: &mut Units, packet: &RequestPacket<'_>) -> Result<(), Refused> {
    let found = receive_of(qp, units, packet)?;
    let (wqe, pd) = qp.cold.receives.wqe(units, found, qp.hot.id.pd).ok_or(Refused::Rnr)?;
    if !fits_packet(qp.hot, packet.position, packet.payload) {
        return Err(Refused::INVALID);
    }
    let start = u64::from(packet.offset) * u64::from(qp.hot.id.pmtu);
    to_receive(&units.memory, pd, &wqe, start, packet.payload)
}

/// Copies a payload to a receive, from byte `start` of the receive on. [`Refused::TOO_SHORT`] if it
/// does not fit, [`Refused::OWN_MEMORY`] if the receive names memory that may not be written.
#[inline(always)]
pub(in crate::qp) fn to_receive(
    memory: &MemoryTable,
    pd: ProtectionDomainId,
    wqe: &RecvWqe<'_>,
    start: u64,
    payload: &[u8],
) -> Result<(), Refused> {
    let len = payload.len() as u64;
    if start + len > u64::from(wqe.length) {
        return Err(Refused::TOO_SHORT);
    }
    let placed = match wqe.only_sge() {
        Some(sge) => in_element(memory, pd, &sge, start, len).map(|mapped| mapped.write(payload)),
        None => scatter(memory, pd, wqe.sges(), start, payload),
    };
    placed.map_err(|_| Refused::OWN_MEMORY)
}

/// A SEND with invalidate whose turn it is: its data are placed, and it completes next (protocol.md
/// 1.11).
#[cold]
#[inline(never)]
pub(in crate::qp) fn invalidate(qpc: &Qpc, units: &mut Units, key: u32) -> Result<(), Refused> {
    units.memory.invalidate(key, qpc.id.qpn).map_err(|_| Refused::ACCESS)
}

/// The receive that the packet's SSN names, if it is posted.
#[inline(always)]
fn receive_of(qp: &mut Qp<'_>, units: &mut Units, packet: &RequestPacket<'_>) -> Result<Found, Refused> {
    let Some(ssn) = packet.ssn else { return Err(Refused::INVALID) };
    let ahead = ssn.steps_from(qp.hot.rsp.ssn);
    // No more receives than messages: a hostile SSN must not empty a shared queue.
    if qp.cold.receives.srq().is_some() && ahead > packet.meta.msn.steps_from(qp.hot.rsp.msn()) {
        return Err(Refused::INVALID);
    }
    Ok(qp.cold.receives.find(units, qp.hot.rsp.recv_head, ahead)?)
}
