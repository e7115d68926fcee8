//! READ responses and atomic results that come in: in order, or the request goes again.

use super::acknowledged::{advance, fail_head, on_gap, retire};
use super::requester::find;
use crate::qp::Units;
use crate::qp::context::Qpc;
use crate::qp::pair::Qp;
use crate::qp::scatter::scatter;
use crate::qp_state::QpState;
use crate::queue::{SendOpcode, SendWqe, WcStatus};
use wire::{Kind, Packet, Syndrome};

/// Handles a response.
pub(super) fn on_response(qp: &mut Qp<'_>, units: &mut Units, packet: &Packet<'_>) {
    let psn = packet.psn();
    let max = qp.cold.plain.as_deref().map_or(psn, |plain| plain.req.max);
    if !psn.is_before(max) {
        units.counters.drop_unexpected_response += 1;
        return;
    }
    // It tells that all before it arrived, and of itself.
    if advance(qp, units, psn).is_none() || qp.hot.id.state == QpState::Err {
        return;
    }
    if psn != qp.hot.tx.una() {
        units.counters.drop_go_back_n += 1;
        on_gap(qp, units);
        qp.wake(qp.cold.requests(), units);
        return;
    }
    let begun = qp.cold.plain.as_deref().map_or(qp.hot.req.next, |plain| plain.req.begun);
    let request =
        find(qp, begun, psn).filter(|&position| qp.cold.send_queue.wqe(position).opcode.has_response());
    let Some(position) = request else {
        units.counters.drop_unexpected_response += 1;
        return;
    };
    let entry = *qp.cold.entry(position);
    let index = psn.steps_from(entry.first_psn);
    let wqe = qp.cold.send_queue.wqe(position);
    match place(qp.hot, units, &wqe, packet, index, index + 1 == entry.packets) {
        Ok(()) => {
            units.counters.rx_responses += 1;
            retire(qp, units, psn.next());
        }
        // Before a READ, everything has completed: it is at the head.
        Err(status) => {
            units.counters.drop_bad_response += 1;
            fail_head(qp, units, status);
        }
    }
    qp.wake(qp.cold.requests(), units);
}

/// Copies the payload, or the atomic's result, to where the request wants it. A READ that was asked
/// for again from its middle on begins with a First there, and late packets of its first answer are
/// as good: only the end must be one.
fn place(
    qpc: &Qpc,
    units: &Units,
    wqe: &SendWqe<'_>,
    packet: &Packet<'_>,
    index: u32,
    last: bool,
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
            if packet.payload().len() as u64 != rest || packet.opcode().is_end() != last {
                return Err(WcStatus::BadRespErr);
            }
            packet.payload()
        }
        _ => return Err(WcStatus::BadRespErr),
    };
    scatter(&units.memory, qpc.id.pd, wqe.sges(), start, bytes).map_err(|_| WcStatus::LocProtErr)
}
