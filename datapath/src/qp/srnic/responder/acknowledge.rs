//! Acknowledgement packets: ACK, NACK, RNR NAK, error NAK, and the READ-ACKs of responses
//! (protocol.md 2.2).

use crate::counters::count;
use crate::qp::owed::Owed;
use crate::qp::packet::{PacketBuilder, Zeros};
use crate::qp::{ControlKind, Qp, QpCold, Qpc, Units};
use crate::stream::RxStream;
use sr_recovery::StreamId;
use wire::srnic::ack_delay_of_ns;
use wire::{AckFlags, Ackx, Aeth, Bth, Fields, Meta, NakCode, Opcode, Psn, Syndrome, WireMode};

/// The parts of an acknowledgement that depend on what it says.
struct Answer {
    syndrome: Syndrome,
    psn: Psn,
    flags: AckFlags,
    sack: Psn,
    bitmap: Option<u64>,
    /// META of the packet that is answered, if it is not that of the last one.
    echo: Option<Meta>,
}

/// Writes the acknowledgement of requests into `frame`: all before ePSN have arrived. Returns the
/// frame's length.
#[inline]
pub(in crate::qp) fn write_in_order(qp: &mut Qp<'_>, units: &mut Units, frame: &mut [u8]) -> Option<usize> {
    let len = emit(qp.hot, &qp.hot.rsp.owed, &in_order(qp.hot.rx.epsn()), units, frame)?;
    qp.hot.rsp.owed.settle(units.now);
    Some(len)
}

/// Writes any acknowledgement into `frame`, of the packets of `stream`; `kind` is `None` for the
/// plain one. Returns the frame's length; `None` if there is nothing to say.
#[inline(always)]
pub(in crate::qp) fn write_ack(
    qp: &mut Qp<'_>,
    units: &mut Units,
    stream: StreamId,
    kind: Option<ControlKind>,
    frame: &mut [u8],
) -> Option<usize> {
    let (answer, owed) = if stream.response {
        answer_responses(qp.cold, units, kind)?
    } else {
        let answer = answer_requests(qp, units, kind)?;
        if matches!(answer.syndrome, Syndrome::RnrNak { .. }) {
            count!(units, qp.cold, tx_rnr_naks);
        }
        (answer, qp.hot.rsp.owed)
    };
    let len = emit(qp.hot, &owed, &answer, units, frame)?;
    if kind.and_then(ControlKind::withdrawn).is_none()
        && let Some(owed) = qp.owed_of(stream)
    {
        owed.settle(units.now);
    }
    Some(len)
}

/// What to say of requests.
fn answer_requests(qp: &Qp<'_>, units: &mut Units, kind: Option<ControlKind>) -> Option<Answer> {
    let withdrawn = kind.and_then(ControlKind::withdrawn);
    if withdrawn.is_some_and(|(psn, _)| !psn.is_before(qp.hot.rx.epsn())) {
        return None;
    }
    if let Some((psn, code)) = withdrawn.or(qp.cold.refusal) {
        units.counters.tx_error_naks += 1;
        return Some(Answer { syndrome: Syndrome::Nak(code), psn, ..in_order(qp.hot.rx.epsn()) });
    }
    let Some(kind) = kind else { return Some(in_order(qp.hot.rx.epsn())) };
    let advance = qp.cold.rx_recovery.as_ref().and_then(|recovery| recovery.advance);
    answer(&qp.hot.rx, advance, units, kind, qp.cold.attributes.attr.min_rnr_timer)
}

/// What to say of responses, and what is owed to their sender.
#[inline(always)]
fn answer_responses(cold: &QpCold, units: &mut Units, kind: Option<ControlKind>) -> Option<(Answer, Owed)> {
    let reads = cold.reads.as_deref()?;
    let mut said = match kind {
        Some(kind) => answer(&reads.rx, reads.advance, units, kind, 0)?,
        None => in_order(reads.rx.epsn()),
    };
    said.flags |= AckFlags::RESPONSE_STREAM;
    units.counters.tx_read_acks += 1;
    Some((said, reads.owed))
}

