//! In-place reordering: every packet's payload goes straight to its final address, in order or not.

use super::refuse::Refused;
use super::{RequestPacket, read};
use crate::engine::Units;
use crate::memory::Access;
use crate::qp::context::{QpCold, Qpc};
use crate::qp::receives::Found;
use crate::qp::scatter::scatter;
use crate::queue::WcStatus;
use crate::stream::{Deferred, ParkedWrite};
use wire::{Kind, NakCode, Position, Reth};

/// Longest RDMA message, in bytes (protocol.md 1.4).
pub(in crate::qp) const DMA_LEN_MAX: u32 = 1 << 31;

/// Checks a packet (operation, receive, lengths, key: protocol.md 1.6) and copies its payload to where it belongs. Out of
/// order there is a place for what is `deferred` to emission: a small WRITE ONLY, which is then kept, or a request for a
/// response. Returns the bytes of the message up to and with this packet.
#[inline(always)]
pub(in crate::qp) fn place(
    qpc: &Qpc,
    cold: &mut QpCold,
    units: &mut Units,
    packet: &RequestPacket<'_>,
    deferred: Option<&mut Option<Deferred>>,
) -> Result<u32, Refused> {
    match packet.kind {
        Kind::Write => place_write(qpc, cold, units, packet, deferred),
        Kind::Send => place_send(qpc, cold, units, packet, deferred),
        Kind::ReadRequest | Kind::Atomic => {
            // In order there is nothing to place: the request is executed.
            let deferred = deferred.ok_or(Refused::INVALID)?;
            *deferred = Some(Deferred::Respond(read::check(qpc, cold, units, packet)?));
            Ok(0)
        }
        _ => Err(Refused::INVALID),
    }
}

/// FIRST and MIDDLE are exactly one path MTU, LAST 1 to one, ONLY at most one.
#[inline]
fn check_payload_len(qpc: &Qpc, packet: &RequestPacket<'_>) -> Result<(), Refused> {
    let (len, pmtu) = (packet.payload.len(), usize::from(qpc.id.pmtu));
    let fits = match packet.position {
        Position::First | Position::Middle => len == pmtu,
        Position::Last => (1..=pmtu).contains(&len),
        Position::Only => len <= pmtu,
    };
    if fits { Ok(()) } else { Err(Refused::INVALID) }
}

#[inline(always)]
fn place_write(
    qpc: &Qpc,
    cold: &mut QpCold,
    units: &mut Units,
    packet: &RequestPacket<'_>,
    deferred: Option<&mut Option<Deferred>>,
) -> Result<u32, Refused> {
    let Some(reth) = packet.reth else { return Err(Refused::INVALID) };
    if !qpc.id.access.contains(Access::REMOTE_WRITE) {
        return Err(Refused::INVALID);
    }
    if packet.consumes_receive() {
        // A receive must be there; its buffer is not used.
        receive_of(qpc, cold, units, packet)?;
    }
    check_payload_len(qpc, packet)?;
    check_dma_len(packet, &reth)?;
    let mapped = units
        .memory
        .check_remote(reth.rkey, qpc.id.peer(), reth.va, reth.dma_len.into(), Access::REMOTE_WRITE)
        .map_err(|_| Refused::Nak(NakCode::RemoteAccess, WcStatus::LocAccessErr))?;
    if let Some(deferred) = deferred
        && packet.position == Position::Only
    {
        *deferred = ParkedWrite::new(reth.va, reth.rkey, packet.payload).map(Deferred::Write);
        if deferred.is_some() {
            return Ok(message_len(qpc, packet));
        }
    }
    mapped.write(packet.payload);
    Ok(message_len(qpc, packet))
}

/// DMALen is what remains of the message from this packet on.
#[inline]
fn check_dma_len(packet: &RequestPacket<'_>, reth: &Reth) -> Result<(), Refused> {
    let len = packet.payload.len() as u64;
    let remaining = u64::from(reth.dma_len);
    let fits = if packet.is_end() { remaining == len } else { remaining > len };
    if fits && reth.dma_len <= DMA_LEN_MAX { Ok(()) } else { Err(Refused::INVALID) }
}

#[inline(always)]
fn place_send(
    qpc: &Qpc,
    cold: &mut QpCold,
    units: &mut Units,
    packet: &RequestPacket<'_>,
    deferred: Option<&mut Option<Deferred>>,
) -> Result<u32, Refused> {
    let found = receive_of(qpc, cold, units, packet)?;
    let (wqe, pd) = cold.receives.wqe(units, found, qpc.id.pd).ok_or(Refused::Rnr)?;
    check_payload_len(qpc, packet)?;
    let start = u64::from(packet.offset) * u64::from(qpc.id.pmtu);
    if start + packet.payload.len() as u64 > u64::from(wqe.length) {
        return Err(Refused::Nak(NakCode::InvalidRequest, WcStatus::LocLenErr));
    }
    let placed = match wqe.only_sge() {
        Some(sge) => units
            .memory
            .check(
                sge.lkey,
                pd,
                sge.addr.wrapping_add(start),
                packet.payload.len() as u64,
                Access::LOCAL_WRITE,
            )
            .map(|mapped| mapped.write(packet.payload)),
        None => scatter(&units.memory, pd, wqe.sges(), start, packet.payload),
    };
    placed.map_err(|_| Refused::Nak(NakCode::RemoteOperational, WcStatus::LocProtErr))?;
    if packet.invalidates {
        let key = packet.imm.unwrap_or_default();
        match deferred {
            Some(deferred) => *deferred = Some(Deferred::Invalidate(key)),
            None => invalidate(qpc, units, key)?,
        }
    }
    Ok(message_len(qpc, packet))
}

/// A SEND with invalidate whose turn it is: its data are placed, and it completes next (protocol.md 1.11).
#[cold]
#[inline(never)]
pub(super) fn invalidate(qpc: &Qpc, units: &mut Units, key: u32) -> Result<(), Refused> {
    units.memory.invalidate(key, qpc.id.qpn).map_err(|_| Refused::ACCESS)
}

/// The receive that the packet's SSN names, if it is posted.
#[inline(always)]
fn receive_of(
    qpc: &Qpc,
    cold: &mut QpCold,
    units: &mut Units,
    packet: &RequestPacket<'_>,
) -> Result<Found, Refused> {
    let Some(ssn) = packet.ssn else { return Err(Refused::INVALID) };
    let ahead = ssn.steps_from(qpc.rsp.ssn);
    // No more receives than messages: a hostile SSN must not empty a shared queue.
    if cold.receives.srq().is_some() && ahead > packet.meta.msn.steps_from(qpc.rsp.msn()) {
        return Err(Refused::INVALID);
    }
    Ok(cold.receives.find(units, qpc.rsp.recv_head, ahead)?)
}

/// Bytes of the message up to and with this packet. Saturates: an absurd offset of a hostile WRITE moves no memory.
#[inline]
fn message_len(qpc: &Qpc, packet: &RequestPacket<'_>) -> u32 {
    let before = packet.offset.saturating_mul(u32::from(qpc.id.pmtu));
    before.saturating_add(u32::try_from(packet.payload.len()).unwrap_or(u32::MAX))
}
