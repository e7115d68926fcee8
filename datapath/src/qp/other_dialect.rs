//! A peer that speaks the other dialect: nothing of it is taken (protocol.md 1.2). Both programs
//! are told, as each would else see only that the other one does not answer.

use crate::event::AsyncEvent;
use crate::qp::{Qp, Units};
use crate::qp_state::QpType;
use crate::time::Time;
use icrc::Kernel;
use wire::WireMode;

/// Packets that are answered in each life of a queue pair.
const ANSWERS: u8 = 8;

/// A frame was refused, which is in the dialect `mode` and says that it comes from the peer or not.
/// If it is whole, the peer's, and in the other dialect, the program is told, once. The peer gets
/// an acknowledgement of what has arrived by now, in our dialect: it refuses that, and its program
/// is told as well.
#[cold]
#[inline(never)]
pub(crate) fn note_refused(
    qp: &mut Qp<'_>,
    units: &mut Units,
    mode: WireMode,
    is_from_peer: bool,
    from_l3: &[u8],
) {
    let is_live = qp.hot.service == QpType::Rc && qp.hot.id.state.receives();
    if mode == qp.hot.id.mode || !is_from_peer || !is_live {
        return;
    }
    let answered = qp.cold.other_dialect;
    if answered == ANSWERS || !Kernel::detected().verify(from_l3) {
        return;
    }
    qp.cold.other_dialect = answered + 1;
    if answered == 0 {
        let peer = qp.cold.attributes.attr.av.dst_ip;
        let heard = qp.cold.heard_at != Time::ZERO;
        units.events.push(AsyncEvent::OtherDialect { qpn: qp.hot.id.qpn, peer, theirs: mode, heard });
    }
    qp.hot.rsp.owed.insist();
    qp.owe_ack(units);
}
