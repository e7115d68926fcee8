//! The way to ERR: everything outstanding completes, in order, the failing request first.

use super::context::PendingFailure;
use super::governed::ungovern;
use super::last_word::keep_last_word;
use super::send_stream::SendStream;
use super::srnic::{ReceiveStream, stop_reads, stop_responses};
use crate::counters::Counters;
use crate::event::AsyncEvent;
use crate::qp::{Qp, QpFlags, Units};
use crate::qp_state::QpState;
use crate::queue::{Completion, WcOpcode, WcStatus};
use wire::NakCode;

/// Takes the queue pair to ERR. `failure` names the send request that is to blame and its status.
#[cold]
pub(crate) fn fail(qp: &mut Qp<'_>, units: &mut Units, failure: Option<PendingFailure>) {
    if qp.hot.id.state != QpState::Err {
        let qpn = qp.hot.id.qpn;
        units.events.push(match qp.cold.refusal {
            Some((_, NakCode::InvalidRequest)) => AsyncEvent::QpRequestError { qpn },
            Some((_, NakCode::RemoteAccess)) => AsyncEvent::QpAccessError { qpn },
            _ => AsyncEvent::QpFatal { qpn },
        });
        enter_err(qp, units, failure);
    }
}

/// Takes the queue pair to ERR because the application wants it: no event tells it what it knows.
#[cold]
pub(crate) fn abort(qp: &mut Qp<'_>, units: &mut Units) {
    if qp.hot.id.state != QpState::Err {
        keep_last_word(qp, units, false);
        enter_err(qp, units, None);
    }
}

/// Takes a UC or UD queue pair to SQE: `failure` completes with its status, the sends behind it are
/// flushed, and receives go on.
#[cold]
pub(crate) fn fail_sends(qp: &mut Qp<'_>, units: &mut Units, failure: PendingFailure) {
    qp.hot.id.state = QpState::Sqe;
    qp.cold.send_queue.shared().set_state(QpState::Sqe);
    flush_and_deactivate(qp, units, Some(failure));
}

fn enter_err(qp: &mut Qp<'_>, units: &mut Units, failure: Option<PendingFailure>) {
    qp.hot.id.state = QpState::Err;
    qp.cold.send_queue.shared().set_state(QpState::Err);
    stop_streams(qp, units);
    flush_and_deactivate(qp, units, failure);
    if qp.cold.receives.srq().is_some() {
        units.events.push(AsyncEvent::LastWqeReached { qpn: qp.hot.id.qpn });
    }
}

/// Flushes both queues, in SQE that of sends, and makes the queue pair idle: whatever is posted
/// later rings.
pub(crate) fn flush_and_deactivate(qp: &mut Qp<'_>, units: &mut Units, failure: Option<PendingFailure>) {
    flush_queues(qp, units, failure);
    deactivate(qp);
    let receives_left = qp.hot.id.state.flushes_recvs() && has_own_receive(qp);
    if qp.hot.req.head != qp.cold.send_queue.tail() || receives_left {
        qp.cold.send_queue.shared().ring();
    }
}

/// Makes the queue pair idle whatever is posted. One that did not ring is idle, and one whose
/// doorbell waits must not become idle before the doorbell is taken: the next post would ring a
/// second one.
pub(crate) fn deactivate(qp: &mut Qp<'_>) {
    if qp.hot.flags.contains(QpFlags::ACTIVE) {
        qp.hot.flags.remove(QpFlags::ACTIVE);
        qp.cold.send_queue.shared().deactivate();
    }
}

/// Ends both streams: nothing is resent, nothing late is accepted.
pub(crate) fn stop_streams(qp: &mut Qp<'_>, units: &mut Units) {
    ungovern(qp, units);
    SendStream::of_requests(qp).stop(units);
    ReceiveStream::of_requests(qp).stop(units);
    stop_responses(qp, units);
    stop_reads(qp, units);
    if let Some(plain) = qp.cold.plain.as_deref_mut() {
        plain.stop(qp.hot.tx.nxt());
    }
    units.disarm_keepalive(qp.cold.slot);
    qp.cold.keepalive = None;
    qp.hot.flags.remove(QpFlags::LIFE);
    qp.cold.rnr = None;
    qp.cold.failure = None;
}

/// Completes all posted requests of the queues that the state flushes with WR_FLUSH_ERR, or the
/// failing one's own status. A place is free before its completion shows.
#[cold]
fn flush_queues(qp: &mut Qp<'_>, units: &mut Units, failure: Option<PendingFailure>) {
    let qpn = qp.hot.id.qpn;
    let tail = qp.cold.send_queue.tail();
    while qp.hot.req.head != tail {
        let sent = qp.cold.send_queue.sent(qp.hot.req.head);
        let status = match failure {
            Some(failure) if failure.position == qp.hot.req.head => failure.status,
            _ => WcStatus::WrFlushErr,
        };
        count_ended(&mut units.counters, status);
        qp.hot.req.head = qp.hot.req.head.wrapping_add(1);
        qp.cold.send_queue.release(qp.hot.req.head);
        units.complete(qp.hot.send_cq, &Completion::new(sent.wr_id, sent.opcode.completes_as(), qpn, status));
    }
    qp.hot.req.next = qp.hot.req.head;
    qp.hot.req.sent = 0;
    if qp.hot.id.state.flushes_recvs() {
        flush_receives(qp, units);
    }
}

/// Completes the receives of the own queue, or those taken of a shared one, with WR_FLUSH_ERR.
fn flush_receives(qp: &mut Qp<'_>, units: &mut Units) {
    while end_receive(qp, units, WcStatus::WrFlushErr) {}
}

/// Ends the next receive, which nothing came to, with an error. False if there is none.
pub(in crate::qp) fn end_receive(qp: &mut Qp<'_>, units: &mut Units, status: WcStatus) -> bool {
    let has_one = qp.cold.receives.has_next(qp.hot.rsp.recv_head);
    if has_one {
        let wr_id = qp.cold.receives.finish_next(units, &mut qp.hot.rsp.recv_head);
        if status == WcStatus::WrFlushErr {
            units.counters.resp_cqe_flush_error += 1;
        } else {
            units.counters.resp_cqe_error += 1;
            units.counters.resp_local_length_error += u64::from(status == WcStatus::LocLenErr);
        }
        units.complete(qp.cold.recv_cq, &Completion::new(wr_id, WcOpcode::Recv, qp.hot.id.qpn, status));
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
pub(crate) fn flush_taken(qp: &mut Qp<'_>, units: &mut Units) {
    if qp.cold.receives.srq().is_some() {
        flush_receives(qp, units);
    }
}

/// Whether a receive waits in the queue pair's own queue.
fn has_own_receive(qp: &Qp<'_>) -> bool {
    qp.cold.receives.srq().is_none() && qp.cold.receives.has_next(qp.hot.rsp.recv_head)
}
