//! Acknowledgements: retire, complete, learn what is missing, react to refusals.

use super::refused::{end_rnr, on_late_nak, on_refusal};
use crate::qp::requester::{complete_acknowledged, disarm_if_idle, has_new_work, tell_if_drained};
use crate::qp::send_stream::SendStream;
use crate::qp::srnic::responder::on_read_ack;
use crate::qp::{Qp, QpFlags, Units, hear_host};
use crate::qp_state::QpState;
use crate::sched::SchedFlags;
use crate::stream::{AckInfo, AckRefused};
use wire::{AckFlags, Ackx, Aeth, Meta, NakCode, Packet, Psn, Syndrome};

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
        on_progress(&mut qp, units, &ackx, app_limited);
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

/// `una` moved of a queue pair whose WRITEs wait for each other, of which a request is sampled, or
/// whose peer's host may have a rate.
#[cold]
#[inline(never)]
fn on_rare_progress(qp: &mut Qp<'_>, units: &mut Units, host_delay_ns: u32, app_limited: bool) {
    if qp.hot.flags.contains(QpFlags::ORDERED_OVERLAP) {
        // It may have been waiting for what is acknowledged now; if not, it goes on waiting.
        qp.hot.flags.remove(QpFlags::READ_WAIT);
    }
    qp.cold.watched.host_delay_ns = host_delay_ns;
    if qp.hot.sched.contains(SchedFlags::PACED) {
        hear_host(qp, units, qp.cold.requests(), host_delay_ns, app_limited);
    }
}

/// `una` moved: complete what is done, and go on after an RNR wait.
#[inline(always)]
fn on_progress(qp: &mut Qp<'_>, units: &mut Units, ackx: &Ackx, app_limited: bool) {
    if qp.hot.flags.intersects(QpFlags::ORDERED_OVERLAP.union(QpFlags::WATCHED))
        || qp.hot.sched.contains(SchedFlags::PACED)
    {
        on_rare_progress(qp, units, ackx.ack_delay_ns(), app_limited);
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