/// Everything before `epsn` has arrived.
const fn in_order(epsn: Psn) -> Answer {
    Answer {
        syndrome: Syndrome::ACK,
        psn: epsn.prev(),
        flags: AckFlags::META_VALID,
        sack: epsn.prev(),
        bitmap: None,
        echo: None,
    }
}

/// What to say of a stream that not all is well with; `advance` is the newest Advance that did not
/// end its Recovery.
fn answer(
    rx: &RxStream,
    advance: Option<(Psn, u64)>,
    units: &mut Units,
    kind: ControlKind,
    min_rnr_timer: u8,
) -> Option<Answer> {
    let epsn = rx.epsn();
    let ack = in_order(epsn);
    let nack = Syndrome::Nak(NakCode::PsnSequence);
    Some(match kind {
        ControlKind::ErrorNak | ControlKind::Withdrawn { .. } | ControlKind::Cnp | ControlKind::LastWord => {
            return None;
        }
        ControlKind::Duplicate { meta } => {
            Answer { flags: ack.flags | AckFlags::DUPLICATE, echo: Some(meta), ..ack }
        }
        // What it reports or refused was overtaken: everything up to it has arrived by now.
        ControlKind::Nack { sack: psn, .. } | ControlKind::Rnr { psn } if psn.is_before(epsn) => ack,
        ControlKind::Nack { first, sack } => {
            units.counters.tx_nacks += 1;
            let (bitmap, shape) = sack_bitmap(rx, advance, first, sack);
            let flags = ack.flags | AckFlags::SACK_VALID | shape;
            Answer { syndrome: nack, psn: epsn, flags, sack, bitmap, ..ack }
        }
        ControlKind::NackAll => {
            units.counters.tx_nacks += 1;
            Answer { syndrome: nack, psn: epsn, ..ack }
        }
        ControlKind::Rnr { psn } => {
            Answer { syndrome: Syndrome::RnrNak { timer: min_rnr_timer }, psn, ..ack }
        }
    })
}

/// What else arrived: the run that ends at `sack`, and no less than what this NACK speaks for, from
/// `first` on; else what the newest Advance said, if it speaks of the present ePSN.
fn sack_bitmap(rx: &RxStream, advance: Option<(Psn, u64)>, first: Psn, sack: Psn) -> (Option<u64>, AckFlags) {
    let packets = sack.steps_from(rx.run_start(sack).unwrap_or(first));
    if packets > 0 {
        let run = u64::MAX >> (u64::BITS - packets.min(u64::BITS));
        return (Some(run), AckFlags::BITMAP | AckFlags::BACKWARD);
    }
    match advance {
        Some((base, bitmap)) if base == rx.epsn() && bitmap != 0 => (Some(bitmap), AckFlags::BITMAP),
        _ => (None, AckFlags::empty()),
    }
}

/// Writes the packet. Returns the frame's length, or `None` if it does not fit.
#[inline(always)]
fn emit(qpc: &Qpc, owed: &Owed, answer: &Answer, units: &mut Units, frame: &mut [u8]) -> Option<usize> {
    let bth = Bth { psn: answer.psn, ..qpc.id.bth(WireMode::Srnic, Opcode::RcAck) };
    let fields = Fields {
        aeth: Aeth { syndrome: answer.syndrome, msn: qpc.rsp.completed.get() },
        meta: answer.echo.unwrap_or_else(|| owed.echo()),
        ackx: Ackx {
            flags: answer.flags,
            sack_psn: answer.sack,
            ce_cnt: owed.ce_count,
            ack_delay: ack_delay_of_ns(units.now.since(owed.waits_since)),
        },
        sackb: answer.bitmap.unwrap_or(0),
        ..Fields::default()
    };
    let packet = PacketBuilder::new(&qpc.template, WireMode::Srnic, bth, fields).ok()?;
    let len = packet.build(&Zeros(0), frame).ok()?;
    units.counters.tx_acks += 1;
    Some(len)
}
