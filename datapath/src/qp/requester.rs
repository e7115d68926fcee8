//! What the requesters of all dialects share: whether there is work, the packets of a request, and
//! how requests complete or fail.

mod complete;
mod failure;
mod grant;
mod idle;
mod local;
mod packet;
mod place;
mod rnr;

pub(crate) use complete::tell_if_drained;
pub(in crate::qp) use complete::{complete_acknowledged, complete_answered, disarm_if_idle};
pub(in crate::qp) use failure::{fail_head, fail_in_turn, give_up, status_of};
pub(crate) use grant::{Grant, TransmitEnd};
pub(crate) use idle::{become_idle, reactivate};
pub(in crate::qp) use local::{Begun, run_local};
pub(in crate::qp) use packet::{Sent, Wanted, emit, opcode_at, response_packets};
pub(in crate::qp) use place::place;
pub(in crate::qp) use rnr::{Rnr, begin_rnr};

use crate::qp::{Qp, QpFlags};
use crate::sched::SchedFlags;

/// Whether requests are ready.
#[inline]
pub(super) fn is_ready(qp: &Qp<'_>) -> bool {
    if !qp.hot.id.state.continues_sends() {
        return false;
    }
    qp.hot.sched.contains(SchedFlags::PROBE)
        || (!qp.hot.flags.contains(QpFlags::RNR_WAIT) && qp.hot.tx.may_send(|| has_new_work(qp)))
}

/// Whether there is a packet that was never sent and may be.
#[inline]
pub(super) fn has_new_work(qp: &Qp<'_>) -> bool {
    let begun = qp.hot.req.sent > 0;
    let posted = qp.hot.req.next != qp.cold.send_queue.tail();
    let waits = || qp.hot.flags.contains(QpFlags::READ_WAIT);
    // What a Plain requester sends again has begun, whatever happened since.
    let again = || qp.hot.flags.contains(QpFlags::REWOUND);
    let may_start = || qp.hot.id.state.starts_sends() || again();
    (begun || (posted && may_start() && !waits())) && (qp.cold.failure.is_none() || again())
}
