//! Whether a packet from the peer is processed, and the event of the first one (protocol.md 1.9).

use crate::event::AsyncEvent;
use crate::qp::{Qp, Units};
use crate::qp_state::QpState;

/// Whether the state permits that a request packet is processed. In RTR the program learns of the
/// first one.
#[inline(always)]
pub(super) fn takes_packets(qp: &mut Qp<'_>, units: &mut Units) -> bool {
    qp.hot.id.state.is_established() || in_rtr(qp, units)
}

/// Returns `true` in RTR, and tells the program of its first packet. A duplicate counts too.
#[cold]
#[inline(never)]
fn in_rtr(qp: &mut Qp<'_>, units: &mut Units) -> bool {
    if qp.hot.id.state != QpState::Rtr {
        return false;
    }
    if !core::mem::replace(&mut qp.cold.was_established, true) {
        units.events.push(AsyncEvent::CommEstablished { qpn: qp.hot.id.qpn });
    }
    true
}
