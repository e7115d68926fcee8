//! Acknowledgements: retire, complete, learn what is missing, react to refusals.

use super::reads::{Reads, take_answer};
use super::refused::{end_rnr, on_late_nak, on_refusal};
use super::timers::disarm_if_idle;
use crate::event::AsyncEvent;
use crate::qp::Units;
use crate::qp::context::PendingFailure;
use crate::qp::flags::QpFlags;
use crate::qp::flush::opcode_of;
use crate::qp::pair::Qp;
use crate::qp::plain::Plain;
use crate::qp::responder::on_read_ack;
use crate::qp::send_stream::SendStream;
use crate::qp::{fail, requester::has_new_work};
use crate::qp_state::QpState;
use crate::queue::{Completion, SendFlags, WcFlags, WcStatus};
use crate::stream::{AckInfo, AckRefused};
use wire::{AckFlags, Ackx, Aeth, Meta, NakCode, Packet, Psn, Ssn, Syndrome};

/// An acknowledgement, as its headers say it.
#[derive(Clone, Copy)]
pub(crate) struct Acknowledgement {
    pub psn: Psn,
    pub aeth: Aeth,
    pub meta: Meta,
    pub ackx: Ackx,
    pub bitmap: u64,
}

impl Acknowledgement {
    /// `None` if it is none of the SRNIC dialect.
    pub fn new(packet: &Packet<'_>) -> Option<Self> {
        Some(Self {
            psn: packet.psn(),
            aeth: packet.aeth()?,
            meta: packet.meta()?,
            ackx: packet.ackx()?,
            bitmap: packet.sackb().unwrap_or(0),
        })
    }
}

/// Handles an acknowledgement that passed the checks of protocol.md 1.2.
#[inline(never)]
pub(crate) fn on_acknowledge(mut qp: Qp<'_>, units: &mut Units, ack: &Acknowledgement) {
    let Acknowledgement { aeth, ackx, .. } = *ack;
    if matches!(aeth.syndrome, Syndrome::Reserved(_)) {
        units.counters.drop_bad_ack += 1;
        return;
    }
    let info = read_info(ack);
    if ackx.flags.contains(AckFlags::RESPONSE_STREAM) {
        on_read_ack(&mut qp, units, info, ackx, aeth.syndrome);
        return;
    }
    if !qp.hot.id.state.continues_sends() {
        units.counters.drop_qp_state += 1;
        return;
    }
    let app_limited = !has_new_work(&qp);
    let acked = match SendStream::of_requests(&mut qp).acknowledge(units, &info, &ackx, app_limited) {
        Ok(acked) => acked,
        Err(AckRefused::Stale) => {
            if let Syndrome::Nak(code) = aeth.syndrome {
                on_late_nak(&mut qp, units, code, info.next);
                qp.wake(qp.cold.requests(), units);
            }
            return;
        }
        Err(AckRefused::Beyond) => return,
    };
    if acked > 0 {
        on_progress(&mut qp, units);
    }
    if !matches!(aeth.syndrome, Syndrome::Ack { .. }) {
        on_refusal(&mut qp, units, aeth.syndrome, info.next);
    }
    qp.wake(qp.cold.requests(), units);
}

/// What an acknowledgement says about its stream.
#[inline(always)]
fn read_info(ack: &Acknowledgement) -> AckInfo {
    let Acknowledgement { psn, aeth, meta, ackx, bitmap } = *ack;
    let nack = aeth.syndrome == Syndrome::Nak(NakCode::PsnSequence);
    let sack_valid = ackx.flags.contains(AckFlags::SACK_VALID);
    let next = if matches!(aeth.syndrome, Syndrome::Ack { .. }) { psn.next() } else { psn };
    let (bitmap, bitmap_base) = if ackx.flags.contains(AckFlags::BACKWARD) {
        (bitmap.reverse_bits(), ackx.sack_psn.sub(u64::BITS))
    } else {
        (bitmap, next.next())
    };
    let duplicate = ackx.flags.contains(AckFlags::DUPLICATE);
    AckInfo {
        next,
        sack: sack_valid.then_some(ackx.sack_psn),
        bitmap,
        bitmap_base,
        resend_all: nack && !sack_valid,
        duplicate,
        echo: (duplicate && ackx.flags.contains(AckFlags::META_VALID)).then_some(meta),
    }
}

