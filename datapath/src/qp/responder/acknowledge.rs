//! Acknowledgement packets: ACK, NACK, RNR NAK, error NAK (protocol.md 2.2).

use crate::engine::{ControlKind, Units};
use crate::qp::context::{QpCold, Qpc};
use crate::time::Time;
use wire::{
    AckFlags, Ackx, Aeth, Bth, Layout, Meta, NakCode, Opcode, Psn, Syndrome, WireMode, bth, emit, icrc,
};

/// Credit code that says nothing about credits.
const NO_CREDITS: u8 = 0x1F;
const ICRC_LEN: usize = 4;
const SACKB_LEN: usize = 8;

/// The parts of an acknowledgement that depend on what it says.
struct Answer {
    syndrome: Syndrome,
    psn: Psn,
    flags: AckFlags,
    sack: Psn,
    bitmap: Option<u64>,
}

/// Writes an acknowledgement of what has arrived by now into `frame`; `kind` is `None` for the plain one. Returns the
/// frame's length.
pub(crate) fn write_ack(
    qpc: &mut Qpc,
    cold: &QpCold,
    units: &mut Units,
    kind: Option<ControlKind>,
    frame: &mut [u8],
) -> Option<usize> {
    let answer = answer(qpc, cold, units, kind)?;
    let layout = Layout::of(WireMode::Srnic, Opcode::RcAck)?;
    let base = qpc.template.len();
    let headers = usize::from(layout.len) + answer.bitmap.map_or(0, |_| SACKB_LEN);
    let end = base + headers + ICRC_LEN;
    let frame = frame.get_mut(..end)?;
    qpc.template.emit(frame, headers + ICRC_LEN);
    let transport = &mut frame[base..];
    let header = Bth {
        pkey: qpc.id.pkey,
        dest_qp: qpc.id.dest_qpn,
        psn: answer.psn,
        ..Bth::new(WireMode::Srnic, Opcode::RcAck)
    };
    bth::emit(transport, &header);
    let aeth = Aeth { syndrome: answer.syndrome, msn: qpc.rsp.completed };
    aeth.emit(&mut transport[usize::from(layout.aeth)..]);
    let meta = Meta { msn: qpc.rsp.echo_msn, offset: qpc.rsp.echo_offset };
    meta.emit(&mut transport[usize::from(layout.meta)..]);
    let ackx = Ackx {
        flags: answer.flags,
        sack_psn: answer.sack,
        ce_cnt: qpc.rsp.ce_count,
        ack_delay: ack_delay(units.now, qpc.rsp.arrived_at),
    };
    ackx.emit(&mut transport[usize::from(layout.ackx)..]);
    if let Some(bitmap) = answer.bitmap {
        emit::sackb(&mut transport[usize::from(layout.len)..], bitmap);
    }
    icrc::seal(&mut frame[qpc.template.l3_offset()..]);
    qpc.rsp.unacked = 0;
    qpc.rsp.ack_due = false;
    units.counters.tx_acks += 1;
    Some(end)
}

fn answer(qpc: &Qpc, cold: &QpCold, units: &mut Units, kind: Option<ControlKind>) -> Option<Answer> {
    let epsn = qpc.rx.epsn();
    let ack = Answer {
        syndrome: Syndrome::Ack { credits: NO_CREDITS },
        psn: epsn.prev(),
        flags: AckFlags::META_VALID,
        sack: epsn.prev(),
        bitmap: None,
    };
    if let Some((psn, code)) = cold.refusal {
        units.counters.tx_error_naks += 1;
        return Some(Answer { syndrome: Syndrome::Nak(code), psn, ..ack });
    }
    let nack = Syndrome::Nak(NakCode::PsnSequence);
    Some(match kind {
        None => ack,
        Some(ControlKind::ErrorNak) => return None,
        Some(ControlKind::Duplicate) => Answer { flags: ack.flags | AckFlags::DUPLICATE, ..ack },
        // What it reports or refused was overtaken: everything up to it has arrived by now.
        Some(ControlKind::Nack { sack: psn, .. } | ControlKind::Rnr { psn }) if psn.is_before(epsn) => ack,
        Some(ControlKind::Nack { first, sack }) => {
            units.counters.tx_nacks += 1;
            let (bitmap, shape) = sack_bitmap(qpc, cold, first, sack);
            let flags = ack.flags | AckFlags::SACK_VALID | shape;
            Answer { syndrome: nack, psn: epsn, flags, sack, bitmap }
        }
        Some(ControlKind::NackAll) => {
            units.counters.tx_nacks += 1;
            Answer { syndrome: nack, psn: epsn, ..ack }
        }
        Some(ControlKind::Rnr { psn }) => {
            units.counters.tx_rnr_naks += 1;
            let timer = cold.attributes.attr.min_rnr_timer;
            Answer { syndrome: Syndrome::RnrNak { timer }, psn, ..ack }
        }
    })
}

/// What else arrived: the run that ends at `sack`, and no less than what this NACK speaks for, from `first` on; else what
/// the newest Advance said, if it speaks of the present ePSN.
fn sack_bitmap(qpc: &Qpc, cold: &QpCold, first: Psn, sack: Psn) -> (Option<u64>, AckFlags) {
    let packets = sack.steps_from(qpc.rx.run_start(sack).unwrap_or(first));
    if packets > 0 {
        let run = u64::MAX >> (u64::BITS - packets.min(u64::BITS));
        return (Some(run), AckFlags::BITMAP | AckFlags::BACKWARD);
    }
    let advance = cold.rx_recovery.as_ref().and_then(|recovery| recovery.advance);
    match advance {
        Some((base, bitmap)) if base == qpc.rx.epsn() && bitmap != 0 => (Some(bitmap), AckFlags::BITMAP),
        _ => (None, AckFlags::empty()),
    }
}

/// Host time from arrival to acknowledgement, in units of 64 ns, saturating.
fn ack_delay(now: Time, arrived_at: Time) -> u16 {
    u16::try_from(now.since(arrived_at) / 64).unwrap_or(u16::MAX)
}
