//! Requests that fail: each in its turn, behind all that came before it.

use crate::qp::context::PendingFailure;
use crate::qp::{Qp, Units, fail};
use crate::queue::WcStatus;
use wire::NakCode;

/// The request fails once all before it have completed; nothing behind it is sent. Of two that must
/// fail, the first does.
#[cold]
pub(in crate::qp) fn fail_in_turn(qp: &mut Qp<'_>, units: &mut Units, failure: PendingFailure) {
    let head = qp.hot.req.head;
    if head == failure.position {
        fail(qp, units, Some(failure));
        return;
    }
    let distance = |failure: PendingFailure| failure.position.wrapping_sub(head);
    if qp.cold.failure.is_none_or(|other| distance(failure) < distance(other)) {
        qp.cold.failure = Some(failure);
    }
}

/// Retries are exhausted.
pub(in crate::qp) fn give_up(qp: &mut Qp<'_>, units: &mut Units) {
    units.counters.retry_exceeded += 1;
    fail_head(qp, units, WcStatus::RetryExcErr);
}

/// The oldest request fails, and the queue pair with it.
pub(in crate::qp) fn fail_head(qp: &mut Qp<'_>, units: &mut Units, status: WcStatus) {
    let failure = PendingFailure { position: qp.hot.req.head, status };
    fail(qp, units, Some(failure));
}

/// The status of a request that an error NAK ends (protocol.md 1.6).
pub(in crate::qp) const fn status_of(code: NakCode) -> WcStatus {
    match code {
        NakCode::RemoteAccess => WcStatus::RemAccessErr,
        NakCode::RemoteOperational => WcStatus::RemOpErr,
        _ => WcStatus::RemInvReqErr,
    }
}
