//! Where the requester stands in its PSNs and its send queue, and how it goes back.

use crate::engine::Units;
use crate::qp;
use crate::qp::context::{QpCold, Qpc};
use crate::qp::flags::QpFlags;
use crate::qp::requester::find_among;
use crate::qp::send_stream::wake;
use crate::sched::SchedFlags;
use wire::Psn;

/// What the requester of a Plain queue pair remembers.
#[derive(Debug)]
pub(super) struct Requester {
    /// Behind the highest PSN sent; `nxt` is less while packets are sent again.
    pub max: Psn,
    /// Position behind the last request that has PSNs.
    pub begun: u32,
    /// READs and atomics that have PSNs and no response.
    pub reads: u32,
    /// Packets sent since one asked for an acknowledgement.
    pub since_ack_req: u8,
    /// `una` when a NAK, an implied one or a timeout was obeyed: each gap is repaired once, then timers see to it.
    pub obeyed_at: Option<Psn>,
    /// The tail probe that is due.
    pub probe: Option<Psn>,
    /// PSNs that may be outstanding since the last timeout: one packet, and one more for each that is acknowledged. What
    /// does not answer may be slow, and a window sent again with each timeout would keep it busy with what it has.
    pub restart: u32,
}

impl Requester {
    /// Nothing sent; the first packet is `psn`, the first request stands at `position`.
    pub const fn new(psn: Psn, position: u32) -> Self {
        Self {
            max: psn,
            begun: position,
            reads: 0,
            since_ack_req: 0,
            obeyed_at: None,
            probe: None,
            restart: u32::MAX,
        }
    }

    /// Nothing is outstanding any more; the stream stands at `psn`, also if it had gone back there.
    pub const fn stop(&mut self, psn: Psn) {
        self.max = psn;
        self.reads = 0;
        self.obeyed_at = None;
        self.probe = None;
    }
}

/// Adopts the window of the congestion controller, or as much of it as a timeout leaves.
pub(super) fn adopt_window(qpc: &mut Qpc, req: &Requester) {
    qp::adopt_window(&mut qpc.tx, &qpc.controller, qpc.id.pmtu);
    if qpc.tx.cwnd() > req.restart {
        qpc.tx.set_cwnd(req.restart);
    }
}

/// PSNs sent and not acknowledged, also those that the stream has gone back behind.
pub(super) fn outstanding(qpc: &Qpc, req: &Requester) -> u32 {
    req.max.steps_from(qpc.tx.una())
}

/// Position of the request that a PSN in use belongs to.
pub(super) fn find(qpc: &Qpc, cold: &QpCold, begun: u32, psn: Psn) -> Option<u32> {
    find_among(cold, qpc.req.head, begun.wrapping_sub(qpc.req.head), psn)
}

/// Moves the cursor in the send queue to where `nxt` is.
pub(super) fn seek(qpc: &mut Qpc, cold: &mut QpCold) {
    let Some(begun) = cold.plain.as_deref().map(|plain| plain.req.begun) else { return };
    let nxt = qpc.tx.nxt();
    match find(qpc, cold, begun, nxt) {
        Some(position) => {
            qpc.req.next = position;
            qpc.req.sent = nxt.steps_from(cold.entry(position).first_psn);
        }
        None => (qpc.req.next, qpc.req.sent) = (begun, 0),
    }
    note_rewound(qpc, cold);
}

/// Notes whether what is sent next was sent before.
pub(super) fn note_rewound(qpc: &mut Qpc, cold: &QpCold) {
    let max = cold.plain.as_deref().map_or(qpc.tx.nxt(), |plain| plain.req.max);
    qpc.flags.set(QpFlags::REWOUND, qpc.tx.nxt() != max);
}

/// Goes back to `una`: everything from there on is sent again.
pub(super) fn go_back(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) {
    qpc.tx.go_back_to_una();
    if let Some(plain) = cold.plain.as_deref_mut() {
        plain.req.obeyed_at = Some(qpc.tx.una());
        plain.req.probe = None;
    }
    // What waited for responses is decided about again when its turn comes.
    qpc.flags.remove(QpFlags::READ_WAIT);
    qpc.sched.remove(SchedFlags::PROBE);
    seek(qpc, cold);
    wake(qpc, cold, units, cold.requests());
}
