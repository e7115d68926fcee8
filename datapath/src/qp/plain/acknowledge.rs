//! ACKs, NAKs and RNR NAKs as standard peers know them; notifications go the same way.

use super::cnp;
use crate::counters::count;
use crate::qp::packet::{PacketBuilder, Zeros};
use crate::qp::{ControlKind, Qp, Units};
use wire::{Aeth, Bth, Fields, NakCode, Opcode, Syndrome, WireMode};

/// Writes an acknowledgement of what has arrived by now into `frame`; `kind` is `None` for the
/// plain one. Returns the frame's length; `None` if responses must be sent before it: the last of
/// them sees to it then.
#[cold]
pub(crate) fn write_ack(
    qp: &mut Qp<'_>,
    units: &mut Units,
    kind: Option<ControlKind>,
    frame: &mut [u8],
) -> Option<usize> {
    if kind == Some(ControlKind::Cnp) {
        return cnp::write(qp.hot, units, frame);
    }
    let epsn = qp.hot.rx.epsn();
    let rsp = &qp.cold.plain.as_deref()?.rsp;
    let ack = (Syndrome::ACK, rsp.taken.prev());
    let withdrawn = kind.and_then(ControlKind::withdrawn);
    let may_pass = withdrawn.map_or(!rsp.resources.is_pending(), |(psn, _)| psn.is_before(epsn));
    if !may_pass {
        return None;
    }
    let (syndrome, psn) = match (withdrawn.or(qp.cold.refusal), kind) {
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
            count!(units, qp.cold, tx_rnr_naks);
            (Syndrome::RnrNak { timer: qp.cold.attributes.attr.min_rnr_timer }, psn)
        }
        (None, _) => ack,
    };
    let bth = Bth { psn, ..qp.hot.id.bth(WireMode::Plain, Opcode::RcAck) };
    let aeth = Aeth { syndrome, msn: qp.hot.rsp.completed.get() };
    let fields = Fields { aeth, ..Fields::default() };
    let packet = PacketBuilder::new(&qp.hot.template, WireMode::Plain, bth, fields).ok()?;
    let len = packet.build(&Zeros(0), frame).ok()?;
    units.counters.tx_acks += 1;
    if withdrawn.is_none() {
        qp.hot.rsp.owed.settle(units.now);
    }
    Some(len)
}
