//! One turn of an unreliable queue pair: packets from the send queue, and their completions at once.

use super::packet::{Plan, Wanted};
use crate::engine::{NotSent, TxSlots, Units};
use crate::qp::context::{PendingFailure, QpCold, Qpc};
use crate::qp::flush::opcode_of;
use crate::qp::requester::{Grant, Local, TransmitEnd, run_local, tell_if_drained};
use crate::qp::send_stream::is_ready;
use crate::qp::state::QpType;
use crate::qp::{fail, fail_sends};
use crate::queue::{Completion, SendFlags, SendWqe, WcFlags, WcStatus};

/// Why a turn ended before its time.
enum Stop {
    PortFull,
    /// The request at the head of the send queue cannot be sent.
    Failed(WcStatus),
    /// The queue pair went to ERR.
    Dead,
}

/// Lets a UC or UD queue pair send. Reduces `grant` by what it used.
pub(crate) fn transmit_unreliable<T: TxSlots>(
    qpc: &mut Qpc,
    cold: &mut QpCold,
    units: &mut Units,
    slots: &mut T,
    grant: &mut Grant,
) -> TransmitEnd {
    let before = qpc.req.head;
    let result = send_messages(qpc, cold, units, slots, grant);
    if qpc.req.head != before {
        // Also of a queue pair that died of a full completion queue: what was written before is done.
        units.show_completions(qpc.send_cq, cold.send_queue.release(qpc.req.head));
        tell_if_drained(qpc, cold, units);
    }
    match result {
        Err(Stop::PortFull) => return TransmitEnd::PortFull,
        Err(Stop::Failed(status)) => {
            let failure = PendingFailure { position: qpc.req.head, status };
            fail_sends(qpc, cold, units, failure);
        }
        Ok(()) | Err(Stop::Dead) => {}
    }
    TransmitEnd::Done { ready: is_ready(qpc, cold, cold.requests()) }
}

fn send_messages<T: TxSlots>(
    qpc: &mut Qpc,
    cold: &mut QpCold,
    units: &mut Units,
    slots: &mut T,
    grant: &mut Grant,
) -> Result<(), Stop> {
    let tail = cold.send_queue.tail();
    while grant.has_room(qpc.id.pmtu) && qpc.id.state.continues_sends() {
        if qpc.req.sent == 0 {
            if qpc.req.next == tail || grant.wqes == 0 || !qpc.id.state.starts_sends() {
                break;
            }
            grant.wqes -= 1;
            if cold.send_queue.wqe(qpc.req.next).opcode.is_local() {
                // Nothing is outstanding before it, as it asks for.
                match run_local(qpc, cold, units, false) {
                    Local::Done => continue,
                    Local::Waits | Local::Failed => return Err(Stop::Dead),
                }
            }
        }
        send_packet(qpc, cold, units, slots, grant)?;
    }
    Ok(())
}

/// Sends the next packet of the message at the head; its last one completes it.
fn send_packet<T: TxSlots>(
    qpc: &mut Qpc,
    cold: &mut QpCold,
    units: &mut Units,
    slots: &mut T,
    grant: &mut Grant,
) -> Result<(), Stop> {
    let wqe = cold.send_queue.wqe(qpc.req.head);
    let packets = wqe.length.div_ceil(u32::from(qpc.id.pmtu)).max(1);
    let wanted = Wanted { wqe: &wqe, index: qpc.req.sent, packets, psn: qpc.tx.nxt() };
    let plan = match qpc.service {
        QpType::Ud => Plan::datagram(qpc, units, &wanted),
        _ => Plan::connected(qpc, units, &wanted),
    };
    let plan = plan.map_err(Stop::Failed)?;
    let emitted = slots.emit(plan.loopback(), |frame| plan.build(frame));
    emitted.map_err(|not_sent| match not_sent {
        NotSent::PortFull => Stop::PortFull,
        NotSent::Failed(status) => Stop::Failed(status),
    })?;
    grant.bytes = grant.bytes.saturating_sub(plan.payload_len());
    grant.packets -= 1;
    units.counters.tx_unreliable += 1;
    qpc.tx.send_unacknowledged();
    qpc.req.sent += 1;
    if qpc.req.sent < packets {
        return Ok(());
    }
    let done = completion_of(&wqe, qpc.id.qpn);
    qpc.req.sent = 0;
    qpc.req.head = qpc.req.head.wrapping_add(1);
    qpc.req.next = qpc.req.head;
    if let Some(done) = done
        && !units.complete_later(qpc.send_cq, &done)
    {
        fail(qpc, cold, units, None);
        return Err(Stop::Dead);
    }
    Ok(())
}

fn completion_of(wqe: &SendWqe<'_>, qpn: u32) -> Option<Completion> {
    wqe.flags.contains(SendFlags::SIGNALED).then(|| Completion {
        wr_id: wqe.wr_id,
        status: WcStatus::Success,
        opcode: opcode_of(wqe.opcode),
        flags: WcFlags::empty(),
        byte_len: wqe.length,
        imm: 0,
        qpn,
        src_qp: 0,
    })
}
