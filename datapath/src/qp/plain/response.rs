//! READ responses and atomic results that come in: in order, or the request goes again.

use super::acknowledged::{advance, on_gap, retire};
use super::requester::find;
use crate::qp::requester::{fail_head, place};
use crate::qp::{Qp, Units};
use crate::qp_state::QpState;
use wire::Packet;

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
    // A READ that was asked for again from its middle on begins with a First there, and late
    // packets of its first answer are as good: only the end must be one.
    let is_at_place = packet.opcode().is_end() == (index + 1 == entry.packets);
    match place(qp.hot, &units.memory, &wqe, *packet, index, is_at_place) {
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