/// `una` moved: complete what is done, and go on after an RNR wait.
#[inline(always)]
fn on_progress(qp: &mut Qp<'_>, units: &mut Units) {
    if qp.hot.flags.contains(QpFlags::ORDERED_OVERLAP) {
        // It may have been waiting for what is acknowledged now; if not, it goes on waiting.
        qp.hot.flags.remove(QpFlags::READ_WAIT);
    }
    complete_acknowledged(qp, units);
    if qp.hot.id.state == QpState::Err {
        return;
    }
    // An RNR NAK counts at `una` only: progress during the wait says that it was a late copy.
    if let Some(rnr) = qp.cold.rnr.take() {
        end_rnr(qp, units, rnr.sent_until);
    }
    disarm_if_idle(qp, units);
    tell_if_drained(qp, units);
}

/// In SQD, with no request begun: the application is told if it asked for it. Called when the last
/// one is done, and on entry.
pub(crate) fn tell_if_drained(qp: &Qp<'_>, units: &mut Units) {
    // A Plain queue pair that has gone back stands where nothing seems to have begun.
    let idle = qp.hot.req.sent == 0
        && qp.hot.req.head == qp.hot.req.next
        && !qp.hot.flags.contains(QpFlags::REWOUND);
    let drained = qp.hot.id.state == QpState::Sqd && idle;
    if drained && qp.cold.attributes.attr.en_sqd_async_notify {
        units.events.push(AsyncEvent::SqDrained { qpn: qp.hot.id.qpn });
    }
}

/// A response came: complete what is done.
pub(in crate::qp) fn complete_answered(qp: &mut Qp<'_>, units: &mut Units) {
    complete_acknowledged(qp, units);
    disarm_if_idle(qp, units);
    tell_if_drained(qp, units);
}

/// Completes the requests whose last packet is acknowledged, and whose response is here.
#[inline(always)]
fn complete_acknowledged(qp: &mut Qp<'_>, units: &mut Units) {
    let (una, first, next) = (qp.hot.tx.una(), qp.hot.req.head, qp.hot.req.next);
    let mut completions = units.completions(qp.hot.send_cq);
    let (entries, queue) = (&*qp.cold.sq_entries, &qp.cold.send_queue);
    let (mut head, mut fits) = (first, true);
    while fits && head != next {
        let entry = &entries[head as usize & (entries.len() - 1)];
        if una.is_before(entry.first_psn.add(entry.packets)) {
            break;
        }
        let sent = queue.sent(head);
        if sent.opcode.has_response() {
            let rslot = entry.ssn;
            if !is_answered(&mut qp.cold.plain, &mut qp.cold.reads, rslot, &mut qp.hot.flags) {
                break;
            }
        }
        if sent.flags.contains(SendFlags::SIGNALED) {
            fits = completions.write(&Completion {
                wr_id: sent.wr_id,
                status: WcStatus::Success,
                opcode: opcode_of(sent.opcode),
                flags: WcFlags::empty(),
                byte_len: sent.length,
                imm: 0,
                qpn: qp.hot.id.qpn,
                src_qp: 0,
            });
        }
        head = head.wrapping_add(1);
    }
    qp.hot.req.head = head;
    if head != first {
        units.show_completions(qp.hot.send_cq, qp.cold.send_queue.release(head));
        // What waited for all of them may begin.
        if head == next {
            qp.hot.flags.remove(QpFlags::READ_WAIT);
        }
    }
    if !fits {
        fail(qp, units, None);
    } else if let Some(failure) = qp.cold.failure {
        settle_failure(qp, units, failure);
    }
}

/// Takes the response of an acknowledged READ or atomic, in slot `rslot`; false if it is not here.
#[inline(never)]
fn is_answered(
    plain: &mut Option<Box<Plain>>,
    reads: &mut Option<Box<Reads>>,
    rslot: Ssn,
    flags: &mut QpFlags,
) -> bool {
    let Some(plain) = plain.as_deref_mut() else { return take_answer(reads, rslot, flags) };
    // Plain: `una` passes a READ only with its response.
    plain.take_answer(flags);
    true
}

/// A request that could not be sent, or not again, fails when all before it have completed; one
/// that turns out to have arrived does not.
#[cold]
#[inline(never)]
fn settle_failure(qp: &mut Qp<'_>, units: &mut Units, failure: PendingFailure) {
    if failure.position == qp.hot.req.head {
        fail(qp, units, Some(failure));
    } else if qp.hot.req.head.wrapping_sub(failure.position).cast_signed() > 0 {
        qp.cold.failure = None;
    }
}
