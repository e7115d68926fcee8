//! The way to ERR: everything outstanding completes, in order, the failing request first.

use super::context::{PendingFailure, QpCold, Qpc};
use super::last_word::keep_last_word;
use super::requester::stop_reads;
use super::responder::{close_recovery, stop_responses};
use super::send_stream::SendStream;
use super::state::QpState;
use crate::counters::Counters;
use crate::engine::{AsyncEvent, Units};
use crate::qp::flags::QpFlags;
use crate::queue::{Completion, SendOpcode, WcFlags, WcOpcode, WcStatus};
use wire::NakCode;

/// Takes the queue pair to ERR. `failure` names the send request that is to blame and its status.
#[cold]
pub(crate) fn fail(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units, failure: Option<PendingFailure>) {
    if qpc.id.state != QpState::Err {
        let qpn = qpc.id.qpn;
        units.events.push(match cold.refusal {
            Some((_, NakCode::InvalidRequest)) => AsyncEvent::QpRequestError { qpn },
            Some((_, NakCode::RemoteAccess)) => AsyncEvent::QpAccessError { qpn },
            _ => AsyncEvent::QpFatal { qpn },
        });
        enter_err(qpc, cold, units, failure);
    }
}

/// Takes the queue pair to ERR because the application wants it: no event tells it what it knows.
#[cold]
pub(crate) fn abort(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) {
    if qpc.id.state != QpState::Err {
        keep_last_word(qpc, cold, units, false);
        enter_err(qpc, cold, units, None);
    }
}

/// Takes a UC or UD queue pair to SQE: `failure` completes with its status, the sends behind it are flushed, and receives
/// go on.
#[cold]
pub(crate) fn fail_sends(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units, failure: PendingFailure) {
    qpc.id.state = QpState::Sqe;
    cold.send_queue.shared().set_state(QpState::Sqe);
    flush_and_rest(qpc, cold, units, Some(failure));
}

fn enter_err(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units, failure: Option<PendingFailure>) {
    qpc.id.state = QpState::Err;
    cold.send_queue.shared().set_state(QpState::Err);
    stop_streams(qpc, cold, units);
    flush_and_rest(qpc, cold, units, failure);
    if cold.receives.srq().is_some() {
        units.events.push(AsyncEvent::LastWqeReached { qpn: qpc.id.qpn });
    }
}

/// Flushes both queues, in SQE that of sends, and puts the queue pair to rest: whatever is posted later rings.
pub(crate) fn flush_and_rest(
    qpc: &mut Qpc,
    cold: &mut QpCold,
    units: &mut Units,
    failure: Option<PendingFailure>,
) {
    flush_queues(qpc, cold, units, failure);
    rest_for_good(qpc, cold);
    let receives_left = qpc.id.state.flushes_recvs() && has_own_receive(qpc, cold);
    if qpc.req.head != cold.send_queue.tail() || receives_left {
        cold.send_queue.shared().ring();
    }
}

/// Puts the queue pair to rest whatever is posted. One that did not ring needs no rest, and one whose doorbell waits
/// must not have any before the doorbell is taken: the next post would ring a second one.
pub(crate) fn rest_for_good(qpc: &mut Qpc, cold: &QpCold) {
    if qpc.flags.contains(QpFlags::ACTIVE) {
        qpc.flags.remove(QpFlags::ACTIVE);
        cold.send_queue.shared().deactivate();
    }
}

/// Ends both streams: nothing is resent, nothing late is accepted.
pub(crate) fn stop_streams(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) {
    SendStream::of_requests(qpc, cold).stop(units);
    let was = qpc.rx.in_recovery().then(|| qpc.rx.generation());
    qpc.rx.abandon();
    close_recovery(&mut qpc.rx, cold, units, was);
    stop_responses(qpc, cold, units);
    stop_reads(cold, units);
    if let Some(plain) = cold.plain.as_deref_mut() {
        plain.stop(qpc.tx.nxt());
    }
    units.disarm_keepalive(cold.slot);
    cold.keepalive = None;
    qpc.flags.remove(QpFlags::LIFE);
    cold.rnr = None;
    cold.failure = None;
}

