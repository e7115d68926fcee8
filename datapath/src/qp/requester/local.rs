//! Requests that the engine carries out by itself, without a packet: LOCAL_INV and BIND_MW (protocol.md 1.11).

use crate::engine::Units;
use crate::qp::context::{PendingFailure, QpCold, Qpc};
use crate::qp::fail;
use crate::qp::flush::opcode_of;
use crate::queue::{Completion, SendFlags, SendOpcode, WcFlags, WcStatus};

/// Carries out the request at the front, before which nothing is outstanding. It has no message number, so all behind it
/// move up by one. False if the queue pair went to ERR.
pub(in crate::qp) fn run(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) -> bool {
    let position = qpc.req.head;
    let wqe = cold.send_queue.wqe(position);
    let status = if wqe.opcode == SendOpcode::BindWindow {
        let (present_key, binding) = wqe.binding();
        let bound = units.memory.bind_window(present_key, qpc.id.peer(), &binding);
        bound.err().map(|_| WcStatus::MwBindErr)
    } else {
        units.memory.invalidate(wqe.imm, qpc.id.qpn).err().map(|_| WcStatus::LocQpOpErr)
    };
    if let Some(status) = status {
        fail(qpc, cold, units, Some(PendingFailure { position, status }));
        return false;
    }
    let completion = Completion {
        wr_id: wqe.wr_id,
        status: WcStatus::Success,
        opcode: opcode_of(wqe.opcode),
        flags: WcFlags::empty(),
        byte_len: 0,
        imm: 0,
        qpn: qpc.id.qpn,
        src_qp: 0,
    };
    let signaled = wqe.flags.contains(SendFlags::SIGNALED);
    qpc.req.head = position.wrapping_add(1);
    qpc.req.next = qpc.req.head;
    qpc.req.msn_base = qpc.req.msn_base.wrapping_add(1);
    // Before the completion shows: who polls it may post into the place at once.
    cold.send_queue.release(qpc.req.head);
    if signaled && !units.complete(qpc.send_cq, &completion) {
        fail(qpc, cold, units, None);
        return false;
    }
    true
}
