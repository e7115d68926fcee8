//! Whether a packet from the peer is processed, and the event of the first one (protocol.md 1.9).

use super::context::{QpCold, Qpc};
use super::state::QpState;
use crate::engine::{AsyncEvent, Units};

/// Whether the state permits that a request packet is processed. In RTR the program learns of the first one.
#[inline(always)]
pub(super) fn takes_packets(qpc: &Qpc, cold: &mut QpCold, units: &mut Units) -> bool {
    qpc.id.state.is_established() || in_rtr(qpc, cold, units)
}

/// The same in the states that do not send. Any packet of the peer's will do, a duplicate too.
#[cold]
#[inline(never)]
fn in_rtr(qpc: &Qpc, cold: &mut QpCold, units: &mut Units) -> bool {
    if qpc.id.state != QpState::Rtr {
        return false;
    }
    if !core::mem::replace(&mut cold.was_established, true) {
        units.events.push(AsyncEvent::CommEstablished { qpn: qpc.id.qpn });
    }
    true
}
