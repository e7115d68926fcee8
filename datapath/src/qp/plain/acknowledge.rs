//! ACKs, NAKs and RNR NAKs as standard peers know them.

use crate::engine::{ControlKind, Units};
use crate::qp::context::{QpCold, Qpc};
use wire::{Aeth, Bth, Layout, NakCode, Opcode, Psn, Syndrome, WireMode, bth, icrc};

const ICRC_LEN: usize = 4;

/// Writes an acknowledgement of what has arrived by now into `frame`; `kind` is `None` for the plain one. Returns the
/// frame's length; `None` if responses must be sent before it: the last of them sees to it then.
#[cold]
pub(crate) fn write_ack(
    qpc: &mut Qpc,
    cold: &QpCold,
    units: &mut Units,
    kind: Option<ControlKind>,
    frame: &mut [u8],
) -> Option<usize> {
    let epsn = qpc.rx.epsn();
    let ack = (Syndrome::ACK, epsn.prev());
    let rsp = &cold.plain.as_deref()?.rsp;
    if rsp.resources.is_pending() {
        return None;
    }
    let (syndrome, psn) = match (cold.refusal, kind) {
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
            units.counters.tx_rnr_naks += 1;
            (Syndrome::RnrNak { timer: cold.attributes.attr.min_rnr_timer }, psn)
        }
        (None, _) => ack,
    };
    let len = emit(qpc, syndrome, psn, frame)?;
    units.counters.tx_acks += 1;
    qpc.rsp.owed.settle();
    Some(len)
}

fn emit(qpc: &Qpc, syndrome: Syndrome, psn: Psn, frame: &mut [u8]) -> Option<usize> {
    let layout = Layout::of(WireMode::Plain, Opcode::RcAck)?;
    let base = qpc.template.len();
    let transport_len = usize::from(layout.len) + ICRC_LEN;
    let frame = frame.get_mut(..base + transport_len)?;
    qpc.template.emit(frame, transport_len);
    let transport = &mut frame[base..];
    let header =
        Bth { pkey: qpc.id.pkey, dest_qp: qpc.id.dest_qpn, psn, ..Bth::new(WireMode::Plain, Opcode::RcAck) };
    bth::emit(transport, &header);
    Aeth { syndrome, msn: qpc.rsp.completed }.emit(&mut transport[usize::from(layout.aeth)..]);
    icrc::seal(&mut frame[qpc.template.l3_offset()..]);
    Some(base + transport_len)
}
