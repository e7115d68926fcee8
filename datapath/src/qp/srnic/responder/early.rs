//! Packets that come before their turn: nearly all lie in their place at once.

use super::read;
use crate::qp::responder::{Refused, RequestPacket, check_write, put};
use crate::qp::{Qp, Units};
use crate::stream::{Deferred, ParkedWrite};
use wire::{Kind, Position};

/// Checks a packet that is out of order, and places it. Returns what waits for the turn of its
/// message: a request for a response; a small WRITE ONLY, which is kept and not placed; an
/// invalidation.
pub(super) fn place_early(
    qp: &mut Qp<'_>,
    units: &mut Units,
    packet: &RequestPacket<'_>,
) -> Result<Option<Deferred>, Refused> {
    if packet.request.is_some() {
        return read::check(qp, units, packet).map(|request| Some(Deferred::Respond(request)));
    }
    if let Some(parked) = parked(packet) {
        check_write(qp, units, packet)?;
        return Ok(Some(Deferred::Write(parked)));
    }
    put(qp, units, packet)?;
    Ok(packet.invalidates.then(|| Deferred::Invalidate(packet.imm.unwrap_or_default())))
}

/// A WRITE that is small enough to wait for its turn (protocol.md 2.4).
fn parked(packet: &RequestPacket<'_>) -> Option<ParkedWrite> {
    let reth = packet.reth.filter(|_| packet.kind == Kind::Write && packet.position == Position::Only)?;
    ParkedWrite::new(reth.va, reth.rkey, packet.payload)
}