/// Completes all posted requests of the queues that the state flushes with WR_FLUSH_ERR, or the failing one's own status. A place is free
/// before its completion shows.
#[cold]
fn flush_queues(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units, failure: Option<PendingFailure>) {
    let qpn = qpc.id.qpn;
    let tail = cold.send_queue.tail();
    while qpc.req.head != tail {
        let wqe = cold.send_queue.wqe(qpc.req.head);
        let status = match failure {
            Some(failure) if failure.position == qpc.req.head => failure.status,
            _ => WcStatus::WrFlushErr,
        };
        count_ended(&mut units.counters, status);
        qpc.req.head = qpc.req.head.wrapping_add(1);
        cold.send_queue.release(qpc.req.head);
        units.complete(qpc.send_cq, &failed(qpn, wqe.wr_id, status, opcode_of(wqe.opcode)));
    }
    qpc.req.next = qpc.req.head;
    qpc.req.sent = 0;
    if qpc.id.state.flushes_recvs() {
        flush_receives(qpc, cold, units);
    }
}

/// Completes the receives of the own queue, or those taken of a shared one, with WR_FLUSH_ERR.
fn flush_receives(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) {
    while end_receive(qpc, cold, units, WcStatus::WrFlushErr) {}
}

/// Ends the next receive, which nothing came to, with an error. False if there is none.
pub(in crate::qp) fn end_receive(
    qpc: &mut Qpc,
    cold: &mut QpCold,
    units: &mut Units,
    status: WcStatus,
) -> bool {
    let has_one = cold.receives.has_next(qpc.rsp.recv_head);
    if has_one {
        let wr_id = cold.receives.finish_next(units, &mut qpc.rsp.recv_head);
        if status == WcStatus::WrFlushErr {
            units.counters.resp_cqe_flush_error += 1;
        } else {
            units.counters.resp_cqe_error += 1;
            units.counters.resp_local_length_error += u64::from(status == WcStatus::LocLenErr);
        }
        units.complete(cold.recv_cq, &failed(qpc.id.qpn, wr_id, status, WcOpcode::Recv));
    }
    has_one
}

/// Counts a send request that ends without success.
fn count_ended(counters: &mut Counters, status: WcStatus) {
    if status == WcStatus::WrFlushErr {
        counters.req_cqe_flush_error += 1;
        return;
    }
    counters.req_cqe_error += 1;
    counters.req_remote_access_errors += u64::from(status == WcStatus::RemAccessErr);
    counters.req_remote_invalid_request += u64::from(status == WcStatus::RemInvReqErr);
}

/// Completes what the queue pair took of a shared receive queue: no other queue pair will.
pub(crate) fn flush_taken(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) {
    if cold.receives.srq().is_some() {
        flush_receives(qpc, cold, units);
    }
}

/// Whether a receive waits in the queue pair's own queue.
fn has_own_receive(qpc: &Qpc, cold: &QpCold) -> bool {
    cold.receives.srq().is_none() && cold.receives.has_next(qpc.rsp.recv_head)
}

const fn failed(qpn: u32, wr_id: u64, status: WcStatus, opcode: WcOpcode) -> Completion {
    Completion { wr_id, status, opcode, flags: WcFlags::empty(), byte_len: 0, imm: 0, qpn, src_qp: 0 }
}

/// What a send request completes as.
pub(super) const fn opcode_of(opcode: SendOpcode) -> WcOpcode {
    const BY_OPCODE: [WcOpcode; 10] = [
        WcOpcode::Send,
        WcOpcode::Send,
        WcOpcode::RdmaWrite,
        WcOpcode::RdmaWrite,
        WcOpcode::Send,
        WcOpcode::RdmaRead,
        WcOpcode::CompSwap,
        WcOpcode::FetchAdd,
        WcOpcode::LocalInv,
        WcOpcode::BindMw,
    ];
    BY_OPCODE[opcode as usize]
}
