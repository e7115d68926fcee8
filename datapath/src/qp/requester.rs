//! The requester: sends requests, takes acknowledgements, completes work requests.

mod acknowledged;
mod ask;
mod common;
mod grant;
mod idle;
mod local;
mod long;
mod overlap;
mod packet;
mod place;
mod reads;
mod refused;
mod response;
mod timers;
mod transmit;

pub(crate) use acknowledged::{Acknowledgement, on_acknowledge, tell_if_drained};
pub(crate) use grant::{Grant, TransmitEnd};
pub(crate) use idle::{become_idle, reactivate};
pub(in crate::qp) use local::{Local, run_local};
pub(crate) use overlap::Hull;
pub(in crate::qp) use packet::opcode_at;
pub(crate) use reads::Reads;
pub(in crate::qp) use response::stop_reads;
pub(crate) use response::{apply_response_advance, on_response};
pub(crate) use timers::on_timer;
pub(crate) use transmit::transmit;
// What a Plain requester shares.
pub(in crate::qp) use acknowledged::complete_answered;
pub(in crate::qp) use packet::{Sent, Wanted, emit};
pub(in crate::qp) use place::place;
pub(in crate::qp) use reads::response_packets;
pub(in crate::qp) use refused::{next_rnr_wait, refused_again, status_of};
pub(in crate::qp) use timers::give_up;
pub(in crate::qp) use transmit::{fail_in_turn, find_among};

use crate::qp::flags::QpFlags;
use crate::qp::pair::Qp;
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
