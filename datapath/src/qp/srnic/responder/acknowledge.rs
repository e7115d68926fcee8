//! Acknowledgement packets: ACK, NACK, RNR NAK, error NAK, and the READ-ACKs of responses
//! (protocol.md 2.2).

use crate::counters::count;
use crate::qp::owed::Owed;
use crate::qp::packet::{PacketBuilder, Zeros};
use crate::qp::srnic::ReceiveStream;
use crate::qp::{ControlKind, Qp, Qpc, Units};
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
    let (refusal, rnr_timer) = (qp.cold.refusal, qp.cold.attributes.attr.min_rnr_timer);
    let receiving = ReceiveStream::of(qp, stream)?;
    let epsn = receiving.rx.epsn();
    let withdrawn = kind.and_then(ControlKind::withdrawn);
    let mut said = match (withdrawn, refusal.filter(|_| !stream.response), kind) {
        (Some((psn, _)), ..) if !psn.is_before(epsn) => return None,
        (Some((psn, code)), ..) | (None, Some((psn, code)), _) => {
            units.counters.tx_error_naks += 1;
            Answer { syndrome: Syndrome::Nak(code), psn, ..in_order(epsn) }
        }
        (None, None, None) => in_order(epsn),
        (None, None, Some(kind)) => answer(&receiving, units, kind, rnr_timer)?,
    };
    let owed = *receiving.owed;
    if stream.response {
        said.flags |= AckFlags::RESPONSE_STREAM;
        units.counters.tx_read_acks += 1;
    } else if matches!(said.syndrome, Syndrome::RnrNak { .. }) {
        count!(units, qp.cold, tx_rnr_naks);
    }
    let len = emit(qp.hot, &owed, &said, units, frame)?;
    if withdrawn.is_none()
        && let Some(owed) = qp.owed_of(stream)
    {
        owed.settle(units.now);
    }
    Some(len)
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

/// What to say of a stream that not all is well with.
fn answer(
    stream: &ReceiveStream<'_>,
    units: &mut Units,
    kind: ControlKind,
    min_rnr_timer: u8,
) -> Option<Answer> {
    let epsn = stream.rx.epsn();
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
            let (bitmap, shape) = sack_bitmap(stream, first, sack);
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
fn sack_bitmap(stream: &ReceiveStream<'_>, first: Psn, sack: Psn) -> (Option<u64>, AckFlags) {
    let packets = sack.steps_from(stream.rx.run_start(sack).unwrap_or(first));
    if packets > 0 {
        let run = u64::MAX >> (u64::BITS - packets.min(u64::BITS));
        return (Some(run), AckFlags::BITMAP | AckFlags::BACKWARD);
    }
    match stream.gap.advance {
        (base, bitmap) if base == stream.rx.epsn() && bitmap != 0 => (Some(bitmap), AckFlags::BITMAP),
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
            flags: answer.flags | owed.flags,
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
