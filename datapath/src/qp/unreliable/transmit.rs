//! One turn of an unreliable queue pair: packets from the send queue, and their completions at
//! once.

use super::packet::{Plan, Wanted};
use crate::qp::context::PendingFailure;
use crate::qp::requester::{Begun, Grant, TransmitEnd, run_local, tell_if_drained};
use crate::qp::{NotSent, Qp, TxSlots, Units, fail, fail_sends};
use crate::qp_state::QpType;
use crate::queue::WcStatus;
use core::net::IpAddr;

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
    qp: &mut Qp<'_>,
    units: &mut Units,
    slots: &mut T,
    grant: &mut Grant,
) -> TransmitEnd {
    let before = qp.hot.req.head;
    let result = send_messages(qp, units, slots, grant);
    if qp.hot.req.head != before {
        // Also of a queue pair that died of a full completion queue: what was written before is
        // done.
        units.completions(qp.hot.send_cq).show(qp.cold.send_queue.release(qp.hot.req.head));
        tell_if_drained(qp, units);
    }
    match result {
        Err(Stop::PortFull) => return TransmitEnd::PortFull,
        Err(Stop::Failed(status)) => {
            let failure = PendingFailure { position: qp.hot.req.head, status };
            fail_sends(qp, units, failure);
        }
        Ok(()) | Err(Stop::Dead) => {}
    }
    TransmitEnd::Done { ready: qp.is_ready(qp.cold.requests()) }
}

fn send_messages<T: TxSlots>(
    qp: &mut Qp<'_>,
    units: &mut Units,
    slots: &mut T,
    grant: &mut Grant,
) -> Result<(), Stop> {
    let tail = qp.cold.send_queue.tail();
    while grant.has_room(qp.hot.id.pmtu) && qp.hot.id.state.continues_sends() {
        if qp.hot.req.sent == 0 {
            if qp.hot.req.next == tail || grant.wqes == 0 || !qp.hot.id.state.starts_sends() {
                break;
            }
            grant.wqes -= 1;
            if qp.cold.send_queue.wqe(qp.hot.req.next).opcode.is_local() {
                // Nothing is outstanding before it, as it asks for.
                match run_local(qp, units, false) {
                    Begun::Done => continue,
                    Begun::Ready | Begun::Waits | Begun::Failed => return Err(Stop::Dead),
                }
            }
        }
        send_packet(qp, units, slots, grant).inspect_err(|_| grant.give_back(qp.hot))?;
    }
    Ok(())
}

/// Sends the next packet of the message at the head; its last one completes it.
fn send_packet<T: TxSlots>(
    qp: &mut Qp<'_>,
    units: &mut Units,
    slots: &mut T,
    grant: &mut Grant,
) -> Result<(), Stop> {
    let wqe = qp.cold.send_queue.wqe(qp.hot.req.head);
    let packets = wqe.length.div_ceil(u32::from(qp.hot.id.pmtu)).max(1);
    let wanted = Wanted { wqe: &wqe, index: qp.hot.req.sent, packets, psn: qp.hot.tx.nxt() };
    let plan = match qp.hot.service {
        QpType::Ud => Plan::datagram(qp.hot, units, &wanted),
        _ => Plan::connected(qp.hot, units, &wanted),
    };
    let plan = plan.map_err(Stop::Failed)?;
    let emitted = slots.emit(plan.loopback(), |frame| plan.build(frame));
    emitted.map_err(|not_sent| match not_sent {
        NotSent::PortFull => Stop::PortFull,
        NotSent::Failed(status) => Stop::Failed(status),
    })?;
    grant.bytes = grant.bytes.saturating_sub(plan.payload_len());
    grant.packets -= 1;
    if let Some(group) = plan.group()
        && !copy_to_members(&plan, units, slots, *group)
    {
        units.counters.drop_group_copy += 1;
    }
    units.counters.tx_unreliable += 1;
    qp.hot.tx.send_unacknowledged();
    qp.hot.req.sent += 1;
    if qp.hot.req.sent < packets {
        return Ok(());
    }
    let done = qp.cold.send_queue.sent(qp.hot.req.head).completion(qp.hot.id.qpn);
    qp.hot.req.sent = 0;
    qp.hot.req.head = qp.hot.req.head.wrapping_add(1);
    qp.hot.req.next = qp.hot.req.head;
    if let Some(done) = done
        && !units.completions(qp.hot.send_cq).write(&done)
    {
        fail(qp, units, None);
        return Err(Stop::Dead);
    }
    Ok(())
}

/// Members of a multicast group on this host hear what this host sends to it, as others do. False
/// if that found no room.
#[cold]
#[inline(never)]
fn copy_to_members<T: TxSlots>(plan: &Plan<'_>, units: &Units, slots: &mut T, group: IpAddr) -> bool {
    !units.groups.may_have_members(group) || slots.emit(true, |frame| plan.build(frame)).is_ok()
}
