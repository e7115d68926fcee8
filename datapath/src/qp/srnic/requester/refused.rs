//! What a peer refuses: NACKs are only counted, RNR NAKs make the stream wait, error NAKs end a
//! request.

use super::transmit::find_message;
use crate::counters::count;
use crate::qp::context::PendingFailure;
use crate::qp::requester::{Rnr, begin_rnr, fail_in_turn, status_of};
use crate::qp::send_stream::SendStream;
use crate::qp::srnic::ReceiveStream;
use crate::qp::{Qp, QpFlags, Units};
use crate::qp_state::QpState;
use crate::queue::WcStatus;
use wire::{NakCode, Psn, Syndrome};

/// NACKs, RNR NAKs and error NAKs, after what they acknowledge was retired.
#[cold]
pub(super) fn on_refusal(qp: &mut Qp<'_>, units: &mut Units, syndrome: Syndrome, refused: Psn) {
    if qp.hot.id.state == QpState::Err {
        return;
    }
    units.charge_refusal(qp.cold.slot);
    let is_oldest = refused == qp.hot.tx.una() && qp.hot.tx.outstanding() > 0;
    match syndrome {
        Syndrome::Nak(NakCode::PsnSequence) => count!(units, qp.cold, rx_nacks),
        Syndrome::RnrNak { timer } => {
            count!(units, qp.cold, rx_rnr_naks);
            if is_oldest && begin_rnr(qp, units, timer) == Rnr::Exhausted {
                fail_from(qp, units, refused, WcStatus::RnrRetryExcErr);
            }
        }
        Syndrome::Nak(code) => {
            units.counters.rx_error_naks += 1;
            if is_oldest {
                fail_from(qp, units, refused, status_of(code));
            }
        }
        // The caller has seen to both.
        Syndrome::Ack { .. } | Syndrome::Reserved(_) => {}
    }
}

/// An error NAK of a request that is acknowledged: its response cannot be had, because the peer has
/// withdrawn its memory. If all of it is here, the peer does not know, and is told again: it would
/// keep back what comes behind it.
#[cold]
pub(super) fn on_late_nak(qp: &mut Qp<'_>, units: &mut Units, code: NakCode, refused: Psn) {
    if code == NakCode::PsnSequence {
        return;
    }
    units.counters.rx_error_naks += 1;
    if is_unanswered(qp, refused) {
        fail_from(qp, units, refused, status_of(code));
    } else if let Some(mut stream) = ReceiveStream::of_responses(qp) {
        stream.insist(units);
    }
}

/// Whether the request at `psn` waits for its response.
fn is_unanswered(qp: &Qp<'_>, psn: Psn) -> bool {
    let Some(position) = find_message(qp, psn) else { return false };
    let rslot = qp.cold.entry(position).ssn;
    qp.cold.send_queue.wqe(position).opcode.has_response()
        && qp.cold.reads.as_deref().is_some_and(|reads| !reads.is_answered(rslot))
}

/// The request at `psn` fails once all before it have completed. They are acknowledged, but
/// responses may be under way; nothing from `psn` on is sent any more (protocol.md 2.4, error NAK).
fn fail_from(qp: &mut Qp<'_>, units: &mut Units, psn: Psn, status: WcStatus) {
    let position = find_message(qp, psn).unwrap_or(qp.hot.req.head);
    fail_in_turn(qp, units, PendingFailure { position, status });
    if qp.hot.id.state == QpState::Err {
        return;
    }
    qp.hot.req.next = position;
    qp.hot.req.sent = 0;
    qp.cold.rnr = None;
    qp.hot.flags.remove(QpFlags::RNR_WAIT);
    let mut stream = SendStream::of_requests(qp);
    stream.forget(units);
    // From here on only responses are waited for.
    stream.arm_anew(units);
}

/// A receive was there: everything un-SACKed that was sent before the RNR NAK is lost and goes
/// again.
pub(super) fn end_rnr(qp: &mut Qp<'_>, units: &mut Units, sent_until: Psn) {
    qp.cold.rnr_retries = 0;
    qp.hot.flags.remove(QpFlags::RNR_WAIT);
    let mut stream = SendStream::of_requests(qp);
    // The timer stands at the end of the wait, which may be far off.
    stream.arm_anew(units);
    let record = stream.tx.resend_until(stream.recovery, sent_until);
    units.tell_slow_path(record);
}
