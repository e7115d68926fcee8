//! Acknowledgements: retire, complete, learn what is missing, react to refusals.

use super::reads::{Reads, take_answer};
use super::refused::{end_rnr, on_late_nak, on_refusal};
use super::timers::calm;
use crate::engine::{AsyncEvent, Units};
use crate::qp::context::{PendingFailure, QpCold, Qpc};
use crate::qp::flags::QpFlags;
use crate::qp::flush::opcode_of;
use crate::qp::plain::Plain;
use crate::qp::responder::on_read_ack;
use crate::qp::send_stream::{SendStream, wake};
use crate::qp::state::QpState;
use crate::qp::{fail, requester::has_new_work};
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
pub(crate) fn on_acknowledge(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units, ack: &Acknowledgement) {
    let Acknowledgement { aeth, ackx, .. } = *ack;
    if matches!(aeth.syndrome, Syndrome::Reserved(_)) {
        units.counters.drop_bad_ack += 1;
        return;
    }
    let info = read_info(ack);
    if ackx.flags.contains(AckFlags::RESPONSE_STREAM) {
        on_read_ack(qpc, cold, units, info, ackx, aeth.syndrome);
        return;
    }
    if !qpc.id.state.continues_sends() {
        units.counters.drop_qp_state += 1;
        return;
    }
    let app_limited = !has_new_work(qpc, cold);
    let acked = match SendStream::of_requests(qpc, cold).acknowledge(units, &info, &ackx, app_limited) {
        Ok(acked) => acked,
        Err(AckRefused::Stale) => {
            if let Syndrome::Nak(code) = aeth.syndrome {
                on_late_nak(qpc, cold, units, code, info.next);
                wake(qpc, cold, units, cold.requests());
            }
            return;
        }
        Err(AckRefused::Beyond) => return,
    };
    if acked > 0 {
        on_progress(qpc, cold, units);
    }
    if !matches!(aeth.syndrome, Syndrome::Ack { .. }) {
        on_refusal(qpc, cold, units, aeth.syndrome, info.next);
    }
    wake(qpc, cold, units, cold.requests());
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
fn on_progress(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) {
    if qpc.flags.contains(QpFlags::ORDERED_OVERLAP) {
        // It may have been waiting for what is acknowledged now; if not, it goes on waiting.
        qpc.flags.remove(QpFlags::READ_WAIT);
    }
    complete_acknowledged(qpc, cold, units);
    if qpc.id.state == QpState::Err {
        return;
    }
    // An RNR NAK counts at `una` only: progress during the wait says that it was a late copy.
    if let Some(rnr) = cold.rnr.take() {
        end_rnr(qpc, cold, units, rnr.sent_until);
    }
    calm(qpc, cold, units);
    tell_if_drained(qpc, cold, units);
}

/// In SQD, with no request begun: the application is told if it asked for it. Called when the last one is done, and on
/// entry.
pub(crate) fn tell_if_drained(qpc: &Qpc, cold: &QpCold, units: &mut Units) {
    // A Plain queue pair that has gone back stands where nothing seems to have begun.
    let idle = qpc.req.sent == 0 && qpc.req.head == qpc.req.next && !qpc.flags.contains(QpFlags::REWOUND);
    let drained = qpc.id.state == QpState::Sqd && idle;
    if drained && cold.attributes.attr.en_sqd_async_notify {
        units.events.push(AsyncEvent::SqDrained { qpn: qpc.id.qpn });
    }
}

/// A response came: complete what is done.
pub(in crate::qp) fn complete_answered(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) {
    complete_acknowledged(qpc, cold, units);
    calm(qpc, cold, units);
    tell_if_drained(qpc, cold, units);
}

/// Completes the requests whose last packet is acknowledged, and whose response is here.
#[inline(always)]
fn complete_acknowledged(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) {
    let (una, first, next) = (qpc.tx.una(), qpc.req.head, qpc.req.next);
    let mut completions = units.completions(qpc.send_cq);
    let (entries, queue) = (&*cold.sq_entries, &cold.send_queue);
    let (mut head, mut fits) = (first, true);
    while fits && head != next {
        let entry = &entries[head as usize & (entries.len() - 1)];
        if una.is_before(entry.first_psn.add(entry.packets)) {
            break;
        }
        let sent = queue.sent(head);
        if sent.opcode.has_response() {
            let rslot = entry.ssn;
            if !is_answered(&mut cold.plain, &mut cold.reads, rslot, &mut qpc.flags) {
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
                qpn: qpc.id.qpn,
                src_qp: 0,
            });
        }
        head = head.wrapping_add(1);
    }
    qpc.req.head = head;
    if head != first {
        units.show_completions(qpc.send_cq, cold.send_queue.release(head));
        // What waited for all of them may begin.
        if head == next {
            qpc.flags.remove(QpFlags::READ_WAIT);
        }
    }
    if !fits {
        fail(qpc, cold, units, None);
    } else if let Some(failure) = cold.failure {
        settle_failure(qpc, cold, units, failure);
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

/// A request that could not be sent, or not again, fails when all before it have completed; one that turns out to have
/// arrived does not.
#[cold]
#[inline(never)]
fn settle_failure(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units, failure: PendingFailure) {
    if failure.position == qpc.req.head {
        fail(qpc, cold, units, Some(failure));
    } else if qpc.req.head.wrapping_sub(failure.position).cast_signed() > 0 {
        cold.failure = None;
    }
}
