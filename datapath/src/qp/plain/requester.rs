//! Where the requester stands in its PSNs and its send queue, and how it goes back.

use crate::qp::send_stream::SendStream;
use crate::qp::{self, Qp, QpFlags, Qpc, Units};
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
    /// `una` when a NAK, an implied one or a timeout was obeyed: each gap is repaired once, then
    /// timers see to it.
    pub obeyed_at: Option<Psn>,
    /// PSNs that may be outstanding since the last timeout: one packet, and one more for each that
    /// is acknowledged. What does not answer may be slow, and a window sent again with each timeout
    /// would keep it busy with what it has.
    pub restart: u32,
}

impl Requester {
    /// Nothing sent; the first packet is `psn`, the first request stands at `position`.
    pub const fn new(psn: Psn, position: u32) -> Self {
        Self { max: psn, begun: position, reads: 0, since_ack_req: 0, obeyed_at: None, restart: u32::MAX }
    }

    /// Nothing is outstanding any more; the stream stands at `psn`, also if it had gone back there.
    pub const fn stop(&mut self, psn: Psn) {
        self.max = psn;
        self.reads = 0;
        self.obeyed_at = None;
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
pub(super) fn find(qp: &Qp<'_>, begun: u32, psn: Psn) -> Option<u32> {
    qp.cold.find_message(qp.hot.req.head, begun.wrapping_sub(qp.hot.req.head), psn)
}

/// Moves the cursor in the send queue to where `nxt` is.
pub(super) fn seek(qp: &mut Qp<'_>) {
    let Some(begun) = qp.cold.plain.as_deref().map(|plain| plain.req.begun) else { return };
    let nxt = qp.hot.tx.nxt();
    match find(qp, begun, nxt) {
        Some(position) => {
            qp.hot.req.next = position;
            qp.hot.req.sent = nxt.steps_from(qp.cold.entry(position).first_psn);
        }
        None => (qp.hot.req.next, qp.hot.req.sent) = (begun, 0),
    }
    note_rewound(qp);
}

/// Notes whether what is sent next was sent before.
pub(super) fn note_rewound(qp: &mut Qp<'_>) {
    let max = qp.cold.plain.as_deref().map_or(qp.hot.tx.nxt(), |plain| plain.req.max);
    qp.hot.flags.set(QpFlags::REWOUND, qp.hot.tx.nxt() != max);
}

/// Goes back to `una`: everything from there on is sent again.
pub(super) fn go_back(qp: &mut Qp<'_>, units: &mut Units) {
    qp.hot.tx.go_back_to_una();
    if let Some(plain) = qp.cold.plain.as_deref_mut() {
        plain.req.obeyed_at = Some(qp.hot.tx.una());
    }
    // What waited for responses is decided about again when its turn comes.
    qp.hot.flags.remove(QpFlags::READ_WAIT);
    SendStream::of_requests(qp).cancel_probes();
    seek(qp);
    qp.wake(qp.cold.requests(), units);
}
