//! Requests that the engine carries out by itself, without a packet: LOCAL_INV and BIND_MW
//! (protocol.md 1.6 and 1.11).

use super::failure::fail_in_turn;
use crate::qp::context::PendingFailure;
use crate::qp::{Qp, Qpc, SqEntry, Units, fail};
use crate::queue::{SendFlags, SendOpcode, SendWqe, WcStatus};

/// What became of a request whose turn it is to begin.
pub(in crate::qp) enum Begun {
    /// It has packets to send.
    Ready,
    /// It is carried out, without a packet.
    Done,
    /// It must wait for some before it.
    Waits,
    /// It cannot be sent or carried out, and nothing behind it begins.
    Failed,
}

/// Carries out the request at the front, unless it is fenced and must wait. It completes when all
/// before it have. `reads` says whether READs or atomics are under way. It has no message number,
/// so all behind it move up by one.
pub(in crate::qp) fn run_local(qp: &mut Qp<'_>, units: &mut Units, reads: bool) -> Begun {
    let position = qp.hot.req.next;
    let wqe = qp.cold.send_queue.wqe(position);
    let is_oldest = qp.hot.req.head == position;
    if is_held_back(&wqe, is_oldest, reads) {
        return Begun::Waits;
    }
    if let Err(status) = carry_out(qp.hot, units, &wqe) {
        fail_in_turn(qp, units, PendingFailure { position, status });
        return Begun::Failed;
    }
    qp.hot.req.next = position.wrapping_add(1);
    qp.hot.req.msn_base = qp.hot.req.msn_base.wrapping_add(1);
    if is_oldest {
        return complete(qp, units);
    }
    // With no packets it is acknowledged with all before it.
    *qp.cold.entry_mut(position) = SqEntry { first_psn: qp.hot.tx.nxt(), ..SqEntry::default() };
    Begun::Done
}

/// A fence orders a BIND_MW behind READs and atomics, a LOCAL_INV behind everything. Without one
/// neither waits.
const fn is_held_back(wqe: &SendWqe<'_>, is_oldest: bool, reads: bool) -> bool {
    let minds = if matches!(wqe.opcode, SendOpcode::LocalInv) { !is_oldest } else { reads };
    wqe.flags.contains(SendFlags::FENCE) && minds
}

fn carry_out(qpc: &Qpc, units: &mut Units, wqe: &SendWqe<'_>) -> Result<(), WcStatus> {
    if wqe.opcode == SendOpcode::BindWindow {
        let (present_key, binding) = wqe.binding();
        let bound = units.memory.bind_window(present_key, qpc.id.peer(), &binding);
        bound.map(|_| ()).map_err(|_| WcStatus::MwBindErr)
    } else {
        units.memory.invalidate(wqe.imm, qpc.id.qpn).map_err(|_| WcStatus::LocQpOpErr)
    }
}

/// Nothing is before it.
fn complete(qp: &mut Qp<'_>, units: &mut Units) -> Begun {
    let completion = qp.cold.send_queue.sent(qp.hot.req.head).completion(qp.hot.id.qpn);
    qp.hot.req.head = qp.hot.req.next;
    // Before the completion shows: who polls it may post into the place at once.
    qp.cold.send_queue.release(qp.hot.req.head);
    if completion.is_some_and(|completion| !units.complete(qp.hot.send_cq, &completion)) {
        fail(qp, units, None);
        return Begun::Failed;
    }
    Begun::Done
}
