//! What cannot be placed: RNR NAKs, error NAKs and their effect at the responder (protocol.md 1.6,
//! 2.4).

use super::Responses;
use crate::qp::responder::{Refused, refuse_receive};
use crate::qp::srnic::ReceiveStream;
use crate::qp::{ControlKind, Qp, Units, fail};
use crate::queue::WcStatus;
use wire::{NakCode, Psn};

/// Raises the refusal of the packet at ePSN, `psn`, which may hold a receive; all below it has been
/// executed.
#[cold]
#[inline(never)]
pub(super) fn raise(qp: &mut Qp<'_>, units: &mut Units, psn: Psn, holds_receive: bool, refused: Refused) {
    match refused {
        Refused::Rnr | Refused::OverShare => qp.answer(units, ControlKind::Rnr { psn }),
        Refused::Nak(code, status) => {
            refuse(qp, units, psn, code, holds_receive.then_some(status));
        }
    }
}

/// Refuses everything from `psn` on until RESET, and goes to ERR, once the responses that were
/// accepted are acknowledged or given up (protocol.md 2.4, error NAK). `receive_status` ends the
/// receive that the message held, if it held one.
#[cold]
#[inline(never)]
pub(super) fn refuse(
    qp: &mut Qp<'_>,
    units: &mut Units,
    psn: Psn,
    code: NakCode,
    receive_status: Option<WcStatus>,
) {
    refuse_receive(qp, units, psn, code, receive_status);
    qp.answer(units, ControlKind::ErrorNak);
    if qp.cold.responses.as_deref().is_none_or(Responses::is_idle) {
        fail(qp, units, None);
        return;
    }
    ReceiveStream::of_requests(qp).stop(units);
    // Its timer may be off because what is outstanding is kept back.
    let id = qp.cold.of_responses();
    if let Some(responses) = qp.cold.responses.as_deref_mut() {
        responses.stream(qp.hot, &mut qp.cold.counters, id).arm(units);
    }
}
