//! ACKs, NAKs and RNR NAKs as standard peers know them; notifications go the same way.

use super::cnp;
use crate::counters::count;
use crate::engine::{ControlKind, Units};
use crate::qp::context::{QpCold, Qpc};
use wire::{Aeth, Bth, NakCode, Opcode, Syndrome, WireMode, bth, icrc};

const ICRC_LEN: usize = 4;

/// Writes an acknowledgement of what has arrived by now into `frame`; `kind` is `None` for the plain one. Returns the
/// frame's length; `None` if responses must be sent before it: the last of them sees to it then.
#[cold]
pub(crate) fn write_ack(
    qpc: &mut Qpc,
    cold: &mut QpCold,
    units: &mut Units,
    kind: Option<ControlKind>,
    frame: &mut [u8],
) -> Option<usize> {
    if kind == Some(ControlKind::Cnp) {
        return cnp::write(qpc, units, frame);
    }
    let epsn = qpc.rx.epsn();
    let rsp = &cold.plain.as_deref()?.rsp;
    let ack = (Syndrome::ACK, rsp.taken.prev());
    let withdrawn = kind.and_then(ControlKind::withdrawn);
    let may_pass = withdrawn.map_or(!rsp.resources.is_pending(), |(psn, _)| psn.is_before(epsn));
    if !may_pass {
        return None;
    }
    let (syndrome, psn) = match (withdrawn.or(cold.refusal), kind) {
        (Some((psn, code)), _) => {
            units.counters.tx_error_naks += 1;
            (Syndrome::Nak(code), psn)
        }
        // The packet that was asked for came in the same burst.
        (None, Some(ControlKind::NackAll)) if !rsp.gap_reported => ack,
        (None, Some(ControlKind::NackAll)) => {
            units.counters.tx_nacks += 1;
            (Syndrome::Nak(NakCode::PsnSequence), epsn)
        }
        (None, Some(ControlKind::Rnr { psn })) if psn == epsn => {
            count!(units, cold, tx_rnr_naks);
            (Syndrome::RnrNak { timer: cold.attributes.attr.min_rnr_timer }, psn)
        }
        (None, _) => ack,
    };
    let header = Bth { psn, ..Bth::new(WireMode::Plain, Opcode::RcAck) };
    let aeth = Aeth { syndrome, msn: qpc.rsp.completed };
    let len = emit(qpc, header, Aeth::LEN, frame, |bytes| aeth.emit(bytes))?;
    units.counters.tx_acks += 1;
    if withdrawn.is_none() {
        qpc.rsp.owed.settle(units.now);
    }
    Some(len)
}

/// Writes a packet without payload: `header`, with what is the queue pair's put in, and `more` bytes behind it, which
/// `fill` writes. Returns the frame's length.
pub(super) fn emit(
    qpc: &Qpc,
    header: Bth,
    more: usize,
    frame: &mut [u8],
    fill: impl FnOnce(&mut [u8]),
) -> Option<usize> {
    let base = qpc.template.len();
    let transport_len = Bth::LEN + more + ICRC_LEN;
    let frame = frame.get_mut(..base + transport_len)?;
    qpc.template.emit(frame, transport_len);
    let transport = &mut frame[base..];
    bth::emit(transport, &Bth { pkey: qpc.id.pkey, dest_qp: qpc.id.dest_qpn, ..header });
    fill(&mut transport[Bth::LEN..Bth::LEN + more]);
    icrc::seal(&mut frame[qpc.template.l3_offset()..]);
    Some(base + transport_len)
}
